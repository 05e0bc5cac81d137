import type { TransitionTable, WorkflowShape } from "../../core/position/workflow.ts";

const TRANSITIONS: TransitionTable = {
  begin: { begun: "iterate", criterion_pass: "done", fatal: "fatal" },
  iterate: { iterated: "verify", fatal: "fatal" },
  // Of what is verified the words "pass" and "fail" are read by whoever looks for a checkpoint to go back to.
  verify: { verify_pass: "reflect", verify_fail: "reflect", fatal: "fatal" },
  reflect: {
    again: "iterate",
    criterion_met: "publish",
    goes_back: "rollback",
    limit_reached: "limit",
    stuck: "fatal",
    fatal: "fatal",
  },
  rollback: { went_back: "iterate", limit_reached: "limit", fatal: "fatal" },
  publish: { published: "done", push_refused: "iterate", limit_reached: "limit", fatal: "fatal" },
};

/** The same whatever the options are: a run whose limit is raised follows the same machine. */
export const RALPH_SHAPE: WorkflowShape = {
  name: "ralph",
  version: 1,
  initial: "begin",
  stages: [...Object.keys(TRANSITIONS), "done", "fatal", "limit"],
  events: [...new Set(Object.values(TRANSITIONS).flatMap((row) => Object.keys(row)))],
  transitions: TRANSITIONS,
  // At its limit a loop has not done what it was asked for; what it is told to go on with is more iterations, not another begin.
  ends: { done: "done", fatal: "fatal", limit: "fatal" },
};
