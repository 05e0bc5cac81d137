import { describe, expect, test } from "vitest";
import { defaultRetention, loopRetention } from "./retention.ts";
import type { KeepRule, RetentionPolicy } from "./retention.ts";
import { planRetention } from "./retention-plan.ts";
import { NOW, iso, kept, subject } from "./retention-sample.ts";
import type { Some } from "./retention-sample.ts";
import type { Trigger } from "../checkpoint/trigger.ts";

/** Six in each of two stages, then one of another trigger, which is the newest and so stays in any case. */
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
    ["batch_complete: the last 3 of each phase (defect 2: crunch's program counted over all)", "batch_complete", 3, 3],
    ["agent_complete: the last 1 of each phase", "agent_complete", 1, 1],
    ["conflict_resolved: all (an audit trail)", "conflict_resolved", 6, 6],
    ["conflict_start: all (defect 3: crunch had no rule for it)", "conflict_start", 6, 6],
    ["user_interrupt: the last 1 of the run", "interrupt", 0, 1],
    ["session_end: the last 1 of the run (defect 3: crunch had no rule for it)", "session_end", 0, 1],
    ["manual: all", "manual", 6, 6],
  ])("%s", (_, trigger, enrich, implementing) => {
    expect(keptOf(trigger)).toEqual({ enrich, implementing });
  });

  test("defect 1: all is all, and 0 is none; -1 is no number that is counted with", () => {
    expect(keptOf("batch_complete", having("batch_complete", { keep: "all", per: "stage" }))).toEqual({
      enrich: 6,
      implementing: 6,
    });
    expect(keptOf("manual", having("manual", { keep: 0, per: "run" }))).toEqual({ enrich: 0, implementing: 0 });
    expect(() => keptOf("manual", having("manual", { keep: -1, per: "run" }))).toThrow(/cannot use -1/);
  });

  test("0 leaves the newest, and the newest to resume from", () => {
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

describe("the life cycle of loop checkpoints, as published", () => {
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
  test("on_success keep_latest: also what was asked for by hand goes", () => {
    expect(loops(twelve, { state: { kind: "done", at: iso(NOW) } })).toEqual([12]);
  });
  test("on_failure keep_all_recent", () => {
    const state = { kind: "fatal", at: iso(NOW), reason: "stuck" } as const;
    expect(loops(twelve, { state })).toHaveLength(12);
    expect(loops(aged, { state })).toEqual([12, 11, 10, 9]);
  });
  test("preserve_tagged: for ever, whatever the state", () => {
    const tagged = aged.map((one) => (one.sequence === 2 ? { ...one, tags: ["good"] } : one));
    expect(loops(tagged, { state: { kind: "done", at: iso(NOW) } })).toEqual([12, 2]);
  });
});
