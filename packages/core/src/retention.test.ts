import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DAY, NOW, type Some, checkpoint, iso, kept, subject } from "@holdfast/test-support/core/retention-sample";
import { TRIGGERS, type Trigger } from "./checkpoint.ts";
import {
  type KeepRule,
  type RetentionPlan,
  type RetentionPolicy,
  type RetentionSubject,
  defaultRetention,
  loopRetention,
  planRetention,
  storeRetention,
} from "./retention.ts";
import type { RunState } from "./run.ts";

describe("retention laws", () => {
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
    { kind: "active" },
    { kind: "done", at: iso(NOW) },
    { kind: "failed", at: iso(NOW), reason: "x" },
    { kind: "waiting", for: "you", reason: "x", until: null },
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

  test("the order of subjects and checkpoints in the input decides nothing", () => {
    fc.assert(
      fc.property(someSubjects, somePolicy, (subjects, policy) => {
        const plans = planRetention({ subjects, policy, now: NOW });
        const turned = subjects.map((one) => ({ ...one, checkpoints: one.checkpoints.toReversed() })).toReversed();
        expect(planRetention({ subjects: turned, policy, now: NOW }).toReversed()).toEqual(plans);
      }),
      runs,
    );
  });

  test("the remaining bytes fit the budget, or only protected or free checkpoints remain", () => {
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

  /** True times increase. Each timestamp is true, ahead, or behind in a way that an earlier timestamp proves. */
  const someClockFaults = fc
    .array(
      fc.record({ gap: fc.nat(20), fault: fc.constantFrom("none", "none", "ahead", "behind"), by: fc.nat(1000) }),
      {
        minLength: 1,
        maxLength: 12,
      },
    )
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

  test("a clock that jumped never drops more than a correct one would", () => {
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
});

describe("retention plan", () => {
  function series(length: number, each: (sequence: number) => Omit<Some, "sequence"> = () => ({})): readonly Some[] {
    return Array.from({ length }, (_, index) => ({ sequence: index + 1, ...each(index + 1) }));
  }

  function keptOf(one: RetentionSubject, policy: RetentionPolicy = defaultRetention, now = NOW): readonly number[] {
    return kept(planRetention({ subjects: [one], policy, now })[0]);
  }

  function only(keep: number | "all", per: "run" | "stage" = "run"): RetentionPolicy {
    return { ...defaultRetention, perTrigger: {}, defaultKeep: { keep, per } };
  }

  describe("counts", () => {
    test("keep newest N, newest first in the plan", () => {
      expect(keptOf(subject(series(7)), only(3))).toEqual([7, 6, 5]);
    });

    test('"all" keeps all, however old (crunch: -1 became a slice that deleted the oldest)', () => {
      expect(keptOf(subject(series(7, () => ({ days: 400 }))), only("all"))).toHaveLength(7);
    });

    test("0 keeps none beyond the protected (crunch: 0 deleted nothing)", () => {
      expect(keptOf(subject(series(7)), only(0))).toEqual([7]);
    });

    test("-1 is not a number to keep: refused, not guessed", () => {
      for (const keep of [-1, 1.5, Number.NaN]) {
        expect(() => keptOf(subject(series(2)), only(keep))).toThrow(
          expect.objectContaining({ code: "CONFIG_INVALID", hint: expect.stringContaining('"all"') }),
        );
      }
      expect(() => keptOf(subject([]), { ...defaultRetention, maxAgeDays: -1 })).toThrow(/maxAgeDays/);
    });

    test("per stage means per stage (crunch grouped by trigger only)", () => {
      const mixed = series(8, (n) => ({ trigger: "batch_complete", stage: n % 2 === 0 ? "enrich" : "docs" }));
      expect(keptOf(subject(mixed))).toEqual([8, 7, 6, 5, 4, 3]);
      expect(keptOf(subject([...mixed, ...series(2).map((one) => ({ ...one, sequence: one.sequence + 8 }))]))).toEqual([
        10, 9, 8, 7, 6, 5, 4, 3,
      ]);
    });

    test("every trigger has a rule (crunch had none for conflict_start and session_end)", () => {
      for (const trigger of TRIGGERS) {
        const rule = defaultRetention.perTrigger[trigger] ?? defaultRetention.defaultKeep;
        const count = keptOf(subject([...series(20, () => ({ trigger })), { sequence: 21, trigger: "fork" }])).length;
        expect(count, trigger).toBe(rule.keep === "all" ? 21 : rule.keep + 1);
      }
    });

    test("the default table", () => {
      const keeps = Object.fromEntries(
        TRIGGERS.map((trigger) => {
          const { keep, per } = defaultRetention.perTrigger[trigger] ?? defaultRetention.defaultKeep;
          return [trigger, `${keep} per ${per}`];
        }),
      );
      expect(keeps).toMatchObject({
        stage: "all per stage",
        batch_complete: "3 per stage",
        agent_complete: "1 per stage",
        conflict_start: "all per run",
        conflict_resolved: "all per run",
        interrupt: "1 per run",
        manual: "all per run",
        automatic: "5 per run",
        iteration: "5 per run",
        timer: "5 per run",
      });
      expect(defaultRetention).toMatchObject({ maxAgeDays: 30, onSuccess: "keep_latest", onFailure: "keep_recent" });
    });
  });

  describe("age and outcome", () => {
    test("checkpoints kept by a number expire after 30 days", () => {
      expect(keptOf(subject(series(5, (n) => ({ days: n === 1 ? 31 : 29 }))))).toEqual([5, 4, 3, 2]);
      expect(keptOf(subject(series(5, () => ({ days: 31 }))))).toEqual([5]);
    });

    test("a done run keeps its latest, and manual checkpoints", () => {
      const done: RunState = { kind: "done", at: iso(NOW) };
      const all = series(6, (n) => ({ trigger: n === 2 ? "manual" : "stage" }));
      expect(keptOf(subject(all, { state: done }))).toEqual([6, 2]);
      expect(keptOf(subject(all, { state: done }), { ...defaultRetention, onSuccess: "by_rules" })).toHaveLength(6);
    });

    test.each(["failed", "aborted"] as const)(
      "a run that %s keeps all that is recent, then goes by the rules",
      (kind) => {
        const ended: RunState = { kind, at: iso(NOW), reason: "x" };
        const all = series(20, (n) => ({ days: n <= 4 ? 31 : 30 }));
        expect(keptOf(subject(all, { state: ended }))).toHaveLength(16);
        expect(keptOf(subject(all, { state: ended }), { ...defaultRetention, onFailure: "by_rules" })).toHaveLength(5);
      },
    );
  });

  describe("never dropped", () => {
    const nothing = { ...only(0), maxBytes: 0, maxAgeDays: 0 };
    const old = series(9, () => ({ days: 1000 }));

    test("the newest, and the newest resumable one", () => {
      expect(keptOf(subject(old, { resumable: new Set([2, 5]) }), nothing)).toEqual([9, 5]);
      expect(keptOf(subject(old, { resumable: new Set() }), nothing)).toEqual([9]);
    });

    test("the best scored; of equals the earliest", () => {
      const scores = [null, 50, 90, 70, 90, null, 0, 3, null];
      const scored = series(9, (n) => ({ days: 1000, score: scores[n - 1] ?? null }));
      expect(keptOf(subject(scored), nothing)).toEqual([9, 3]);
    });

    test("tagged and pinned", () => {
      const tagged = series(9, (n) => ({ days: 1000, tags: n === 4 ? ["v1"] : [] }));
      const pinned = new Map([[6, "the only copy of unpushed work"]]);
      expect(keptOf(subject(tagged, { pinned }), nothing)).toEqual([9, 6, 4]);
    });

    test("also of a done run", () => {
      const state: RunState = { kind: "done", at: iso(NOW) };
      const tagged = series(9, (n) => ({ tags: n === 4 ? ["v1"] : [] }));
      expect(keptOf(subject(tagged, { state }))).toEqual([9, 4]);
    });
  });

  describe("byte budget", () => {
    const policy = (maxBytes: number): RetentionPolicy => ({ ...only("all"), maxBytes });

    test("goes over all runs, oldest droppable first, and stops as soon as it fits", () => {
      const a = subject(
        series(4, (n) => ({ days: 10 - n })),
        { run: "a" },
      );
      const b = subject(
        series(4, (n) => ({ days: 9.5 - n })),
        { run: "b" },
      );
      const plans = planRetention({ subjects: [a, b], policy: policy(500), now: NOW });
      expect(plans.map(kept)).toEqual([
        [4, 3],
        [4, 3, 2],
      ]);
      expect(plans[0]?.decisions.at(-1)).toEqual({
        action: "drop",
        sequence: 1,
        why: expect.stringContaining("over its 500 bytes"),
        bytes: 100,
      });
    });

    test("equally old ones are ordered by run id and sequence, so that the result is deterministic", () => {
      const twins = ["b", "a"].map((run) => subject(series(3), { run }));
      const plans = (maxBytes: number) =>
        planRetention({ subjects: twins, policy: policy(maxBytes), now: NOW }).map(kept);
      expect(plans(500)).toEqual([
        [3, 2, 1],
        [3, 2],
      ]);
      expect(plans(300)).toEqual([[3, 2], [3]]);
    });

    test("checkpoints that would free nothing are kept", () => {
      expect(keptOf(subject(series(4, (n) => ({ added: n === 2 ? 100 : 0 }))), policy(0))).toEqual([4, 3, 1]);
    });

    test("a protecting checkpoint is dropped with the last one that depends on it, and its bytes count", () => {
      const setBack = subject([
        { sequence: 1, days: 2, trigger: "interrupt" },
        { sequence: 2, days: 20_000, trigger: "interrupt" },
        { sequence: 3, days: 1 },
        { sequence: 4 },
      ]);
      expect(keptOf(setBack, { ...defaultRetention, maxBytes: 200 })).toEqual([4, 3]);
    });

    test("a store over its budget keeps protected checkpoints without an error", () => {
      expect(keptOf(subject(series(4)), policy(0))).toEqual([4]);
    });
  });

  describe("clocks", () => {
    test("a checkpoint from the future, or with a time that cannot be read, is not old", () => {
      const future = subject([{ sequence: 1, days: -5000 }, { sequence: 2 }]);
      expect(keptOf(future)).toEqual([2, 1]);
      const odd = { ...checkpoint({ sequence: 1 }), createdAt: "yesterday" };
      expect(keptOf({ ...subject([{ sequence: 2 }]), checkpoints: [odd, checkpoint({ sequence: 2 })] })).toEqual([
        2, 1,
      ]);
    });

    test("checkpoints taken after the clock was set back are not dropped as old; the one that shows it stays with them", () => {
      const setBack = subject([
        { sequence: 1, days: 2, trigger: "interrupt" },
        { sequence: 2, days: 20_000, trigger: "interrupt" },
        { sequence: 3, days: 20_000 },
        { sequence: 4 },
      ]);
      const plan = planRetention({ subjects: [setBack], policy: defaultRetention, now: NOW })[0];
      expect(kept(plan)).toEqual([4, 3, 2, 1]);
      expect(plan?.decisions.at(-1)?.why).toMatch(/clock was set back/);
    });
  });

  describe("a recent run", () => {
    const many = Array.from(
      { length: 12 },
      (_, index) => ({ sequence: index + 1, trigger: "automatic", days: 40 }) as const,
    );
    const states = [
      { kind: "active" },
      { kind: "done", at: "2026-01-01T00:00:00Z" },
      { kind: "failed", at: "2026-01-01T00:00:00Z", reason: "no" },
    ] as const;
    const keptWith = (policy: RetentionPolicy, days: number, state: (typeof states)[number]): number =>
      kept(planRetention({ subjects: [subject([...many, { sequence: 13, days }], { state })], policy, now: NOW })[0])
        .length;

    test.each(states)("keeps everything until its newest checkpoint is 30 days old ($kind)", (state) => {
      expect(keptWith(storeRetention, 1, state)).toBe(13);
      expect(keptWith(storeRetention, 29, state)).toBe(13);
      expect(keptWith(storeRetention, 31, state)).toBeLessThan(13);
      expect(keptWith(defaultRetention, 1, state)).toBeLessThan(13);
    });

    test("is not spared by a size limit", () => {
      expect(keptWith({ ...storeRetention, maxBytes: 0 }, 1, states[0])).toBeLessThan(13);
    });
  });
});

describe("retention table", () => {
  /** Six in each of two stages, then one of another trigger, which is the newest and therefore always kept. */
  function keptOf(
    trigger: Trigger,
    policy: RetentionPolicy = defaultRetention,
  ): { enrich: number; implementing: number } {
    const all = Array.from({ length: 12 }, (_, index) => ({
      sequence: index + 1,
      trigger,
      stage: index < 6 ? "enrich" : "implementing",
      days: 1,
    }));
    const newest = { sequence: 13, trigger: "fork", stage: "implementing" } as const;
    const [plan] = planRetention({ subjects: [subject([...all, newest])], policy, now: NOW });
    const sequences = kept(plan);
    return {
      enrich: sequences.filter((sequence) => sequence <= 6).length,
      implementing: sequences.filter((sequence) => sequence > 6 && sequence <= 12).length,
    };
  }

  const having = (trigger: Trigger, rule: KeepRule): RetentionPolicy => ({
    ...defaultRetention,
    perTrigger: { ...defaultRetention.perTrigger, [trigger]: rule },
  });

  describe("the rows of crunch's table of retention, in the store", () => {
    test.each<[string, Trigger, number, number]>([
      ["phase_transition: all (a milestone)", "stage", 6, 6],
      [
        "batch_complete: the last 3 of each phase (defect 2: crunch's program counted over all)",
        "batch_complete",
        3,
        3,
      ],
      ["agent_complete: the last 1 of each phase", "agent_complete", 1, 1],
      ["conflict_resolved: all (an audit trail)", "conflict_resolved", 6, 6],
      ["conflict_start: all (defect 3: crunch had no rule for it)", "conflict_start", 6, 6],
      ["user_interrupt: the last 1 of the run", "interrupt", 0, 1],
      ["session_end: the last 1 of the run (defect 3: crunch had no rule for it)", "session_end", 0, 1],
      ["manual: all", "manual", 6, 6],
    ])("%s", (_, trigger, enrich, implementing) => {
      expect(keptOf(trigger)).toEqual({ enrich, implementing });
    });

    test("defect 1: all is all, and 0 is none; -1 is refused", () => {
      expect(keptOf("batch_complete", having("batch_complete", { keep: "all", per: "stage" }))).toEqual({
        enrich: 6,
        implementing: 6,
      });
      expect(keptOf("manual", having("manual", { keep: 0, per: "run" }))).toEqual({ enrich: 0, implementing: 0 });
      expect(() => keptOf("manual", having("manual", { keep: -1, per: "run" }))).toThrow(/cannot use -1/);
    });

    test("0 keeps the newest, and the newest to resume from", () => {
      const policy = having("manual", { keep: 0, per: "run" });
      const manual = Array.from({ length: 5 }, (_, index) => ({ sequence: index + 1, trigger: "manual" as const }));
      const [plan] = planRetention({
        subjects: [subject(manual, { resumable: new Set([1, 3]) })],
        policy,
        now: NOW,
      });
      expect(kept(plan)).toEqual([5, 3]);
    });
  });

  describe("the life cycle of loop checkpoints, as documented", () => {
    const loops = (checkpoints: readonly Some[], more: Parameters<typeof subject>[1] = {}): readonly number[] =>
      kept(planRetention({ subjects: [subject(checkpoints, more)], policy: loopRetention, now: NOW })[0]);
    const TRIGGERS_OF_LOOPS = ["iteration", "stage", "manual", "before_risky", "error_recovery"] as const;
    const twelve = Array.from({ length: 12 }, (_, index) => ({
      sequence: index + 1,
      trigger: TRIGGERS_OF_LOOPS[index % TRIGGERS_OF_LOOPS.length] ?? "iteration",
      days: 12 - index,
    }));
    const aged = twelve.map((one) => ({ ...one, days: one.days + 26 }));

    test("default_count 5: of the run, not of each trigger", () => {
      expect(loops(twelve)).toEqual([12, 11, 10, 9, 8]);
    });
    test("default_days 30: what is older goes, but never the latest that can be resumed", () => {
      expect(loops(aged)).toEqual([12, 11, 10, 9]);
      const old = aged.map((one) => ({ ...one, days: one.days + 100 }));
      expect(loops(old, { resumable: new Set([1, 7]) })).toEqual([12, 7]);
    });
    test("on_success keep_latest: manual checkpoints are dropped too", () => {
      expect(loops(twelve, { state: { kind: "done", at: iso(NOW) } })).toEqual([12]);
    });
    test("on_failure keep_all_recent", () => {
      const state = { kind: "failed", at: iso(NOW), reason: "stuck" } as const;
      expect(loops(twelve, { state })).toHaveLength(12);
      expect(loops(aged, { state })).toEqual([12, 11, 10, 9]);
    });
    test("preserve_tagged: permanently, in any state", () => {
      const tagged = aged.map((one) => (one.sequence === 2 ? { ...one, tags: ["good"] } : one));
      expect(loops(tagged, { state: { kind: "done", at: iso(NOW) } })).toEqual([12, 2]);
    });
  });
});
