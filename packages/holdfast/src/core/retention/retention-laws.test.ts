import fc from "fast-check";
import { expect, test } from "vitest";
import type { RetentionPlan, RetentionPolicy, RetentionSubject } from "./retention.ts";
import { planRetention } from "./retention-plan.ts";
import { DAY, iso, kept, NOW, subject } from "./retention-sample.ts";
import type { RunState } from "../run/run.ts";
import { TRIGGERS } from "../checkpoint/trigger.ts";

const someCheckpoints = fc
  .array(
    fc.record({
      trigger: fc.constantFrom(...TRIGGERS),
      stage: fc.constantFrom("impl", "review"),
      days: fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: -100, max: 20_000 })),
      score: fc.option(fc.integer({ min: 0, max: 5 })),
      tags: fc.constantFrom<readonly string[]>([], [], [], ["t"]),
      added: fc.constantFrom(0, 1, 100, 5000),
    }),
    { maxLength: 14 },
  )
  .map((all) => all.map((some, index) => ({ ...some, sequence: 2 * index + 1 })));

const someState = fc.constantFrom<RunState>(
  { kind: "open" },
  { kind: "done", at: iso(NOW) },
  { kind: "fatal", at: iso(NOW), reason: "x" },
  { kind: "parked", on: "person", reason: "x", until: null },
);

const someSubject = fc
  .record({ checkpoints: someCheckpoints, state: someState, resumable: fc.array(fc.nat(30)), pin: fc.nat(30) })
  .map(({ checkpoints, state, resumable, pin }) =>
    subject(checkpoints, { state, resumable: new Set(resumable), pinned: new Map([[pin, "pinned"]]) }),
  );

const someSubjects = fc.array(someSubject, { maxLength: 3 }).map((all) =>
  all.map((one, index) => ({
    ...one,
    run: `r${index}`,
    checkpoints: one.checkpoints.map((each) => ({ ...each, run: `r${index}` })),
  })),
);

const someKeep = fc.oneof(fc.constant("all" as const), fc.nat(3));
const someRule = fc.record({ keep: someKeep, per: fc.constantFrom("run" as const, "stage" as const) });
const somePolicy: fc.Arbitrary<RetentionPolicy> = fc.record({
  perTrigger: fc.dictionary(fc.constantFrom(...TRIGGERS), someRule, { maxKeys: 6 }),
  defaultKeep: someRule,
  maxPerRun: fc.option(fc.nat(6)),
  maxAgeDays: fc.option(fc.nat(40)),
  onSuccess: fc.constantFrom("keep_latest" as const, "latest_only" as const, "by_rules" as const),
  onFailure: fc.constantFrom("keep_recent" as const, "by_rules" as const),
  recentDays: fc.nat(40),
  maxBytes: fc.option(fc.constantFrom(0, 50, 300, 5200, 100_000)),
  compressAfterDays: fc.constant(null),
});

function apply(subjects: readonly RetentionSubject[], plans: readonly RetentionPlan[]): readonly RetentionSubject[] {
  return subjects.map((one, index) => {
    const stays = new Set(kept(plans[index]));
    return { ...one, checkpoints: one.checkpoints.filter((each) => stays.has(each.sequence)) };
  });
}

const runs = { numRuns: 400 };

test("every checkpoint gets exactly one decision, with a reason", () => {
  fc.assert(
    fc.property(someSubjects, somePolicy, (subjects, policy) => {
      const plans = planRetention({ subjects, policy, now: NOW });
      expect(plans.map((plan) => plan.run)).toEqual(subjects.map((one) => one.run));
      plans.forEach((plan, index) => {
        const sequences = plan.decisions.map((one) => one.sequence);
        expect(sequences.toReversed()).toEqual(subjects[index]?.checkpoints.map((one) => one.sequence));
        expect(plan.decisions.every((one) => one.why !== "")).toBe(true);
      });
    }),
    runs,
  );
});

test("planning again after applying drops nothing more", () => {
  fc.assert(
    fc.property(someSubjects, somePolicy, (subjects, policy) => {
      const after = apply(subjects, planRetention({ subjects, policy, now: NOW }));
      const again = planRetention({ subjects: after, policy, now: NOW });
      expect(again.flatMap((plan) => plan.decisions.filter((one) => one.action === "drop"))).toEqual([]);
    }),
    { numRuns: 1500 },
  );
});

test("the protected are never dropped", () => {
  fc.assert(
    fc.property(someSubjects, somePolicy, (subjects, policy) => {
      const plans = planRetention({ subjects, policy, now: NOW });
      subjects.forEach((one, index) => {
        const stays = new Set(kept(plans[index]));
        const sequences = one.checkpoints.map((each) => each.sequence);
        const resumable = sequences.filter((sequence) => one.resumable.has(sequence));
        const scores = one.checkpoints.flatMap((each) => (each.score === null ? [] : [each.score]));
        const best = one.checkpoints.find((each) => each.score !== null && each.score === Math.max(...scores));
        const must = [
          ...sequences.slice(-1),
          ...resumable.slice(-1),
          ...(best === undefined ? [] : [best.sequence]),
          ...one.checkpoints.filter((each) => each.tags.length > 0).map((each) => each.sequence),
          ...sequences.filter((sequence) => one.pinned.has(sequence)),
        ];
        expect(must.filter((sequence) => !stays.has(sequence))).toEqual([]);
      });
    }),
    runs,
  );
});

test("the order in which subjects and checkpoints are handed in decides nothing", () => {
  fc.assert(
    fc.property(someSubjects, somePolicy, (subjects, policy) => {
      const plans = planRetention({ subjects, policy, now: NOW });
      const turned = subjects.map((one) => ({ ...one, checkpoints: one.checkpoints.toReversed() })).toReversed();
      expect(planRetention({ subjects: turned, policy, now: NOW }).toReversed()).toEqual(plans);
    }),
    runs,
  );
});

test("the bytes that stay fit the budget, or only what is protected or free of charge stays", () => {
  fc.assert(
    fc.property(someSubjects, somePolicy, fc.nat(6000), (subjects, policy, maxBytes) => {
      const plans = planRetention({ subjects, policy: { ...policy, maxBytes }, now: NOW });
      const after = apply(subjects, plans).flatMap((one) => one.checkpoints);
      const total = after.reduce((sum, one) => sum + one.size.added, 0);
      if (total <= maxBytes) return;
      const whys = plans.flatMap((plan, index) =>
        plan.decisions.filter((one) => {
          const found = subjects[index]?.checkpoints.find((each) => each.sequence === one.sequence);
          return one.action === "keep" && (found?.size.added ?? 0) > 0;
        }),
      );
      for (const { why } of whys) expect(why).toMatch(/newest of the run|resume from|best score|tagged|pinned|clock/);
    }),
    runs,
  );
});

/** True times go forward. Each stamp is true, ahead, or behind in a way that an earlier stamp betrays. */
const someClockFaults = fc
  .array(fc.record({ gap: fc.nat(20), fault: fc.constantFrom("none", "none", "ahead", "behind"), by: fc.nat(1000) }), {
    minLength: 1,
    maxLength: 12,
  })
  .map((steps) => {
    let days = 100;
    let highest = Number.NEGATIVE_INFINITY;
    return steps.map(({ gap, fault, by }) => {
      days -= gap;
      const truth = NOW - days * DAY;
      let stamp = truth;
      if (fault === "ahead") stamp = truth + by * DAY;
      if (fault === "behind" && highest > truth - by * DAY) stamp = truth - by * DAY;
      highest = Math.max(highest, stamp);
      return { truth: iso(truth), stamp: iso(stamp) };
    });
  });

test("a clock that jumped never makes it drop more than a right one would", () => {
  fc.assert(
    fc.property(someSubject, someClockFaults, somePolicy, fc.nat(500), (some, times, policy, back) => {
      const unlimited = { ...policy, maxBytes: null };
      const stamped = (which: "truth" | "stamp"): RetentionSubject => ({
        ...some,
        checkpoints: some.checkpoints.slice(0, times.length).map((one, index) => ({
          ...one,
          createdAt: times[index]?.[which] ?? one.createdAt,
        })),
      });
      const keptOf = (one: RetentionSubject, now: number): readonly number[] =>
        kept(planRetention({ subjects: [one], policy: unlimited, now })[0]);
      const right = keptOf(stamped("truth"), NOW);
      const wrong = new Set(keptOf(stamped("stamp"), NOW - back * DAY));
      expect(right.filter((sequence) => !wrong.has(sequence))).toEqual([]);
    }),
    { numRuns: 1000 },
  );
});
