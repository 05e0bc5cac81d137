import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { endMarked, markEnvironment } from "./marked-process.ts";

test.runIf(process.platform === "linux")(
  "ends what carries the mark, with what that has started, and nothing else",
  async () => {
    const start = (env: Readonly<Record<string, string>>) =>
      spawn("sh", ["-c", "sleep 1000 & echo $!; wait"], { env: { ...process.env, ...env } });
    const [marked, other] = [start(markEnvironment("one")), start(markEnvironment("another"))];
    try {
      const [[child]] = await Promise.all([once(marked.stdout, "data"), once(other.stdout, "data")]);
      await endMarked("one");
      await endMarked("none");
      expect(stateOf(String(child).trim())).toMatch(/^(?:gone|Z|X)$/);
      if (marked.exitCode === null && marked.signalCode === null) await once(marked, "exit");
      expect(marked.signalCode).toBe("SIGKILL");
      expect([other.exitCode, other.signalCode]).toEqual([null, null]);
    } finally {
      await endMarked("another");
    }
  },
);

/** What ended may wait for a parent that never asks: gone in all but name. */
function stateOf(pid: string): string {
  const stat = `/proc/${pid}/stat`;
  return existsSync(stat) ? (/\) (\w)/.exec(readFileSync(stat, "latin1"))?.[1] ?? "") : "gone";
}
