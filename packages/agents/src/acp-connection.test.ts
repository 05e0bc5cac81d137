import { mkdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { type AcpResult, classifyAcp, createWorktreeFiles, decidePermission } from "./acp-connection.ts";

describe("answer permission", () => {
  describe("permissions", () => {
    const options = ["allow_always", "allow_once", "reject_once"].map((kind) => ({ kind, optionId: `id-${kind}` }));
    const ask = (toolCall: object, yolo: boolean, offered: readonly object[] = options) =>
      decidePermission({
        request: { options: offered, toolCall },
        yolo,
        isInside: (path) => path.startsWith("/tree/"),
      });
    const shell = { kind: "execute", title: "rm -rf /" };

    test("yolo allows every request, once rather than always", () => {
      const allowed = { outcome: { outcome: "selected", optionId: "id-allow_once" }, denied: null };
      expect(ask(shell, true)).toEqual(allowed);
      expect(ask(shell, true, options.slice(0, 1)).outcome).toEqual({
        outcome: "selected",
        optionId: "id-allow_always",
      });
    });

    test("without yolo only edits of files in the worktree are allowed", () => {
      const edit = (...paths: readonly string[]) => ({ kind: "edit", locations: paths.map((path) => ({ path })) });
      expect(ask(edit("/tree/a", "/tree/b"), false).denied).toBeNull();
      expect(ask(edit("/tree/a", "/etc/b"), false).denied).toBe("edit");
      expect(ask(edit(), false).denied).toBe("edit");
      expect(ask(shell, false)).toEqual({
        outcome: { outcome: "selected", optionId: "id-reject_once" },
        denied: "rm -rf /",
      });
    });

    test("a request without a matching option is cancelled, which is a denial", () => {
      expect(ask(shell, false, options.slice(0, 2))).toEqual({ outcome: { outcome: "cancelled" }, denied: "rm -rf /" });
      expect(ask(shell, true, []).denied).toBe("rm -rf /");
    });
  });
});

describe("classify", () => {
  describe("ends", () => {
    const base = { title: "X", text: "words", denied: [], resumes: false, worked: false };
    const ended = (end: AcpResult | null, change: object = {}) => classifyAcp({ ...base, end, ...change });
    const refused = (code: number, message = "no", at: "begin" | "session" | "prompt" = "prompt"): AcpResult => ({
      kind: "refused",
      at,
      error: { code, message },
    });

    const provider = (message: string, status: number | null = null): AcpResult => ({
      kind: "refused",
      at: "prompt",
      error: { code: -32_603, message, status, isProvider: true },
    });

    test.each([
      ["end_turn", "completed"],
      ["max_tokens", "context_too_long"],
      ["max_turn_requests", "crash"],
      ["refusal", "refusal"],
      ["cancelled", "killed"],
      ["from_the_future", "crash"],
    ])("%s: %s", (stopReason, expected) => {
      const end = ended({ kind: "answered", stopReason });
      expect(end.kind === "failed" ? end.cause : end.kind).toBe(expected);
    });

    test.each([
      [refused(-32_000), {}, "auth"],
      [refused(401), {}, "auth"],
      [refused(429), {}, "rate_limit"],
      [refused(500), {}, "overload"],
      [refused(500, "models/x is not found"), {}, "missing"],
      [refused(500, "fetch failed"), {}, "network"],
      [refused(-32_603, '{"error":{"code":503,"message":"busy"}}'), {}, "overload"],
      [refused(500, "terminated"), {}, "network"],
      [refused(-32_603, "Internal error: 401 invalid api key"), {}, "auth"],
      [refused(-32_603, "Internal error: 401 OAuth token has expired. Please log in again."), {}, "auth"],
      [refused(-32_603, "Internal error: 500 internal error"), {}, "overload"],
      [refused(-32_603, "Internal error: 429 slow down"), {}, "rate_limit"],
      [refused(-32_603, "Internal error"), {}, "crash"],
      [refused(-32_603, "EACCES: permission denied"), {}, "crash"],
      [provider("permission denied"), {}, "auth"],
      [provider("invalid api key"), {}, "auth"],
      [provider("internal error"), {}, "overload"],
      [provider("no", 402), {}, "billing"],
      [provider("something else"), { resumes: true }, "crash"],
      [refused(400), {}, "crash"],
      [refused(400), { resumes: true }, "session_lost"],
      [refused(400), { resumes: true, worked: true }, "crash"],
      [refused(-32_002, "unknown session", "session"), { resumes: true }, "session_lost"],
      [refused(-32_000, "log in", "session"), { resumes: true }, "auth"],
      [refused(-32_603, "broken", "session"), {}, "crash"],
    ])("%j, %j: %s", (end, change, cause) => {
      expect(ended(end, change)).toMatchObject({ kind: "failed", cause });
    });

    test("a denied action and a missing answer are not a success", () => {
      const answered: AcpResult = { kind: "answered", stopReason: "end_turn" };
      expect(ended(answered, { denied: ["rm"] })).toMatchObject({
        cause: "permission_denied",
        message: expect.stringContaining("rm"),
      });
      expect(ended(null)).toEqual({ kind: "open" });
    });
  });

  test("an error text of Copilot CLI in place of an answer is a failure, whatever its stop reason", () => {
    const answered = { kind: "answered", stopReason: "end_turn" } as const;
    const of = (text: string, title = "Copilot") =>
      classifyAcp({ end: answered, title, text, denied: [], resumes: false, worked: true });
    expect(of("Error: Authentication failed with provider (HTTP 403).")).toMatchObject({ cause: "auth" });
    expect(of("Error: 400 This model requires a newer version of the client.")).toMatchObject({ cause: "too_old" });
    expect(of("Info: Retrying...Error: stream ended without a message")).toMatchObject({ cause: "network" });
    expect(of("Error: retried 5 times. Last error: 500 internal error")).toMatchObject({ cause: "overload" });
    expect(of("Error: I fixed it", "Gemini CLI")).toMatchObject({ kind: "completed" });
    expect(of("The test printed Error: x, which I fixed.")).toMatchObject({ kind: "completed" });
  });
});

describe("worktree files", () => {
  describe("file access through Holdfast", () => {
    test("reaches only files of the worktree, through any name or link", ({ onTestFinished }) => {
      const folder = realpathSync(scratchDirectory(onTestFinished));
      const tree = join(folder, "tree");
      mkdirSync(join(tree, ".git"), { recursive: true });
      writeFileSync(join(folder, "secret"), "secret");
      symlinkSync(folder, join(tree, "out"));
      symlinkSync(join(folder, "new"), join(tree, "dangling"));
      const files = createWorktreeFiles(tree);
      const all = { line: null, limit: null };
      for (const path of [
        join(folder, "secret"),
        join(tree, "../secret"),
        join(tree, "out/secret"),
        join(tree, "out/made/by/it"),
        join(tree, "dangling"),
        join(tree, ".git/config"),
        "made.txt",
      ]) {
        expect(files.isInside(path), path).toBe(false);
        expect(files.read(path, all), path).toMatchObject({ kind: "refused" });
        expect(files.write(path, "x"), path).toMatchObject({ kind: "refused" });
      }
      expect(readFileSync(join(folder, "secret"), "utf8")).toBe("secret");
      const made = join(tree, "a/b/made.txt");
      expect(files.read(made, all)).toEqual({ kind: "absent" });
      expect(files.write(made, "1\n2\n3\n4\n")).toEqual({ kind: "written" });
      expect(files.read(made, all)).toEqual({ kind: "read", text: "1\n2\n3\n4\n" });
      expect(files.read(made, { line: 2, limit: 2 })).toEqual({ kind: "read", text: "2\n3" });
    });
  });
});
