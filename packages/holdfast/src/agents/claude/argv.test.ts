import { expect, test } from "vitest";
import { claudeArgs, sandboxOf } from "./argv.ts";

const TASK = { model: null, yolo: false, session: null, forkAt: null };
const ALWAYS = ["--print", "--output-format", "stream-json", "--verbose", "--include-partial-messages"];
const FORK = ["--resume", "old", "--fork-session", "--resume-session-at", "message", "--session-id", "new"];
const EDITS = ["--permission-mode", "acceptEdits"];

test("a new session gets the id that was chosen, and only edits are free", () => {
  expect(claudeArgs({ task: TASK, session: "new", extra: [] })).toEqual([...ALWAYS, ...EDITS, "--session-id", "new"]);
});

test("model and yolo", () => {
  expect(claudeArgs({ task: { ...TASK, model: "opus", yolo: true }, session: "new", extra: [] })).toEqual([
    ...ALWAYS,
    "--model",
    "opus",
    "--dangerously-skip-permissions",
    "--session-id",
    "new",
  ]);
});

test("a sandbox is claimed in a container only, and never over what the user says", () => {
  const args = ["--dangerously-skip-permissions"];
  const root = { args, isRoot: true, isContainer: false, env: {} };
  expect(sandboxOf(root)).toEqual({ kind: "refused" });
  expect(sandboxOf({ ...root, isContainer: true })).toEqual({ kind: "start", env: { IS_SANDBOX: "1" } });
  expect(sandboxOf({ ...root, env: { IS_SANDBOX: "yes" } })).toEqual({ kind: "start", env: { IS_SANDBOX: "1" } });
  expect(sandboxOf({ ...root, isContainer: true, env: { IS_SANDBOX: "0" } })).toEqual({ kind: "refused" });
  expect(sandboxOf({ ...root, isRoot: false })).toEqual({ kind: "start", env: {} });
  expect(sandboxOf({ ...root, args: ["--permission-mode", "acceptEdits"] })).toEqual({ kind: "start", env: {} });
});

test("a session that is gone on with keeps its id, a fork gets a new one", () => {
  const task = { ...TASK, session: "old" };
  expect(claudeArgs({ task, session: "old", extra: [] })).toEqual([...ALWAYS, ...EDITS, "--resume", "old"]);
  expect(claudeArgs({ task: { ...task, forkAt: "message" }, session: "new", extra: [] })).toEqual([
    ...ALWAYS,
    ...EDITS,
    ...FORK,
  ]);
});

test("the user's own arguments, and a way to ask that takes the place of ours", () => {
  const args = (extra: readonly string[]) => claudeArgs({ task: { ...TASK, yolo: true }, session: "new", extra });
  expect(args(["--disallowedTools", "WebFetch"]).join(" ")).toContain(
    "--dangerously-skip-permissions --disallowedTools WebFetch --session-id new",
  );
  expect(args(["--permission-mode", "plan"])).not.toContain("--dangerously-skip-permissions");
});
