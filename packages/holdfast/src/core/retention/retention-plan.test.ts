import { describe, expect, test } from "vitest";
import { defaultRetention, storeRetention } from "./retention.ts";
import type { RetentionPolicy, RetentionSubject } from "./retention.ts";
import { planRetention } from "./retention-plan.ts";
import { checkpoint, iso, kept, NOW, subject } from "./retention-sample.ts";
import type { Some } from "./retention-sample.ts";
import type { RunState } from "../run/run.ts";
import { TRIGGERS } from "../checkpoint/trigger.ts";

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

  test("-1 is no number to keep: refused, not guessed at", () => {
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
  test("what a number keeps goes after 30 days", () => {
    expect(keptOf(subject(series(5, (n) => ({ days: n === 1 ? 31 : 29 }))))).toEqual([5, 4, 3, 2]);
    expect(keptOf(subject(series(5, () => ({ days: 31 }))))).toEqual([5]);
  });

  test("a done run keeps its latest, and what a person asked for", () => {
    const done: RunState = { kind: "done", at: iso(NOW) };
    const all = series(6, (n) => ({ trigger: n === 2 ? "manual" : "stage" }));
    expect(keptOf(subject(all, { state: done }))).toEqual([6, 2]);
    expect(keptOf(subject(all, { state: done }), { ...defaultRetention, onSuccess: "by_rules" })).toHaveLength(6);
  });

  test("a fatal run keeps all that is recent, then goes by the rules", () => {
    const fatal: RunState = { kind: "fatal", at: iso(NOW), reason: "x" };
    const all = series(20, (n) => ({ days: n <= 4 ? 31 : 30 }));
    expect(keptOf(subject(all, { state: fatal }))).toHaveLength(16);
    expect(keptOf(subject(all, { state: fatal }), { ...defaultRetention, onFailure: "by_rules" })).toHaveLength(5);
  });
});

describe("never dropped", () => {
  const nothing = { ...only(0), maxBytes: 0, maxAgeDays: 0 };
  const old = series(9, () => ({ days: 1000 }));

  test("the newest, and the newest that can be resumed", () => {
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

  test("of a done run too", () => {
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

  test("of equally old ones the run's name and the sequence decide, so that the answer is always the same", () => {
    const twins = ["b", "a"].map((run) => subject(series(3), { run }));
    const plans = (maxBytes: number) =>
      planRetention({ subjects: twins, policy: policy(maxBytes), now: NOW }).map(kept);
    expect(plans(500)).toEqual([
      [3, 2, 1],
      [3, 2],
    ]);
    expect(plans(300)).toEqual([[3, 2], [3]]);
  });

  test("what would free nothing is left alone", () => {
    expect(keptOf(subject(series(4, (n) => ({ added: n === 2 ? 100 : 0 }))), policy(0))).toEqual([4, 3, 1]);
  });

  test("a witness goes with the last one that leaned on it, and its bytes count", () => {
    const setBack = subject([
      { sequence: 1, days: 2, trigger: "interrupt" },
      { sequence: 2, days: 20_000, trigger: "interrupt" },
      { sequence: 3, days: 1 },
      { sequence: 4 },
    ]);
    expect(keptOf(setBack, { ...defaultRetention, maxBytes: 200 })).toEqual([4, 3]);
  });

  test("a store that cannot fit keeps what is protected and says no more", () => {
    expect(keptOf(subject(series(4)), policy(0))).toEqual([4]);
  });
});

describe("clocks", () => {
  test("a checkpoint from the future, or with a time that cannot be read, is not old", () => {
    const future = subject([{ sequence: 1, days: -5000 }, { sequence: 2 }]);
    expect(keptOf(future)).toEqual([2, 1]);
    const odd = { ...checkpoint({ sequence: 1 }), createdAt: "yesterday" };
    expect(keptOf({ ...subject([{ sequence: 2 }]), checkpoints: [odd, checkpoint({ sequence: 2 })] })).toEqual([2, 1]);
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

describe("a run that is young", () => {
  const many = Array.from(
    { length: 12 },
    (_, index) => ({ sequence: index + 1, trigger: "automatic", days: 40 }) as const,
  );
  const states = [
    { kind: "open" },
    { kind: "done", at: "2026-01-01T00:00:00Z" },
    { kind: "fatal", at: "2026-01-01T00:00:00Z", reason: "no" },
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
