import { readFileSync, readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** For the environment of a program that must not outlive the one who started it; what that one starts inherits it. */
export function markEnvironment(mark: string): Readonly<Record<string, string>> {
  return { [VARIABLE]: mark };
}

/**
 * Ends what still carries the mark, and returns when it is gone. A process that was killed leaves its children alive, and
 * whoever takes over its work must not meet them in it. Where the system shows no environments nothing is found.
 */
export async function endMarked(mark: string): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    const living = readdir("/proc").filter((name) => /^\d+$/.test(name) && carries(name, mark));
    if (living.length === 0) return;
    for (const pid of living) kill(Number(pid));
    await sleep(PAUSE_MS);
  }
}

const VARIABLE = "HOLDFAST_WORK";
const ROUNDS = 100;
const PAUSE_MS = 20;

function carries(pid: string, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(`${VARIABLE}=${mark}`);
  } catch {
    return false;
  }
}

function readdir(path: string): readonly string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself: that is what was wanted.
  }
}
