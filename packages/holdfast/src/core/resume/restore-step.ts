/** The sequence of a restore, in its order. */
export const RESTORE_STEPS = ["integrity", "files", "values", "conversation", "verify", "resume"] as const;
export type RestoreStepName = (typeof RESTORE_STEPS)[number];

/** What one step came to. A type and no interface: it is printed as JSON, and carried by errors, as it is. */
export type RestoreStep = {
  readonly step: RestoreStepName;
  /**
   * "skipped": there was nothing to do. "handed_over": it cannot be brought back, and whoever goes on is told of it instead.
   * "not_reached": a step failed, and nothing of this one was done.
   */
  readonly outcome: "done" | "skipped" | "handed_over" | "failed" | "not_reached";
  readonly text: string;
};

/** The whole list: what was told, and the rest as not reached. */
export function completeSteps(told: readonly RestoreStep[]): readonly RestoreStep[] {
  return RESTORE_STEPS.map(
    (step) => told.find((one) => one.step === step) ?? { step, outcome: "not_reached", text: "not reached" },
  );
}

/** From an error's data, where somebody else may have put anything. */
export function stepsOf(data: Readonly<Record<string, unknown>>): readonly RestoreStep[] {
  const { steps } = data;
  return Array.isArray(steps) ? steps.filter(isStep) : [];
}

function isStep(value: unknown): value is RestoreStep {
  if (typeof value !== "object" || value === null || !("step" in value) || !("outcome" in value)) return false;
  return RESTORE_STEPS.some((step) => step === value.step) && "text" in value && typeof value.text === "string";
}
