import { describe, expect, onTestFinished, test } from "vitest";
import type { AgentTask } from "@holdfast/core/agent";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { prepareCall } from "@holdfast/testing/agent-contract";
import { createSetClock } from "@holdfast/testing/store-contract/harness";
import { createCommandAgent } from "./command.ts";

const clock = createSetClock("2026-03-01T12:00:00.000Z");

function run(model: string, change: Partial<AgentTask> = {}) {
  const place = { cwd: scratchDirectory(onTestFinished) };
  const { task } = prepareCall(place, { prompt: "The prompt", model, yolo: false, ...change });
  return createCommandAgent({ clock }).run(task);
}

test("the prompt is on standard input, and all of standard output is the text", async () => {
  const outcome = await run("cat; echo noise >&2; echo; echo bye");
  expect(outcome).toMatchObject({ kind: "completed", text: "The prompt\nbye\n", session: null });
});

test("the facts of the call are in its environment", async () => {
  const command =
    'echo "$HOLDFAST_ROLE $HOLDFAST_ITERATION $HOLDFAST_ATTEMPT $HOLDFAST_YOLO $HOLDFAST_ISSUE [$HOLDFAST_SESSION]"';
  const outcome = await run(command, {
    role: "review",
    iteration: 4,
    attempt: 2,
    yolo: true,
    env: { HOLDFAST_ISSUE: "7" },
  });
  expect(outcome).toMatchObject({ kind: "completed", text: "review 4 2 1 7 []\n" });
});

test("secrets of the environment and keys of known providers reach only the agent", async () => {
  const lines: string[] = [];
  const key = ["sk-ant", "api03-AbCdEfGhIjKlMnOpQrStUvWx"].join("-");
  const outcome = await run(`echo "$SHOP_TOKEN and ${key}"; echo "$SHOP_TOKEN" >&2`, {
    env: { SHOP_TOKEN: "correct horse" },
    onEvent: (event) => void (event.kind === "raw" && lines.push(event.line)),
  });
  expect(outcome).toMatchObject({ kind: "completed", text: "*** and ***\n" });
  expect(lines.toSorted()).toEqual(["***", "*** and ***"]);
});

describe("causes of failures", () => {
  test.each([
    ["no-such-program-here", { cause: "missing", instant: true }],
    ["/etc/passwd", { cause: "missing", instant: true }],
    ["exit 3", { cause: "crash", instant: true }],
    ["echo some work; exit 3", { cause: "crash", instant: false }],
    [
      "echo complaint >&2; exit 1",
      { cause: "crash", instant: true, message: "`echo complaint >&2; exit 1` failed with exit 1: complaint" },
    ],
    ["kill -9 $$", { cause: "killed", instant: true, message: "`kill -9 $$` was ended by SIGKILL" }],
    ["sh -c 'kill -15 $$'; exit $?", { cause: "killed", instant: true }],
    ["exit 75", { cause: "overload", instant: true, until: null }],
    ["echo 'Retry-After: 90' >&2; exit 75", { cause: "overload", until: "2026-03-01T12:01:30.000Z" }],
    [
      "echo 'retry-after: Sun, 01 Mar 2026 13:00:00 GMT' >&2; exit 75",
      { cause: "overload", until: "2026-03-01T13:00:00.000Z" },
    ],
    ["echo 'retry-after: soon' >&2; exit 75", { cause: "overload", until: null }],
    ["echo 'retry-after: 1e400' >&2; exit 75", { cause: "overload", until: null }],
    ["echo 'retry-after: 99999999999999999999' >&2; exit 75", { cause: "overload", until: null }],
  ])("%s", async (command, expected) => {
    expect(await run(command)).toMatchObject({ kind: "failed", ...expected });
  });
});

test("an empty command is reported, not run", async () => {
  expect(await run("  ")).toMatchObject({ kind: "failed", cause: "missing" });
});

test("an endless line does not fill the memory, and its end is kept", async () => {
  const outcome = await run("head -c 3000000 /dev/zero | tr '\\0' x; echo end");
  expect(outcome.kind === "completed" ? [outcome.text.length, outcome.text.slice(-5)] : outcome).toEqual([
    1_000_000,
    "xend\n",
  ]);
});
