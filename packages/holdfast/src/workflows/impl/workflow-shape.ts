import type { TransitionTable, WorkflowShape } from "../../core/position/workflow.ts";
import type { ImplOptions } from "./options.ts";

export const IMPL_EVENTS = [
  "setup_done",
  "impl_done",
  "impl_not_done",
  "parse_fail",
  "review_pass",
  "review_fail",
  "simp_pass",
  "simp_fail",
  "pr_pass",
  "pr_fail_fixable",
  "pr_fail_need_rebase",
  "ci_pass",
  "ci_fail",
  "ci_conflict",
  "rebase_ok",
  "rebase_conflict",
  "fatal",
] as const;
export type ImplEvent = (typeof IMPL_EVENTS)[number];

/** Stages that are switched off are not in the machine at all: nothing passes through a stage that does nothing. */
export function implShape(
  options: Pick<ImplOptions, "review" | "simplify" | "waitForCi" | "afterRebase">,
): WorkflowShape {
  const toPr = "pr";
  const toSimplify = options.simplify ? "simplify" : toPr;
  const toReview = options.review ? "review" : toSimplify;
  const afterRebase = options.afterRebase === "impl" ? "impl" : options.review ? "review" : toPr;
  const transitions: TransitionTable = {
    setup: { setup_done: "impl", fatal: "fatal" },
    impl: { impl_done: toReview, impl_not_done: "impl", parse_fail: "impl", fatal: "fatal" },
    ...(options.review ? { review: { review_pass: toSimplify, review_fail: "impl", fatal: "fatal" } } : {}),
    ...(options.simplify ? { simplify: { simp_pass: toPr, simp_fail: "impl", fatal: "fatal" } } : {}),
    pr: {
      pr_pass: options.waitForCi ? "ci" : "done",
      pr_fail_fixable: "impl",
      pr_fail_need_rebase: "rebase",
      fatal: "fatal",
    },
    ...(options.waitForCi ? { ci: { ci_pass: "done", ci_fail: "impl", ci_conflict: "rebase", fatal: "fatal" } } : {}),
    rebase: { rebase_ok: afterRebase, rebase_conflict: "fatal", fatal: "fatal" },
  };
  const used = new Set(Object.values(transitions).flatMap((row) => Object.keys(row)));
  return {
    name: "impl",
    version: 1,
    initial: "setup",
    stages: [...Object.keys(transitions), "done", "fatal"],
    events: IMPL_EVENTS.filter((event) => used.has(event)),
    transitions,
    ends: { done: "done", fatal: "fatal" },
  };
}
