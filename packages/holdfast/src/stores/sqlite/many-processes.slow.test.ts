import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "./open.ts";
import type { Store } from "../../ports/store.ts";
import { collect } from "../../testing/store-contract/harness.ts";
import { leasedRun, save } from "../../testing/store-contract/sample.ts";
import { scratchDirectory } from "../../testing/store-contract/scratch-directory.ts";

interface Child {
  readonly lines: string[];
  readonly ended: Promise<number | null>;
  until(line: RegExp): Promise<void>;
  kill(): void;
}

function start(...args: readonly string[]): Child {
  const process_ = spawn(
    process.execPath,
    [join(import.meta.dirname, "../../testing/store-processes/worker.ts"), ...args],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  createInterface({ input: process_.stdout }).on("line", (line) => {
    lines.push(line);
    for (const look of waiting) look();
  });
  const ended = once(process_, "close").then(([code]) => {
    for (const look of waiting) look();
    return typeof code === "number" ? code : null;
  });
  onTestFinished(() => void process_.kill("SIGKILL"));
  return {
    lines,
    ended,
    until: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (lines.some((line) => pattern.test(line))) resolve();
          else if (process_.exitCode !== null)
            reject(new Error(`ended without ${String(pattern)}: ${lines.join(", ")}`));
        };
        waiting.add(look);
        look();
      }),
    kill: () => void process_.kill("SIGKILL"),
  };
}

async function fresh(): Promise<{ readonly directory: string; readonly store: Store }> {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const store = await openSqliteStore({ directory });
  onTestFinished(() => store.close());
  return { directory, store };
}

async function expectWhole(store: Store): Promise<void> {
  const events = await collect(store.verify());
  expect(events.filter((event) => event.kind === "problem")).toEqual([]);
}

function acknowledged(child: Child): number {
  return child.lines.filter((line) => line.startsWith("saved ")).length;
}

test("writers, a tagger and a reader in processes of their own share one store", async () => {
  const { directory, store } = await fresh();
  const lease = await leasedRun(store, "here");
  const writers = [start("write", directory, "a", "120"), start("write", directory, "b", "120")];
  await Promise.all(writers.map((child) => child.until(/^saved 1$/)));
  const others = [start("tag", directory, "a", "30"), start("read", directory, "b", "300")];
  for (let n = 1; n <= 60; n++) await save(store, lease, { values: { n } });
  expect(await Promise.all([...writers, ...others].map((child) => child.ended))).toEqual([0, 0, 0, 0]);
  expect(others.map(({ lines }) => lines.at(-1)?.split(" ")[0])).toEqual(["tagged", "read"]);
  for (const [i, run] of ["a", "b"].entries()) {
    expect(writers[i]?.lines).toEqual(["epoch 1", ...Array.from({ length: 120 }, (_, n) => `saved ${n + 1}`)]);
    expect((await store.getRun(run))?.checkpoints).toBe(120);
    expect((await store.latest(run))?.planes.context.values["n"]).toBe(120);
  }
  expect((await store.getRun("here"))?.checkpoints).toBe(60);
  await expectWhole(store);
});

test("a run is written by one process at a time", async () => {
  const { directory, store } = await fresh();
  const writer = start("write", directory, "a", "100000");
  await writer.until(/^saved 3$/);
  const second = start("write", directory, "a", "5");
  expect(await second.ended).toBe(0);
  expect(second.lines).toEqual(["refused LEASE_HELD"]);
  writer.kill();
  await writer.ended;
  await expectWhole(store);
});

test("a writer killed with the lease in its hand loses nothing it acknowledged, and its heir takes over at once", async () => {
  const { directory, store } = await fresh();
  let before = 0;
  for (let round = 1; round <= 5; round++) {
    const writer = start("write", directory, "a", "100000");
    await writer.until(new RegExp(`^saved ${before + 5 + round * 3}$`));
    writer.kill();
    await writer.ended;
    expect(writer.lines[0]).toBe(`epoch ${round}`);
    const last = Number(writer.lines.at(-1)?.split(" ")[1]);
    const found = (await store.getRun("a"))?.checkpoints ?? 0;
    expect(found === last || found === last + 1, `acknowledged ${last}, found ${found}`).toBe(true);
    expect(acknowledged(writer)).toBe(last - before);
    await expectWhole(store);
    before = found;
  }
  const heir = start("take", directory, "a");
  expect(await heir.ended).toBe(0);
  expect(heir.lines).toEqual(["epoch 6"]);
});
