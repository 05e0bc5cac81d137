// A program of a test in a process of its own, which prints lines.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

export interface Child {
  readonly lines: string[];
  /** The first line that matches, also an earlier one. */
  until(line: RegExp): Promise<string>;
  send(signal: NodeJS.Signals): void;
  /** Writes a line to its standard input. */
  write(line: string): void;
  readonly ended: Promise<unknown>;
}

export function startChild(
  args: readonly string[],
  later: (stop: () => void) => void,
  env: Readonly<Record<string, string>> = {},
): Child {
  const child = spawn(process.execPath, args, {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, ...env },
  });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  later(() => void child.kill("SIGKILL"));
  return {
    lines,
    ended: once(child, "close"),
    async until(pattern) {
      for (;;) {
        const found = lines.find((line) => pattern.test(line));
        if (found !== undefined) return found;
        if (child.exitCode !== null) throw new Error(`ended without ${String(pattern)}: ${lines.join(", ")}`);
        await sleep(10);
      }
    },
    send: (signal) => void child.kill(signal),
    write: (line) => void child.stdin.write(`${line}\n`),
  };
}
