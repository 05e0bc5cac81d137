/** How much of a run is recorded, and whether it may part from that; docs/reproducibility.md. */
export const EXECUTION_MODES = ["default", "logged", "seeded", "strict"] as const;
export type ExecutionMode = (typeof EXECUTION_MODES)[number];
