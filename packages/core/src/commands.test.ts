import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { randomId } from "@holdfast/platform/identity";
import { readProcess } from "@holdfast/platform/process-tree";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { systemCommands } from "./commands.ts";

function place() {
  const cwd = scratchDirectory(onTestFinished);
  return { cwd, mark: `run-${randomId()}/1/gate`, timeoutMs: null, signal: new AbortController().signal };
}

test("output of both streams, the exit code, the directory and the environment", async () => {
  process.env["GIT_DIR"] = "/nowhere";
  process.env["HOLDFAST_OUTER"] = "1";
  onTestFinished(() => {
    delete process.env["GIT_DIR"];
    delete process.env["HOLDFAST_OUTER"];
  });
  const at = place();
  const command = `pwd; sleep 0.1; echo "é $HOLDFAST_MARK [$GIT_DIR$HOLDFAST_OUTER] $EXTRA" >&2; exit 3`;
  const result = await systemCommands.run({ ...at, command, env: { EXTRA: "more", HOLDFAST_MARK: "stolen" } });
  expect(result).toMatchObject({ kind: "exited", code: 3, output: `${at.cwd}\né ${at.mark} [] more\n` });
});

test("only the last part of a long output is kept, including its end", async () => {
  const command = `i=0; while [ $i -lt 5000 ]; do echo "line $i ........................................"; i=$((i+1)); done; echo the end`;
  const { output } = await systemCommands.run({ ...place(), command });
  expect(output.length).toBe(64 * 1024);
  expect(output.endsWith("the end\n")).toBe(true);
});

test("a missing program, a signal and a missing directory are results", async () => {
  expect(await systemCommands.run({ ...place(), command: "no-such-program-here" })).toMatchObject({ code: 127 });
  expect(await systemCommands.run({ ...place(), command: "kill -9 $$" })).toMatchObject({ kind: "exited", code: 137 });
  const gone = await systemCommands.run({ ...place(), cwd: "/nonexistent/place", command: "true" });
  expect(gone).toMatchObject({ kind: "not_started", code: null, output: "/nonexistent/place is not a directory" });
  const nul = await systemCommands.run({ ...place(), command: "true", env: { A: "\0" } });
  expect(nul).toMatchObject({ kind: "not_started" });
});

test("timeout and abort end a command with everything that it started, and an abort before the start starts nothing", async () => {
  const at = place();
  const command = `setsid sh -c 'echo $$ > pid; exec sleep 600' & sleep 600`;
  const pidOf = (cwd: string): number => Number(readFileSync(join(cwd, "pid"), "utf8"));
  expect(await systemCommands.run({ ...at, command, timeoutMs: 5000 })).toMatchObject({
    kind: "timed_out",
    code: null,
  });
  expect(readProcess(pidOf(at.cwd))).toBeNull();

  const second = place();
  const abort = new AbortController();
  const running = systemCommands.run({ ...second, command, signal: abort.signal });
  while (!existsSync(join(second.cwd, "pid")) || pidOf(second.cwd) === 0) await pause(5);
  abort.abort();
  expect(await running).toMatchObject({ kind: "interrupted" });
  expect(readProcess(pidOf(second.cwd))).toBeNull();

  const third = place();
  expect(await systemCommands.run({ ...third, command: "touch it", signal: AbortSignal.abort() })).toMatchObject({
    kind: "interrupted",
  });
  expect(existsSync(join(third.cwd, "it"))).toBe(false);
});

test("processes that it leaves are ended when it returns, also those that hold the output open", async () => {
  const at = place();
  const result = await systemCommands.run({
    ...at,
    command: `setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done; echo done`,
  });
  expect(result).toMatchObject({ kind: "exited", code: 0, output: "done\n" });
  expect(readProcess(Number(readFileSync(join(at.cwd, "pid"), "utf8")))).toBeNull();
});

test("endMarked reaches every command of a run", async () => {
  const at = place();
  mkdirSync(join(at.cwd, "up"));
  const running = systemCommands.run({ ...at, command: "touch up/now; sleep 600" });
  while (!existsSync(join(at.cwd, "up/now"))) await pause(5);
  const { ended, supported } = await systemCommands.endMarked(at.mark.slice(0, at.mark.indexOf("/")));
  expect(supported).toBe(true);
  expect(ended).toBeGreaterThanOrEqual(1);
  expect(await running).toMatchObject({ kind: "exited", code: 143 });
});
