import { describe, expect, test } from "vitest";
import { IMPL_EVENTS, implShape } from "./workflow-shape.ts";

const all = [true, false].flatMap((review) =>
  [true, false].flatMap((simplify) =>
    [true, false].flatMap((waitForCi) =>
      (["review", "impl"] as const).map((afterRebase) => ({ review, simplify, waitForCi, afterRebase })),
    ),
  ),
);

describe("the shape of impl", () => {
  test.each(all)("%j holds together and every working stage can be given up", (options) => {
    const { stages, transitions, events, initial, ends } = implShape(options);
    const reached = new Set([initial]);
    for (const stage of reached) for (const next of Object.values(transitions[stage] ?? {})) reached.add(next);
    expect([...reached].toSorted()).toEqual([...stages].toSorted());
    const working = stages.filter((stage) => !Object.hasOwn(ends, stage));
    for (const stage of working) expect(transitions[stage]?.["fatal"]).toBe("fatal");
    expect(new Set(Object.values(transitions).flatMap((row) => Object.keys(row)))).toEqual(new Set(events));
  });

  test("with everything on, every event has its place", () => {
    const shape = implShape({ review: true, simplify: true, waitForCi: true, afterRebase: "review" });
    expect(shape.events).toEqual(IMPL_EVENTS);
    expect(shape.transitions).toMatchObject({
      impl: { impl_done: "review", impl_not_done: "impl", parse_fail: "impl" },
      review: { review_pass: "simplify", review_fail: "impl" },
      simplify: { simp_pass: "pr", simp_fail: "impl" },
      pr: { pr_pass: "ci", pr_fail_fixable: "impl", pr_fail_need_rebase: "rebase" },
      ci: { ci_pass: "done", ci_fail: "impl", ci_conflict: "rebase" },
      rebase: { rebase_ok: "review", rebase_conflict: "fatal" },
    });
  });

  test("stages that are switched off are not there", () => {
    const shape = implShape({ review: false, simplify: false, waitForCi: false, afterRebase: "review" });
    expect(shape.stages).toEqual(["setup", "impl", "pr", "rebase", "done", "fatal"]);
    expect(shape.transitions).toMatchObject({
      impl: { impl_done: "pr" },
      rebase: { rebase_ok: "pr" },
      pr: { pr_pass: "done" },
    });
  });
});
