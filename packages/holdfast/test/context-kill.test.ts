import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { CheckpointStore } from "../src/context/index.ts";

/** Contexts in separate processes: killed with SIGKILL, and two at once. */

test("killed again and again, a task loses nothing that was acknowledged, and resumes from its last checkpoint", async () => {
  const directory = scratch();
  let known = 0;
  for (let round = 1; round <= 3; round++) {
    const writer = start(directory, "Task no. 1");
    await writer.until((line) => line.startsWith(`saved ${known + 3 * round} `));
    writer.kill();
    await writer.ended;
    expect(writer.lines[0]).toBe(`began at ${known}`);
    const acknowledged = Number(writer.lines.at(-1)?.split(" ")[1]);
    await using store = await CheckpointStore.open("Task no. 1", { store: directory });
    known = await store.version();
    // One more save may have been committed without an acknowledgement.
    expect([acknowledged, acknowledged + 1]).toContain(known);
    expect(await store.listVersions()).toEqual(Array.from({ length: known }, (_, index) => index + 1));
    expect(await store.latest()).toMatchObject({
      values: { n: known },
      tokenUsage: { input_tokens: 10 * known },
      metadata: { n: known },
    });
  }
  await using store = await CheckpointStore.open("Task no. 1", { store: directory });
  for await (const { version, values, metadata } of store)
    expect([values["n"], metadata["n"]]).toEqual([version, version]);
});

test("two processes on one task: the second is refused before it works, may read, and takes over when the first dies", async () => {
  const directory = scratch();
  const first = start(directory, "shared");
  await first.until((line) => line.startsWith("saved 3 "));
  const second = start(directory, "shared");
  await second.ended;
  expect(second.lines).toHaveLength(1);
  expect(JSON.parse(second.lines[0] ?? "")).toMatchObject({
    code: "LEASE_HELD",
    message: `Task "shared" is being written by process ${first.pid} on ${hostname()}`,
    hint: expect.stringContaining("leaseWaitMs"),
    owner: { pid: first.pid },
  });
  await using reader = await CheckpointStore.open("shared", { store: directory });
  expect((await reader.get(2)).values["n"]).toBe(2);
  const other = start(directory, "another-task");
  await other.until((line) => line.startsWith("saved 2 "));
  first.kill();
  await first.ended;
  const heir = start(directory, "shared");
  await heir.until((line) => line.startsWith("saved "));
  const last = Number(first.lines.at(-1)?.split(" ")[1]);
  expect([`began at ${last}`, `began at ${last + 1}`]).toContain(heir.lines[0]);
});

interface Writer {
  readonly pid: number | undefined;
  readonly lines: readonly string[];
  readonly ended: Promise<unknown>;
  until(seen: (line: string) => boolean): Promise<void>;
  kill(): void;
}

function start(directory: string, taskId: string): Writer {
  const script = join(import.meta.dirname, "faults/writers/context-writer.ts");
  const child = spawn(process.execPath, [script, directory, taskId], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines: string[] = [];
  const looks = new Set<() => void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    lines.push(line);
    for (const look of looks) look();
  });
  const ended = once(child, "close");
  return {
    pid: child.pid,
    lines,
    ended,
    until: (seen) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (lines.some(seen)) resolve();
        };
        looks.add(look);
        look();
        ended.then(() => reject(new Error(`it ended: ${lines.join(", ")}`)), reject);
      }),
    kill: () => void child.kill("SIGKILL"),
  };
}

function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-context-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return join(directory, "store");
}
