import { describe, expect, test } from "vitest";
import {
  chooseDefault,
  chooseRemote,
  classifyRemoteFailure,
  findFailedHook,
  hideCredentials,
  parsePushReport,
} from "./remote.ts";

const ALWAYS =
  "error: failed to push some refs to 'x'\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.\n";

describe("texts that every refusal prints do not classify", () => {
  test.each([
    ["[rejected] (non-fast-forward)", "non_fast_forward"],
    ["[rejected] (fetch first)", "non_fast_forward"],
    ["[rejected] (stale info)", "stale_lease"],
    ["[remote rejected] (non-fast-forward)", "protected"],
    ["[remote rejected] (protected branch hook declined)", "protected"],
    ["[remote rejected] (pre-receive hook declined)", "hook"],
    ["[remote rejected] (hook declined)", "hook"],
    ["[remote rejected] (cannot lock ref 'refs/heads/x': is at 1 but expected 2)", "stale_lease"],
    ["[remote rejected] (failed to update ref)", "remote"],
    ["[remote rejected] (cannot lock ref 'refs/heads/x': Unable to create 'x.lock': File exists)", "remote"],
    ["[remote rejected] (unpacker error)", "remote"],
    ["[remote rejected] (Internal Server Error)", "remote"],
    ["[remote rejected] (failure)", "remote"],
    ["[remote rejected] (branch is currently checked out)", "other"],
  ])("%s is %s", (summary, cause) => {
    const report = { flag: "!", summary };
    expect(classifyRemoteFailure({ report, failedHook: null, stderr: ALWAYS, timedOut: false }).cause).toBe(cause);
  });

  test.each([
    ["remote: error: cannot lock ref 'refs/heads/x': is at 1 but expected 2", "failed to update ref", "stale_lease"],
    ["remote: error: cannot lock ref 'refs/heads/x': Unable to create 'x.lock'", "failed to update ref", "remote"],
    ["remote: GitLab: Internal API error (502)", "pre-receive hook declined", "remote"],
    ["remote: the policy service is temporarily unavailable", "pre-receive hook declined", "remote"],
    ["remote: sign your commits", "pre-receive hook declined", "hook"],
    [
      "remote: error: GH013: Repository rule violations found",
      "push declined due to repository rule violations",
      "protected",
    ],
    [
      "remote: error: GH013: x\nremote: - GITHUB PUSH PROTECTION",
      "push declined due to repository rule violations",
      "secret",
    ],
    ["remote: error: GH009: Secrets detected! This push failed.", "pre-receive hook declined", "secret"],
    ["remote: PUSH BLOCKED: Secrets detected in code changes", "pre-receive hook declined", "secret"],
  ])("%j with (%s) is %s", (stderr, reason, cause) => {
    const report = { flag: "!", summary: `[remote rejected] (${reason})` };
    expect(classifyRemoteFailure({ report, failedHook: null, stderr, timedOut: false }).cause).toBe(cause);
  });

  test.each([
    ["", "other"],
    ["git@github.com: Permission denied (publickey).", "auth"],
    [
      "remote: Permission to o/r.git denied to ada.\nfatal: unable to access 'x': The requested URL returned error: 403",
      "auth",
    ],
    ["fatal: could not read Username for 'https://x': terminal prompts disabled", "auth"],
    ["fatal: Authentication failed for 'https://x'", "auth"],
    ["Host key verification failed.", "auth"],
    ["remote: Repository not found.\nfatal: repository 'https://x/' not found", "missing_remote"],
    ["fatal: '/nowhere' does not appear to be a git repository", "missing_remote"],
    ["ssh: Could not resolve hostname x: Name or service not known", "network"],
    ["fatal: unable to access 'x': Could not resolve host: x", "network"],
    ["ssh: connect to host x port 22: Connection refused", "network"],
    ["fatal: unable to access 'x': The requested URL returned error: 503", "network"],
    ["fatal: the remote end hung up unexpectedly", "network"],
    ["fatal: the remote end hung up upon initial contact", "network"],
    ["send-pack: unexpected disconnect while reading sideband packet", "network"],
    ["Permission denied (publickey).\nfatal: the remote end hung up unexpectedly", "auth"],
    ["error: src refspec x does not match any", "other"],
  ])("without a report on the ref, %j is %s", (stderr, cause) => {
    const refusal = classifyRemoteFailure({
      report: undefined,
      failedHook: null,
      stderr: `${stderr}\n${ALWAYS}`,
      timedOut: false,
    });
    expect(refusal.cause).toBe(cause);
    expect(refusal.message).not.toContain("failed to push some refs");
  });

  test("a timeout is a network failure; a failed local hook is a hook failure, whatever it printed", () => {
    const facts = { report: undefined, failedHook: null, stderr: "", timedOut: false };
    expect(classifyRemoteFailure({ ...facts, timedOut: true }).cause).toBe("network");
    expect(classifyRemoteFailure({ ...facts, failedHook: "pre-push", stderr: "Connection refused" }).cause).toBe(
      "local_hook",
    );
  });

  test("the report is that of our ref, not of one with the same ending", () => {
    const out =
      "To x\n!\trefs/heads/a:refs/heads/x/a\t[rejected] (stale info)\n=\trefs/heads/a:refs/heads/a\t[up to date]\nDone\n";
    expect(parsePushReport(out, "refs/heads/a")).toEqual({ flag: "=", summary: "[up to date]" });
    expect(parsePushReport(out, "refs/heads/b")).toBeUndefined();
  });
});

test.each([
  ["https://ada:s3cret@host/x.git", "https://***@host/x.git"],
  ["see http://token@host/x and git@host:x", "see http://***@host/x and git@host:x"],
  ["ssh://git@host/x", "ssh://git@host/x"],
  ["ssh://git:pw@host/x", "ssh://***@host/x"],
  ["no url here, mail a@b.c", "no url here, mail a@b.c"],
])("%j is printed as %j", (text, printed) => {
  expect(hideCredentials(text)).toBe(printed);
});

test("only a hook's own failure is a failed hook", () => {
  const start = (id: number, kind: string): string =>
    JSON.stringify({ event: "child_start", sid: "s", child_id: id, child_class: kind, hook_name: "pre-push" });
  const end = (id: number, code: number): string =>
    JSON.stringify({ event: "child_exit", sid: "s", child_id: id, code });
  expect(findFailedHook([start(1, "hook"), end(1, 0), start(2, "transport/ssh"), end(2, 255)].join("\n"))).toBeNull();
  expect(findFailedHook([start(1, "hook"), "{torn", end(1, 3)].join("\n"))).toBe("pre-push");
  expect(findFailedHook("")).toBeNull();
});

describe("remote and default branch", () => {
  const none = { configured: null, preferred: "" };
  test.each([
    [["origin", "upstream"], none, "upstream", "origin"],
    [["fork", "origin"], none, "origin", "origin"],
    [["fork"], none, "fork", "fork"],
    [["a", "b"], { ...none, preferred: "b" }, "b", "b"],
    [["origin", "upstream", "fork"], { ...none, preferred: "fork" }, "upstream", "fork"],
    [["origin", "upstream"], { ...none, preferred: "upstream" }, "upstream", "upstream"],
    [["origin", "upstream"], { ...none, configured: "origin" }, "origin", "origin"],
    [[], none, null, null],
  ])("of %j with %j the base is on %j, and pushes go to %j", (names, more, base, push) => {
    expect(chooseRemote({ names, ...more, role: "base" })).toBe(base);
    expect(chooseRemote({ names, ...more, role: "push" })).toBe(push);
  });

  test("a configured remote that does not exist is refused with the names", () => {
    expect(() => chooseRemote({ names: ["origin"], configured: "up", preferred: "", role: "push" })).toThrow(/origin/);
  });

  test.each([
    ["trunk", ["main", "trunk"], "trunk"],
    ["master", ["main"], "main"],
    [null, ["master", "x"], "master"],
    [null, ["main", "master"], null],
    ["gone", ["x"], null],
  ])("HEAD %j over %j is %j", (head, branches, chosen) => {
    expect(chooseDefault({ head, branches })).toBe(chosen);
  });
});
