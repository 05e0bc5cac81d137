import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Store } from "../store.ts";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { TEST_STORES, openTestStore } from "@holdfast/test-support/test-stores";

interface Child {
  readonly lines: string[];
  readonly ended: Promise<number | null>;
  until(line: RegExp): Promise<void>;
  kill(): void;
}

const WORKER = join(import.meta.dirname, "../../../test-support/src/store-processes/worker.ts");

describe.each(TEST_STORES)("several processes share one store on $name", ({ name, missing, location }) => {
  beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

  function start(...args: readonly string[]): Child {
    const child = spawn(process.execPath, [WORKER, ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines: string[] = [];
    const waiting = new Set<() => void>();
    createInterface({ input: child.stdout }).on("line", (line) => {
      lines.push(line);
      for (const look of waiting) look();
    });
    const ended = once(child, "close").then(([code]) => {
      for (const look of waiting) look();
      return typeof code === "number" ? code : null;
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    return {
      lines,
      ended,
      until: (pattern) =>
        new Promise((resolve, reject) => {
          const look = (): void => {
            if (lines.some((line) => pattern.test(line))) resolve();
            else if (child.exitCode !== null)
              reject(new Error(`ended without ${String(pattern)}: ${lines.join(", ")}`));
          };
          waiting.add(look);
          look();
        }),
      kill: () => void child.kill("SIGKILL"),
    };
  }

  async function fresh(): Promise<{ readonly place: string; readonly store: Store }> {
    const place = await location(onTestFinished);
    const store = await openTestStore(place, { busyMs: 120_000 });
    onTestFinished(() => store.close());
    return { place, store };
  }

  async function expectWhole(store: Store): Promise<void> {
    const events = await collect(store.verify());
    expect(events.filter((event) => event.kind === "problem")).toEqual([]);
  }

  test("writers, a tagger and a reader", async () => {
    const { place, store } = await fresh();
    const lease = await leasedRun(store, "here");
    const writers = [start("write", place, "a", "120"), start("write", place, "b", "120")];
    await Promise.all(writers.map((child) => child.until(/^saved 1$/)));
    const others = [start("tag", place, "a", "30"), start("read", place, "b", "300")];
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
    const { place, store } = await fresh();
    const writer = start("write", place, "a", "100000");
    await writer.until(/^saved 3$/);
    const second = start("write", place, "a", "5");
    expect(await second.ended).toBe(0);
    expect(second.lines).toEqual(["refused LEASE_HELD"]);
    writer.kill();
    await writer.ended;
    await expectWhole(store);
  });

  test("a writer that is killed loses nothing it acknowledged, and the next one takes its lease at once", async () => {
    const { place, store } = await fresh();
    let before = 0;
    for (let round = 1; round <= 5; round++) {
      const writer = start("write", place, "a", "100000");
      await writer.until(new RegExp(`^saved ${before + 5 + round * 3}$`));
      writer.kill();
      await writer.ended;
      expect(writer.lines[0]).toBe(`epoch ${round}`);
      const saved = writer.lines.slice(1).map((line) => Number(line.split(" ")[1]));
      const [first = 0] = saved;
      const last = saved.at(-1) ?? 0;
      // A server may end the last commit of a killed writer, which it had not acknowledged, after `before` was read.
      expect(name === "PostgreSQL" ? [before + 1, before + 2] : [before + 1]).toContain(first);
      expect(saved).toEqual(saved.map((_, n) => first + n));
      const found = (await store.getRun("a"))?.checkpoints ?? 0;
      expect(found === last || found === last + 1, `acknowledged ${last}, found ${found}`).toBe(true);
      await expectWhole(store);
      before = found;
    }
    const next = start("take", place, "a");
    expect(await next.ended).toBe(0);
    expect(next.lines).toEqual(["epoch 6"]);
  });

  test("of several processes that take one lease at once, one gets it: of a new run, and of a dead owner's", async () => {
    const { place, store } = await fresh();
    const rounds = 9;
    const racers = Array.from({ length: 4 }, () => start("race", place, "r", String(rounds)));
    for (let n = 1; n <= rounds; n++) {
      if (n % 3 === 0) {
        const owner = start("write", place, `r-${n}`, "100000");
        await owner.until(/^saved 1$/);
        owner.kill();
        await owner.ended;
      }
      await store.setMeta("round", String(n));
      await Promise.all(racers.map((racer) => racer.until(new RegExp(`^(won|lost) ${n} `))));
      const answers = racers.flatMap(({ lines }) => lines.filter((line) => line.split(" ")[1] === String(n)));
      expect(answers.filter((line) => line.startsWith("won"))).toHaveLength(1);
      expect(answers.filter((line) => line === `lost ${n} LEASE_HELD`)).toHaveLength(3);
    }
    await store.setMeta("over", "yes");
    await Promise.all(racers.map(({ ended }) => ended));
    await expectWhole(store);
  });

  test("of a take and a withdrawal in other processes at once, one succeeds; a killed sender's signal remains", async () => {
    const { place, store } = await fresh();
    await leasedRun(store, "a");
    const rounds = 30;
    const children = Array.from({ length: 2 }, () => start("withdraw", place, "a", String(rounds)));
    for (let n = 1; n <= rounds; n++) {
      const move = { run: "a", id: `s${n}`, from: "pending" } as const;
      await store.putSignal({ id: move.id, run: "a", kind: "checkpoint", epoch: 1, name: null });
      await store.setMeta("round", String(n));
      if (n % 2 === 0) await Promise.race(children.map((child) => child.until(new RegExp(` ${n}$`))));
      const taken = await store.moveSignal({ ...move, to: "taken" });
      await Promise.all(children.map((child) => child.until(new RegExp(` ${n}$`))));
      const withdrawn = children.flatMap(({ lines }) => lines).filter((line) => line === `withdrew ${n}`);
      expect(withdrawn.length + (taken ? 1 : 0)).toBe(1);
      expect((await store.listSignals("a")).filter(({ id }) => id === move.id)).toHaveLength(taken ? 1 : 0);
    }
    expect(await Promise.all(children.map(({ ended }) => ended))).toEqual([0, 0]);
    const sender = start("send", place, "a");
    await sender.until(/^sent$/);
    sender.kill();
    await sender.ended;
    expect((await store.listSignals("a")).map(({ id }) => id)).toContain("last");
    await expectWhole(store);
  });

  test("of several processes that take a slot at once, at most the limit get one", async () => {
    const { place, store } = await fresh();
    const children = Array.from({ length: 5 }, (_, n) => start("slot", place, `s-${n}`, "2"));
    await Promise.all(children.map((child) => child.until(/^slot /)));
    const answers = children.map(({ lines }) => lines[0]).toSorted();
    expect(answers).toEqual(["slot LOOP_LIMIT", "slot LOOP_LIMIT", "slot LOOP_LIMIT", "slot working", "slot working"]);
    expect((await store.listRuns()).length).toBe(2);
    await store.setMeta("over", "yes");
    await Promise.all(children.map(({ ended }) => ended));
    await expectWhole(store);
  });

  test("a process with nothing else to do ends after its store is closed, not before", async () => {
    const { place } = await fresh();
    // Node ends with status 13 when a promise is left that nothing can settle.
    expect(await start("listen", place).ended).toBe(0);
  });

  test("a writer whose lease was taken over writes nothing more", async () => {
    const { place, store } = await fresh();
    await store.createRun({ id: "a", workflow: "sample", work: { kind: "none" } });
    const writer = start("write-elsewhere", place, "a", "100000");
    await writer.until(/^saved 20$/);
    const lease = await store.takeLease({ run: "a", label: "next", staleAfterMs: -1 });
    expect(lease.epoch).toBe(2);
    for (let n = 1; n <= 20; n++) await save(store, lease, { values: { n } });
    expect(await writer.ended).toBe(0);
    expect(writer.lines.at(-1)).toBe("refused LEASE_LOST");
    const epochs = (await collect(store.readJournal({ run: "a", after: 1 }))).map(({ epoch }) => epoch);
    expect(epochs).toEqual(epochs.toSorted((one, other) => one - other));
    const last = Number(writer.lines.at(-2)?.split(" ")[1]);
    expect(epochs.filter((epoch) => epoch === 1).length).toBeGreaterThanOrEqual(last);
    await expectWhole(store);
  });

  test("drops, sweeps and attempts to take their leases do not disturb writers", async () => {
    const { place, store } = await fresh();
    const writers = ["a", "b", "c"].map((run) => start("write-on", place, run));
    const others = ["drop", "sweep", "thief"].map((role) => start(role, place));
    const [dropper, sweeper, thief] = others;
    await Promise.all([dropper?.until(/^dropped \d\d/), sweeper?.until(/^swept \d\d/), thief?.until(/^tried \d\d/)]);
    // The writers end last: the lease of a process that has ended may be acquired.
    await store.setMeta("over", "others");
    expect(await Promise.all(others.map(({ ended }) => ended))).toEqual([0, 0, 0]);
    await store.setMeta("over", "yes");
    expect(await Promise.all(writers.map(({ ended }) => ended))).toEqual([0, 0, 0]);
    expect(others.flatMap(({ lines }) => lines.filter((line) => /^(refused|stole)/.test(line)))).toEqual([]);
    for (const [i, run] of ["a", "b", "c"].entries()) {
      const lines = writers[i]?.lines ?? [];
      const count = lines.length - 1;
      expect(lines).toEqual([...Array.from({ length: count }, (_, n) => `saved ${n + 1}`), "ended"]);
      const latest = await store.latest(run);
      expect([latest?.sequence, latest?.planes.context.values["n"]]).toEqual([count, count]);
    }
    await expectWhole(store);
  });
});
