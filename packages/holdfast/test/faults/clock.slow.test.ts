import { statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { openHoldfast } from "../../src/open.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import { scratchFolder } from "./harness/scratch.ts";
import type { Chance } from "./harness/seed.ts";
import { faultSuite } from "./harness/suite.ts";
import { git, makeRepository } from "./judges/repository.ts";
import { verifyStore } from "./judges/judge-store.ts";
import { planesOf } from "./writers/scenario.ts";

const suite = faultSuite("clock");
const YEAR = 365 * 86_400_000;
const RealDate = Date;

/**
 * Every read of the wall clock returns another time, years apart, back and forth. This includes reads that do not use
 * the injected clock.
 */
function jumpClock(chance: Chance): void {
  const now = (): number => RealDate.UTC(2026, 0, 1) + (chance.below(20_000) - 10_000) * (YEAR / 1_000);
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args) => Reflect.construct(target, args.length === 0 ? [now()] : args),
    get: (target, key) => (key === "now" ? now : Reflect.get(target, key)),
  });
}

afterEach(() => {
  globalThis.Date = RealDate;
});

describe("order never depends on the wall clock", () => {
  test("runs, checkpoints and journals stay in the order in which they were made", async () => {
    const directory = join(scratchFolder("clock"), "store");
    jumpClock(suite.chance("jumps"));
    const runs = ["zeta", "alpha", "mid"];
    for (const id of runs) {
      // A handle each, as from processes started at different times.
      const holdfast = await openHoldfast({ store: directory, cwd: scratchFolder("cwd") });
      const run = await holdfast.createRun({ id });
      for (let i = 1; i <= 12; i += 1) expect((await run.save({ values: { i } })).sequence).toBe(i);
      await run.close();
      await holdfast.close();
    }
    const store = await openSqliteStore({ directory });
    expect((await store.listRuns()).map(({ id }) => id)).toEqual(runs.toReversed());
    for (const id of runs) {
      const listed = await store.listCheckpoints({ run: id });
      expect(listed.map(({ sequence }) => sequence)).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
      const times = listed.map(({ createdAt }) => createdAt);
      expect(times, "the clock must really have jumped").not.toEqual(times.toSorted().toReversed());
      expect((await store.latest(id))?.planes.context.values).toEqual({ i: 12 });
      let entry = 0;
      for await (const line of store.readJournal({ run: id })) expect(line.entry).toBe((entry += 1));
    }
    expect(await verifyStore(store)).toEqual([]);
    await store.close();
    suite.check({ cases: 3, states: 36, bad: [] });
  });

  test("a lease of this host is judged by the process, not by its heartbeat; a successor elsewhere is safe at any time", async () => {
    const directory = join(scratchFolder("clock"), "store");
    let now = RealDate.UTC(2026, 0, 1);
    const clock = { now: () => now };
    const owner = await openSqliteStore({ directory, clock });
    await owner.createRun({ id: "leased", workflow: "none", work: { kind: "none" } });
    const lease = await owner.takeLease({ run: "leased", label: "owner" });
    const other = await openSqliteStore({ directory, clock });
    for (const jump of [10 * YEAR, -20 * YEAR]) {
      now += jump;
      await expect(other.takeLease({ run: "leased", label: "other", staleAfterMs: 0 })).rejects.toMatchObject({
        code: "LEASE_HELD",
      });
    }
    const elsewhere = { host: "elsewhere", pid: 1, started: "1", boot: "1" };
    const far = await openSqliteStore({ directory, clock, identity: elsewhere });
    now += 30 * YEAR;
    const taken = await far.takeLease({ run: "leased", label: "far", staleAfterMs: 60_000 });
    expect(taken.epoch).toBe(lease.epoch + 1);
    const late = owner.commit({ lease, checkpoint: { trigger: "manual", planes: planesOf(1) } });
    await expect(late).rejects.toMatchObject({ code: "LEASE_LOST" });
    await expect(late).rejects.toBeInstanceOf(HoldfastError);
    for (const store of [owner, other, far]) await store.close();
    suite.check({ cases: 3, states: 3, bad: [] });
  });

  test("a file edited under a clock that was set back is captured", async () => {
    const repository = join(scratchFolder("clock"), "repository");
    makeRepository(repository);
    const holdfast = await openHoldfast({ cwd: repository });
    const run = await holdfast.createRun({ id: "edits", workspace: "here" });
    const path = join(repository, "README.md");
    let cases = 0;
    for (const seconds of [-86_400, 0, 86_400, 2_000_000_000]) {
      const { size, atime, mtime } = statSync(path);
      await run.save();
      // The same length, and the time of the old bytes, or another era's.
      const text = String(cases).padEnd(size, "x");
      writeFileSync(path, text);
      utimesSync(path, atime, new RealDate(seconds === 0 ? mtime : seconds * 1_000));
      const { tree } = await run.save();
      expect(git(repository, ["show", `${tree}:README.md`]).toString()).toBe(text);
      cases += 1;
    }
    await run.close();
    await holdfast.close();
    suite.check({ cases, states: cases, bad: [] });
  });
});
