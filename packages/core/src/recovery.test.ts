import { readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "@holdfast/platform/clock";
import { RUN, type StoppedRun, createStoppedRun } from "@holdfast/test-support/core/resume-scene";
import { damageCheckpoints } from "@holdfast/test-support/edit-store";
import { openSqliteStore } from "./store-sql/open.ts";
import { type CheckpointSummary, emptyPlanes } from "./checkpoint.ts";
import { findRunFor } from "./control-run.ts";
import { VERDICTS, defaultFindingPolicy, worst } from "./findings.ts";
import { type Candidate, type RecoveryPlan, type Strategy, findStart, planRecovery } from "./recovery.ts";
import { checkResume } from "./resume.ts";
import type { RunState } from "./run.ts";
import type { Store } from "./store.ts";

describe("recovery plan", () => {
  interface Some {
    readonly sequence: number;
    readonly intact?: boolean;
    readonly effectsReconcilable?: boolean;
  }

  function candidate({ sequence, intact = true, effectsReconcilable = true }: Some): Candidate {
    const checkpoint: CheckpointSummary = {
      id: `r@${sequence}`,
      run: "r",
      sequence,
      entry: sequence,
      parent: null,
      trigger: "stage",
      name: null,
      createdAt: "2026-01-01T00:00:00Z",
      stage: "impl",
      iteration: 1,
      score: null,
      tree: null,
      tags: [],
      size: { logical: 0, added: 0 },
      digest: "",
      quarantined: false,
    };
    return { checkpoint, intact, effectsReconcilable, problem: intact ? null : "its digest does not match" };
  }

  const last: Strategy = { kind: "last" };
  const chosen = (sequence: number): Strategy => ({ kind: "chosen", sequence });
  const open: RunState = { kind: "active" };
  const done: RunState = { kind: "done", at: "t" };
  const fatal: RunState = { kind: "failed", at: "t", reason: "max iterations (7) reached" };

  function plan(
    strategy: Strategy,
    some: readonly Some[],
    more: { readonly state?: RunState; readonly force?: boolean } = {},
  ): RecoveryPlan {
    return planRecovery({
      run: "r",
      strategy,
      candidates: some.map(candidate),
      state: more.state ?? open,
      findings: [],
      policy: defaultFindingPolicy,
      force: more.force ?? false,
    });
  }

  describe("last", () => {
    test("takes the newest, whatever the order they come in", () => {
      expect(plan(last, [{ sequence: 2 }, { sequence: 3 }, { sequence: 1 }])).toEqual({
        kind: "restore",
        checkpoint: "r@3",
        why: "it is the newest",
        passedOver: [],
        findings: [],
        verdict: "resume",
        reopens: false,
      });
    });

    test("falls back past damaged ones, aloud (AIWG: a damaged newest one meant there was none)", () => {
      const found = plan(last, [{ sequence: 3, intact: false }, { sequence: 2, intact: false }, { sequence: 1 }]);
      expect(found).toMatchObject({
        kind: "restore",
        checkpoint: "r@1",
        passedOver: [
          { checkpoint: "r@3", why: "its digest does not match" },
          { checkpoint: "r@2", why: "its digest does not match" },
        ],
        findings: [{ kind: "store_damaged" }, { kind: "store_damaged" }],
        verdict: "warn",
      });
    });

    test("asks when an effect after it cannot be looked up", () => {
      expect(plan(last, [{ sequence: 1, effectsReconcilable: false }])).toMatchObject({
        checkpoint: "r@1",
        findings: [{ kind: "effect_unknown" }],
        verdict: "ask",
      });
    });

    test("says so when there is nothing, or nothing whole", () => {
      expect(plan(last, [])).toEqual({ kind: "nothing", why: "Run r has no checkpoint yet", passedOver: [] });
      expect(plan(last, [{ sequence: 1, intact: false }])).toMatchObject({
        kind: "nothing",
        passedOver: [{ checkpoint: "r@1" }],
      });
    });
  });

  describe("chosen", () => {
    test("is that one or none: never exchanged for another", () => {
      expect(plan(chosen(2), [{ sequence: 2 }, { sequence: 3 }])).toMatchObject({ kind: "restore", checkpoint: "r@2" });
      expect(plan(chosen(9), [{ sequence: 2 }])).toMatchObject({ kind: "refused", why: expect.stringContaining("9") });
      expect(plan(chosen(2), [{ sequence: 2, intact: false }, { sequence: 1 }])).toMatchObject({
        kind: "refused",
        why: expect.stringContaining("its digest does not match"),
      });
    });
  });

  describe("ended runs", () => {
    const some = [{ sequence: 1 }, { sequence: 2 }];

    test("resuming a done run is a success that changes nothing (agentize made it fatal)", () => {
      for (const strategy of [last, chosen(1)]) {
        expect(plan(strategy, some, { state: done })).toEqual({ kind: "done", why: "Run r is done since t" });
      }
      expect(plan(last, [], { state: done, force: true })).toMatchObject({ kind: "done" });
    });

    test("a failed run is refused with its original reason, unless forced from a chosen checkpoint", () => {
      for (const strategy of [last, chosen(1)]) {
        expect(plan(strategy, some, { state: fatal })).toMatchObject({
          kind: "refused",
          why: "Run r ended at t: max iterations (7) reached",
          hint: expect.stringContaining("--force"),
        });
      }
      expect(plan(last, some, { state: fatal, force: true })).toMatchObject({ kind: "refused" });
      expect(plan(chosen(1), some, { state: fatal, force: true })).toMatchObject({
        kind: "restore",
        checkpoint: "r@1",
        reopens: true,
      });
    });

    test("forcing an open run re-opens nothing; a waiting run resumes", () => {
      expect(plan(chosen(1), some, { force: true })).toMatchObject({ kind: "restore", reopens: false });
      const parked: RunState = { kind: "waiting", for: "ci", reason: "x", until: null };
      expect(plan(last, some, { state: parked })).toMatchObject({ kind: "restore" });
    });
  });

  const someCandidates = fc.uniqueArray(
    fc.record({
      sequence: fc.integer({ min: 1, max: 12 }),
      intact: fc.boolean(),
      effectsReconcilable: fc.boolean(),
    }),
    { selector: (one) => one.sequence },
  );
  const someStrategy = fc.oneof(fc.constant(last), fc.integer({ min: 1, max: 12 }).map(chosen));

  test("what is chosen is whole, and all newer ones are accounted for", () => {
    fc.assert(
      fc.property(someCandidates, someStrategy, (some, strategy) => {
        const found = plan(strategy, some);
        if (found.kind === "done" || found.kind === "refused") {
          expect(strategy.kind).toBe("chosen");
          return;
        }
        const usable = some.filter((one) => one.intact);
        const named = found.passedOver.map((one) => one.checkpoint).toSorted();
        if (found.kind === "nothing") {
          expect(usable).toEqual([]);
          expect(named).toEqual(some.map((one) => `r@${one.sequence}`).toSorted());
          return;
        }
        const target = some.find((one) => `r@${one.sequence}` === found.checkpoint);
        expect(usable).toContain(target);
        const newer = some.filter((one) => one.sequence > (target?.sequence ?? 0));
        if (strategy.kind !== "chosen") expect(named).toEqual(newer.map((one) => `r@${one.sequence}`).toSorted());
        const damaged = newer.filter((one) => one.intact === false).length;
        if (strategy.kind !== "chosen") {
          expect(found.findings.filter((one) => one.kind === "store_damaged")).toHaveLength(damaged);
        }
        expect(found.verdict).toBe(worst(found.findings, defaultFindingPolicy));
        expect(VERDICTS).toContain(found.verdict);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("find start", () => {
  const directoryOf = (scene: StoppedRun): string => scene.repo.path(".git/holdfast");

  /** A store on disk with a run of three checkpoints, closed. */
  async function saveOnDisk(scene: StoppedRun): Promise<string> {
    const directory = directoryOf(scene);
    const store = await openSqliteStore({ directory, create: true, clock: systemClock });
    await store.createRun({ id: RUN, workflow: "impl", work: { kind: "issue", number: 42 } });
    const lease = await store.takeLease({ run: RUN, label: "test" });
    for (const round of [1, 2, 3]) {
      const planes = { ...emptyPlanes(), context: { values: { text: `round ${round} `.repeat(2000) }, tokens: {} } };
      await store.commit({ lease, checkpoint: { trigger: "stage", planes } });
    }
    await store.close();
    return directory;
  }

  async function reopen(directory: string): Promise<Store> {
    const store = await openSqliteStore({ directory, create: true, clock: systemClock });
    onTestFinished(async () => store.close());
    return store;
  }

  describe("silent fresh start: never", () => {
    const damages: readonly (readonly [string, (directory: string) => void])[] = [
      [
        "the database is gone",
        (directory) =>
          readdirSync(directory)
            .filter((name) => name.startsWith("store.db"))
            .forEach((name) => rmSync(join(directory, name))),
      ],
      ["the database is empty", (directory) => truncateSync(join(directory, "store.db"))],
      [
        "the database is no database",
        (directory) => writeFileSync(join(directory, "store.db"), "garbage ".repeat(1000)),
      ],
      [
        "the marker is of another version",
        (directory) => {
          const path = join(directory, "store.json");
          const marker: unknown = JSON.parse(readFileSync(path, "utf8"));
          writeFileSync(path, JSON.stringify({ ...(marker as object), format: 999 }));
        },
      ],
    ];
    test.each(damages)("%s: loud", async (_name, damage) => {
      const scene = await createStoppedRun();
      const directory = await saveOnDisk(scene);
      damage(directory);
      await expect(openSqliteStore({ directory, create: true, clock: systemClock })).rejects.toMatchObject({
        code: expect.stringMatching(/^STORE_(MISSING|CORRUPT|CUT|TOO_NEW)$/),
      });
    });

    test("every checkpoint is damaged: STORE_CORRUPT, and no plan that would begin anew", async () => {
      const scene = await createStoppedRun();
      const directory = await saveOnDisk(scene);
      expect(damageCheckpoints(directory, [1, 2, 3])).toBe(3);
      const store = await reopen(directory);
      const adapters = { ...scene.adapters, store };
      await expect(findStart({ adapters, run: RUN })).rejects.toMatchObject({ code: "STORE_CORRUPT" });
      const { current } = scene;
      const params = { adapters, run: RUN, current, policy: defaultFindingPolicy, answers: {}, force: false };
      await expect(checkResume(params)).rejects.toMatchObject({ code: "STORE_CORRUPT" });
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "one" });
    });

    test("the newest ones are damaged: the newest whole one, and each of the others named", async () => {
      const scene = await createStoppedRun();
      const directory = await saveOnDisk(scene);
      expect(damageCheckpoints(directory, [3])).toBe(1);
      const start = await findStart({ adapters: { ...scene.adapters, store: await reopen(directory) }, run: RUN });
      expect(start).toMatchObject({
        kind: "found",
        from: { kind: "newest_intact", sequence: 2 },
        checkpoint: { sequence: 2 },
        findings: [{ kind: "store_damaged", expected: { sequence: 3 } }],
      });
    });

    test("a run without checkpoints says that there is nothing to resume", async () => {
      const scene = await createStoppedRun();
      await scene.store.createRun({ id: "empty", workflow: "impl", work: { kind: "issue", number: 5 } });
      expect(await findStart({ adapters: scene.adapters, run: "empty" })).toEqual({ kind: "none" });
    });

    test("a run that is not there is not made up", async () => {
      const scene = await createStoppedRun();
      const { adapters, current } = scene;
      const params = { adapters, run: "no-such", current, policy: defaultFindingPolicy, answers: {}, force: false };
      await expect(checkResume(params)).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
    });
  });

  describe("the run of an issue", () => {
    test("exactly: issue 4 is not issue 42; ended ones are told, several are a question", async () => {
      const scene = await createStoppedRun();
      const { adapters, store } = scene;
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "one", run: { id: RUN } });
      expect(await findRunFor({ adapters, issue: 4 })).toEqual({ kind: "none", ended: [] });
      await store.createRun({ id: "issue-4-42", workflow: "impl", work: { kind: "issue", number: 4 } });
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "one", run: { id: RUN } });
      expect(await findRunFor({ adapters, issue: 42, workflow: "other" })).toEqual({ kind: "none", ended: [] });
      await store.createRun({ id: "again", workflow: "impl", work: { kind: "issue", number: 42 } });
      const lease = await store.takeLease({ run: "again", label: "test" });
      await store.commit({
        lease,
        checkpoint: { trigger: "stage", planes: emptyPlanes({ workflow: "impl", stage: "setup" }) },
      });
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "several", runs: [{}, {}] });
      await scene.append({ kind: "run.ended", body: { outcome: "done" } });
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "one", run: { id: "again" } });
    });

    test("died before its first checkpoint: nothing that could go on, and nothing that has ended", async () => {
      const { adapters, store } = await createStoppedRun();
      await store.createRun({ id: "born", workflow: "impl", work: { kind: "issue", number: 7 } });
      expect(await findRunFor({ adapters, issue: 7 })).toEqual({ kind: "none", ended: [] });
    });
  });
});
