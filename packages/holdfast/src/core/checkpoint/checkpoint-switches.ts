/**
 * Checkpoints that a run takes on top of those it cannot do without. The others (a stage or an iteration that ends, what a failure leaves, what a restore
 * overwrites) are how nothing is lost, and have no switch.
 */
export interface CheckpointSwitches {
  /** When all files that a step was to deliver are there. Off: it is saved all the same, as an agent's or automatic one. */
  readonly artifactComplete: boolean;
  readonly beforeExternal: boolean;
  readonly beforeRisky: boolean;
}

export const ALL_CHECKPOINTS: CheckpointSwitches = {
  artifactComplete: true,
  beforeExternal: true,
  beforeRisky: true,
};
