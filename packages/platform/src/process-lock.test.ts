import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, onTestFinished, test } from "vitest";
import { holdProcessLock, listProcessLocks, readProcessLock, sweepProcessLocks } from "./process-lock.ts";

const MODULE = join(import.meta.dirname, "process-lock.ts");

function freshDirectory(): string {
  return join(scratchDirectory(onTestFinished), "alive");
}

/** Starts a process that holds the lock `a` and then does more. Its first line of output follows. */
async function startHolder(
  directory: string,
  more = "",
): Promise<{ readonly child: ChildProcess; readonly line: string }> {
  const program = `
    const { holdProcessLock } = await import(${JSON.stringify(MODULE)});
    globalThis.lock = holdProcessLock(${JSON.stringify(directory)}, "a");
    ${more}
    console.log(globalThis.helper?.pid ?? "ready");
    setInterval(() => undefined, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [line] = await once(child.stdout, "data");
  return { child, line: String(line).trim() };
}

test("a lock is held until it is released, and its file goes with it", () => {
  const directory = freshDirectory();
  expect(readProcessLock(directory, "a")).toBe("absent");
  const lock = holdProcessLock(directory, "a");
  expect(readdirSync(directory)).toEqual(["a.db"]);
  // Asking does not drop the lock of the process that asks.
  expect([1, 2, 3].map(() => readProcessLock(directory, "a"))).toEqual(["held", "held", "held"]);
  lock?.release();
  lock?.release();
  expect(readProcessLock(directory, "a")).toBe("absent");
  expect(readdirSync(directory)).toEqual([]);
});

test("a running and a stopped process hold their lock; the kernel releases that of a killed one", async () => {
  const directory = freshDirectory();
  const { child } = await startHolder(directory);
  expect(readProcessLock(directory, "a")).toBe("held");
  child.kill("SIGSTOP");
  expect(readProcessLock(directory, "a")).toBe("held");
  sweepProcessLocks(directory, listProcessLocks(directory));
  expect(listProcessLocks(directory)).toEqual(["a"]);
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(readProcessLock(directory, "a")).toBe("free");
  sweepProcessLocks(directory, listProcessLocks(directory));
  expect(listProcessLocks(directory)).toEqual([]);
});

test("a child that outlives the holder does not keep its lock", async () => {
  const directory = freshDirectory();
  const { child, line } = await startHolder(
    directory,
    `const { spawn } = await import("node:child_process");
     globalThis.helper = spawn("sleep", ["1000"], { stdio: "inherit", detached: true });`,
  );
  onTestFinished(() => void process.kill(Number(line), "SIGKILL"));
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(process.kill(Number(line), 0)).toBe(true);
  expect(readProcessLock(directory, "a")).toBe("free");
});

test("a process that ends in order removes its file", async () => {
  const directory = freshDirectory();
  const { child } = await startHolder(directory, "setTimeout(() => process.exit(0), 1);");
  await once(child, "exit");
  expect(readdirSync(directory)).toEqual([]);
});

test("what is not a lock file of ours is left alone, and never decides", () => {
  const directory = freshDirectory();
  mkdirSync(join(directory, "b.db"), { recursive: true });
  writeFileSync(join(directory, "c.db"), "not a database, but long enough to be read as the header of one".repeat(20));
  writeFileSync(join(directory, "notes.txt"), "");
  expect(readProcessLock(directory, "b")).toBe("absent");
  expect(readProcessLock(directory, "c")).toBe("unknown");
  expect(readProcessLock(directory, "../../store")).toBe("absent");
  expect(holdProcessLock(directory, "../escape")).toBeNull();
  expect(listProcessLocks(directory)).toEqual(["b", "c"]);
  sweepProcessLocks(directory, ["b", "c"]);
  expect(readdirSync(directory)).toEqual(["b.db", "c.db", "notes.txt"]);
});

test("without a place for the file there is no lock, and no error", () => {
  const directory = freshDirectory();
  writeFileSync(directory, "a file where the directory belongs");
  expect(holdProcessLock(directory, "a")).toBeNull();
  expect(readProcessLock(directory, "a")).toBe("absent");
  expect(listProcessLocks(directory)).toEqual([]);
});
