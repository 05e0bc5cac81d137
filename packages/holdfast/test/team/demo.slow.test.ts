import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { postgresMissing } from "@holdfast/test-support/postgres-server";

const missing = postgresMissing();
beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

let holdfast: BuiltCommand;
beforeAll(async () => {
  holdfast = await buildCommand();
});
afterAll(() => holdfast.remove());

const DEMO = fileURLToPath(new URL("../../../../examples/team/demo.mjs", import.meta.url));

function startDemo(...args: readonly string[]): { readonly child: ChildProcess; readonly output: () => string } {
  const child = spawn(process.execPath, [DEMO, "--holdfast", holdfast.entry, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"], HOME: holdfast.directory, NO_COLOR: "1" },
  });
  onTestFinished(() => void child.kill("SIGTERM"));
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => (output += text));
  return { child, output: () => output };
}

function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.once("close", resolve));
}

/** Its temporary directory, from what it prints. */
function directoryIn(output: string): string | undefined {
  return /remote {2}(.*)\/shop\.git/.exec(output)?.[1];
}

test("the demo of a team proves its claims, fits 80 columns and leaves nothing behind", async () => {
  const { child, output } = startDemo("--runs", "6");
  expect(await exitOf(child), output()).toBe(0);
  const lines = output().split("\n");
  expect(lines.filter((line) => line.startsWith("  ✓"))).toHaveLength(8);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expectRemoved(directoryIn(output()));
});

test("Ctrl+C ends its workers and its server, and removes its files", async () => {
  const { child, output } = startDemo("--runs", "6");
  const ended = exitOf(child);
  while (!output().includes("Three workers execute")) {
    expect(child.exitCode, output()).toBeNull();
    await new Promise((resolve) => child.stdout?.once("data", resolve));
  }
  child.kill("SIGINT");
  expect(await ended, output()).toBe(130);
  expectRemoved(directoryIn(output()));
});

function expectRemoved(directory: string | undefined): void {
  expect(directory).toBeDefined();
  expect(existsSync(directory ?? "")).toBe(false);
  const running = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(directory ?? ""));
  expect(running).toEqual([]);
}

/** With its environment, which names the directory as HOME. */
function commandOf(pid: string): string {
  try {
    return ["cmdline", "environ"].map((name) => readFileSync(join("/proc", pid, name), "latin1")).join(" ");
  } catch {
    return "";
  }
}
