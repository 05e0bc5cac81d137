/** Why a checkpoint was taken. The union of what the four seed systems name, plus our own two: restore and fork. */
export const TRIGGERS = [
  "manual",
  "automatic",
  "stage", // a stage ended: phase_transition, phase_boundary, phase_start
  "iteration",
  "batch_complete",
  "agent_complete",
  "artifact_complete",
  "conflict_start",
  "conflict_resolved",
  "before_risky", // pre_risky_op
  "before_external", // before_external_call
  "error_recovery",
  "interrupt", // user_interrupt
  "session_end",
  "timer",
  "before_restore", // what a restore would overwrite, saved first
  "restore",
  "fork",
  "import",
] as const;

export type Trigger = (typeof TRIGGERS)[number];
