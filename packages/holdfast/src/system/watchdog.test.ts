import { readFileSync, readdirSync } from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { readProcess } from "./process-table.ts";
import { spawnSupervised, supervisedVariables, watchChild } from "./watchdog.ts";

const isLinux = process.platform === "linux";

test.skipIf(!isLinux)(
  "the trait of this process stays in use between two agents, so no other Holdfast chooses it",
  async () => {
    const env = { ...process.env, ...supervisedVariables() };
    const child = spawnSupervised(() => spawn("true", { stdio: "ignore", env }));
    const forget = watchChild(child);
    await once(child, "exit");
    forget();
    const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    const watchdogs = pids.filter(
      (pid) => readProcess(Number(pid))?.parent === process.pid && commandOf(pid).includes("./watchdog-process.ts"),
    );
    expect(watchdogs).toHaveLength(1);
    const [pid = ""] = watchdogs;
    const trait = commandOf(pid).at(-1);
    expect(trait).toMatch(/^[0-9a-f]{8}$/);
    expect(readFileSync(`/proc/${pid}/coredump_filter`, "utf8").trim()).toBe(trait);
    expect(readFileSync("/proc/self/coredump_filter", "utf8").trim()).not.toBe(trait);
  },
);

function commandOf(pid: string): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);
  } catch {
    return [];
  }
}
