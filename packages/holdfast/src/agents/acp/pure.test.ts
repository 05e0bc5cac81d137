import { mkdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { scratchDirectory } from "../../testing/store-contract/scratch-directory.ts";
import { answerPermission } from "./answer-permission.ts";
import { classifyAcp, type AcpEnd } from "./classify.ts";
import { NOTHING_HEARD, readUpdate } from "./read-update.ts";
import { acpUsage } from "./usage.ts";
import { createWorktreeFiles } from "./worktree-files.ts";

describe("permissions", () => {
  const options = ["allow_always", "allow_once", "reject_once"].map((kind) => ({ kind, optionId: `id-${kind}` }));
  const ask = (toolCall: object, yolo: boolean, offered: readonly object[] = options) =>
    answerPermission({ request: { options: offered, toolCall }, yolo, isInside: (path) => path.startsWith("/tree/") });
  const shell = { kind: "execute", title: "rm -rf /" };

  test("with yolo all is allowed, once rather than always", () => {
    const allowed = { outcome: { outcome: "selected", optionId: "id-allow_once" }, denied: null };
    expect(ask(shell, true)).toEqual(allowed);
    expect(ask(shell, true, options.slice(0, 1)).outcome).toEqual({ outcome: "selected", optionId: "id-allow_always" });
  });

  test("without, only edits of files in the worktree", () => {
    const edit = (...paths: readonly string[]) => ({ kind: "edit", locations: paths.map((path) => ({ path })) });
    expect(ask(edit("/tree/a", "/tree/b"), false).denied).toBeNull();
    expect(ask(edit("/tree/a", "/etc/b"), false).denied).toBe("edit");
    expect(ask(edit(), false).denied).toBe("edit");
    expect(ask(shell, false)).toEqual({
      outcome: { outcome: "selected", optionId: "id-reject_once" },
      denied: "rm -rf /",
    });
  });

  test("who offers nothing that fits is told that it is cancelled, which is a denial", () => {
    expect(ask(shell, false, options.slice(0, 2))).toEqual({ outcome: { outcome: "cancelled" }, denied: "rm -rf /" });
    expect(ask(shell, true, []).denied).toBe("rm -rf /");
  });
});

describe("updates", () => {
  const chunk = (text: string) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  const heard = (updates: readonly object[]) =>
    updates.reduce((state: typeof NOTHING_HEARD, update) => readUpdate(state, { ...update }).state, NOTHING_HEARD);

  test("the last words are those after the last tool call", () => {
    const tool = { sessionUpdate: "tool_call", kind: "edit", title: "Writing" };
    expect(heard([chunk("I will "), chunk("write."), tool, chunk("All "), chunk("done.")]).text).toBe("All done.");
    expect(heard([chunk("Writing now."), tool]).text).toBe("Writing now.");
  });

  test("money is the last that was told, in dollars", () => {
    const cost = (amount: number, currency: string) => ({ sessionUpdate: "usage_update", cost: { amount, currency } });
    expect(heard([cost(0.1, "USD"), cost(0.25, "USD"), { sessionUpdate: "usage_update" }]).cost).toBe(250_000);
    expect(heard([cost(3, "credits")]).cost).toBeNull();
  });

  test("what is not known changes nothing", () => {
    for (const update of [{}, { sessionUpdate: "from_the_future", content: 1 }, chunk("")])
      expect(readUpdate(NOTHING_HEARD, update)).toEqual({ state: NOTHING_HEARD, events: [] });
  });
});

describe("usage is of this call alone", () => {
  const nothing = { answer: null, agent: "x", isNew: true, costBefore: null, costNow: null };
  const answer = { usage: { inputTokens: 30, outputTokens: 4, cachedReadTokens: 6, totalTokens: 40 } };

  test.each([
    ["nothing told", nothing, [null, null, null]],
    ["cached tokens beside the input", { ...nothing, answer }, [36, 4, null]],
    ["and within it", { ...nothing, answer: { usage: { ...answer.usage, totalTokens: 34 } } }, [30, 4, null]],
    ["a session that goes on: turn or session, nobody knows", { ...nothing, answer, isNew: false }, [null, null, null]],
    ["one that tells its last request only", { ...nothing, answer, agent: "OpenCode" }, [null, null, null]],
    ["money of a new session", { ...nothing, costNow: 70 }, [null, null, 70]],
    ["less what it had cost before", { ...nothing, isNew: false, costBefore: 50, costNow: 70 }, [null, null, 20]],
    ["which was not told", { ...nothing, isNew: false, costNow: 70 }, [null, null, null]],
  ])("%s", (_, given, [inputTokens, outputTokens, microUsd]) => {
    expect(acpUsage(given)).toEqual({ inputTokens, outputTokens, microUsd });
  });
});

describe("ends", () => {
  const base = { title: "X", text: "words", denied: [], resumes: false, worked: false };
  const ended = (end: AcpEnd | null, change: object = {}) => classifyAcp({ ...base, end, ...change });
  const refused = (code: number, message = "no", at: "begin" | "session" | "prompt" = "prompt"): AcpEnd => ({
    kind: "refused",
    at,
    error: { code, message },
  });

  test.each([
    ["end_turn", "completed"],
    ["max_tokens", "context_too_long"],
    ["max_turn_requests", "crash"],
    ["refusal", "crash"],
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
    [refused(400), {}, "crash"],
    [refused(400), { resumes: true }, "session_lost"],
    [refused(400), { resumes: true, worked: true }, "crash"],
    [refused(-32_002, "unknown session", "session"), { resumes: true }, "session_lost"],
    [refused(-32_000, "log in", "session"), { resumes: true }, "auth"],
    [refused(-32_603, "broken", "session"), {}, "crash"],
  ])("%j, %j: %s", (end, change, cause) => {
    expect(ended(end, change)).toMatchObject({ kind: "failed", cause });
  });

  test("what was denied is no success, and no answer is none", () => {
    const answered: AcpEnd = { kind: "answered", stopReason: "end_turn" };
    expect(ended(answered, { denied: ["rm"] })).toMatchObject({
      cause: "permission_denied",
      message: expect.stringContaining("rm"),
    });
    expect(ended(null)).toEqual({ kind: "open" });
  });
});

describe("files through us", () => {
  test("are those of the worktree, wherever a name or a link leads", ({ onTestFinished }) => {
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
