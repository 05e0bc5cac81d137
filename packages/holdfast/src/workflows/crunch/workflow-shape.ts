import type { TransitionTable, WorkflowShape } from "../../core/position/workflow.ts";

/** Stages that a run can be told to stop at: crunch's phases, as far as a run carries an issue. */
export const CRUNCH_STAGES = ["enrich", "ready", "implementing", "e2e", "docs", "ready-to-merge"] as const;
export type CrunchStage = (typeof CRUNCH_STAGES)[number];

export const CRUNCH_EVENTS = [
  "enriched",
  "accepted",
  "implemented",
  "e2e_pass",
  "e2e_fail",
  "documented",
  "push_refused",
  "merged",
  /** As far as it was to go. */
  "at_target",
  "fatal",
] as const;
export type CrunchEvent = (typeof CRUNCH_EVENTS)[number];

const TRANSITIONS: TransitionTable = {
  enrich: { enriched: "ready", at_target: "stopped", fatal: "fatal" },
  ready: { accepted: "implementing", at_target: "stopped", fatal: "fatal" },
  implementing: { implemented: "e2e", at_target: "stopped", fatal: "fatal" },
  e2e: { e2e_pass: "docs", e2e_fail: "implementing", at_target: "stopped", fatal: "fatal" },
  docs: { documented: "ready-to-merge", at_target: "stopped", fatal: "fatal" },
  "ready-to-merge": { merged: "done", push_refused: "implementing", at_target: "stopped", fatal: "fatal" },
};

/** The same whatever the options are: a run whose target is raised follows the same machine. */
export const CRUNCH_SHAPE: WorkflowShape = {
  name: "crunch",
  version: 1,
  initial: "enrich",
  stages: [...Object.keys(TRANSITIONS), "stopped", "done", "fatal"],
  events: CRUNCH_EVENTS,
  transitions: TRANSITIONS,
  // At its target a run has done what it was asked for, although the issue is not done: `stopped` says where it stands.
  ends: { stopped: "done", done: "done", fatal: "fatal" },
};

/** What a stage leads to when it succeeds: where a run that stopped at it goes on. */
export function stageAfter(stage: CrunchStage): CrunchStage | "done" {
  return CRUNCH_STAGES[CRUNCH_STAGES.indexOf(stage) + 1] ?? "done";
}

export function isCrunchStage(stage: string): stage is CrunchStage {
  return CRUNCH_STAGES.some((one) => one === stage);
}
