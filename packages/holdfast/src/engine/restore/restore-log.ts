import { HoldfastError } from "../../core/error.ts";
import { completeSteps } from "../../core/resume/restore-step.ts";
import type { RestoreStep, RestoreStepName } from "../../core/resume/restore-step.ts";

/** What each step of a restore came to; an error that ends it carries the list. */
export class RestoreLog {
  readonly #told: RestoreStep[] = [];

  tell(step: RestoreStepName, outcome: "done" | "skipped" | "handed_over", text: string): void {
    this.#told.push({ step, outcome, text });
  }

  async during<T>(step: RestoreStepName, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.failed(step, error);
    }
  }

  /** The error with the list in its data. */
  failed(step: RestoreStepName, error: unknown): unknown {
    if (!(error instanceof HoldfastError) || "steps" in error.data) return error;
    const { code, message, hint, retry, data, cause } = error;
    // Found while the files are planned, and yet it is the checkpoint that is not whole.
    const at = code === "TREE_MISSING" || code === "STORE_CORRUPT" ? "integrity" : step;
    const told = this.#told.filter((one) => one.step !== at);
    const steps = completeSteps([...told, { step: at, outcome: "failed", text: message }]);
    return new HoldfastError({
      code,
      message,
      retry,
      data: { ...data, steps },
      cause: cause ?? error,
      ...(hint === undefined ? {} : { hint }),
    });
  }

  steps(): readonly RestoreStep[] {
    return completeSteps(this.#told);
  }
}
