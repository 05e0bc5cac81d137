import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CheckpointSummary } from "../checkpoint/checkpoint.ts";
import { defaultFindingPolicy, VERDICTS, worst } from "./finding.ts";
import type { Candidate, RecoveryPlan, Strategy } from "./recovery.ts";
import { planRecovery } from "./recovery-plan.ts";
import type { RunState } from "../run/run.ts";

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
const open: RunState = { kind: "open" };
const done: RunState = { kind: "done", at: "t" };
const fatal: RunState = { kind: "fatal", at: "t", reason: "max iterations (7) reached" };

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

  test("a fatal run is refused with its original reason, unless forced from a chosen checkpoint", () => {
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

  test("forcing an open run re-opens nothing; a parked run resumes", () => {
    expect(plan(chosen(1), some, { force: true })).toMatchObject({ kind: "restore", reopens: false });
    const parked: RunState = { kind: "parked", on: "ci", reason: "x", until: null };
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
