import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { mkdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { judgeFolderProcesses, readFolderProcesses } from "./folder-processes.ts";
import { randomId } from "./identity.ts";
import { findUnmarked, terminateTree } from "./process-tree.ts";

test.skipIf(readFolderProcesses("/") === null)(
  "a process in the folder is found by its working directory; marked ones and those beside the folder are not (needs /proc or lsof)",
  async () => {
    const base = scratchDirectory(onTestFinished);
    const folder = join(base, "caf\u00e9 1");
    const mark = `run-${randomId()}`;
    for (const name of ["caf\u00e9 1/sub", "caf\u00e9 12"]) mkdirSync(join(base, name), { recursive: true });
    const start = (cwd: string, env: Readonly<Record<string, string>>): number => {
      const child = spawn("sleep", ["600"], { cwd, env: { ...process.env, ...env }, detached: true, stdio: "ignore" });
      onTestFinished(() => void child.kill("SIGKILL"));
      return child.pid ?? 0;
    };
    const inside = start(join(folder, "sub"), {});
    start(join(base, "caf\u00e9 12"), {});
    // A program of macOS shows no mark, so a Node is marked.
    const marked = spawn(process.execPath, ["-e", "console.log(1); setInterval(() => {}, 1000)"], {
      cwd: folder,
      env: { ...process.env, HOLDFAST_MARK: mark },
      stdio: ["ignore", "pipe", "ignore"],
      detached: true,
    });
    onTestFinished(() => terminateTree({ mark, graceMs: 20 }).then(() => undefined));
    await once(marked.stdout, "data");
    while (readFolderProcesses(folder)?.length !== 2) await pause(20);
    expect(findUnmarked({ mark, folder })).toEqual([
      { pid: inside, parent: process.pid, name: "sleep", terminal: false, orphan: false },
    ]);
    expect(readFolderProcesses(join(base, "missing"))).toEqual([]);
  },
);

test("an orphan's parent is process 1 or a reaper of the session; a name cannot control the terminal", () => {
  const inside = [
    { pid: 10, parent: 1, terminal: false, name: "/usr/bin/node" },
    { pid: 11, parent: 900, terminal: false, name: "tmux: server" },
    { pid: 12, parent: 901, terminal: false, name: "tsserver\u001b[2J" },
    { pid: 13, parent: 902, terminal: true, name: "" },
  ];
  const parents = new Map([
    [900, "systemd"],
    [901, "code"],
    [902, "Relay(13)"],
  ]);
  expect(judgeFolderProcesses(inside, parents)).toEqual([
    { pid: 10, parent: 1, name: "node", terminal: false, orphan: true },
    { pid: 11, parent: 900, name: "tmux? server", terminal: false, orphan: true },
    { pid: 12, parent: 901, name: "tsserver??2J", terminal: false, orphan: false },
    { pid: 13, parent: 902, name: "?", terminal: true, orphan: true },
  ]);
});
