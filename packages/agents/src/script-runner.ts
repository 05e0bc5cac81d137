// The process behind the scripted agent. It reads a list of actions (RunnerAction) on standard input and performs them
// in order in its current directory. It is a separate program, so that kills, hangs and orphans in a script are real.

import { spawn } from "node:child_process";
import { appendFile, chmod, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import type { RunnerAction } from "./scripted.ts";

text(process.stdin)
  // The input comes from our own parent process, from a validated script.
  .then((input) => performAll(JSON.parse(input) as readonly RunnerAction[]))
  .catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  });

async function performAll(actions: readonly RunnerAction[]): Promise<void> {
  for (const action of actions) await act(action);
}

async function act(action: RunnerAction): Promise<void> {
  switch (action.do) {
    case "write":
      await mkdir(dirname(action.path), { recursive: true });
      await writeFile(action.path, action.text);
      if (action.mode !== undefined) await chmod(action.path, Number.parseInt(action.mode, 8));
      return;
    case "append":
      await mkdir(dirname(action.path), { recursive: true });
      await appendFile(action.path, action.text);
      return;
    case "replace": {
      const before = await readFile(action.path, "utf8");
      if (!before.includes(action.find))
        throw new Error(`${action.path} does not contain ${JSON.stringify(action.find)}`);
      await writeFile(
        action.path,
        before.replaceAll(action.find, () => action.text),
      );
      return;
    }
    case "delete":
      await rm(action.path, { recursive: true });
      return;
    case "mode":
      await chmod(action.path, Number.parseInt(action.mode, 8));
      return;
    case "wait":
      await pause(action.ms);
      return;
    case "say":
      await new Promise<void>((resolve) => {
        process.stdout.write(`${JSON.stringify(action.event)}\n`, () => resolve());
      });
      return;
    case "spawn":
      await leaveOrphan(action);
      return;
    case "hang":
      // A pending promise alone would let the process exit.
      await new Promise(() => setInterval(() => undefined, 60_000));
      return;
    case "exit":
      process.exitCode = action.code;
  }
}

const ORPHAN = `
  const [ignoreTerm, afterMs, path, text] = JSON.parse(process.argv[1]);
  if (ignoreTerm) process.on("SIGTERM", () => {});
  if (path !== null) setTimeout(() => require("node:fs").writeFileSync(path, text), afterMs);
  setTimeout(() => process.exit(), 600000);
  process.stdout.write("up");`;

/**
 * Starts an orphan in its own session, like agents' tools. Waits until the orphan has set its signal handler, so that
 * the result is deterministic.
 */
async function leaveOrphan(action: Extract<RunnerAction, { do: "spawn" }>): Promise<void> {
  const settings = JSON.stringify([action.ignoreTerm, action.afterMs, action.path, action.text]);
  const child = spawn(process.execPath, ["-e", ORPHAN, settings], {
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  child.stdout.destroy();
  child.unref();
}
