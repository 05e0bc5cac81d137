import { HoldfastError } from "../../core/error.ts";
import type { AnyContext } from "../any-context.ts";

/**
 * What the forge or the remote answers, as a rule through a step. Where it cannot be reached or does not let us in, the run parks: no iteration is spent on
 * that. A forge that says when it answers again is waited for until then. Outside the step, so that the step counts as not done and is tried again.
 */
export async function askForge<T>(context: AnyContext, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof HoldfastError) || (error.code !== "FORGE_FAILED" && error.code !== "FORGE_DENIED"))
      throw error;
    const { until } = error.data;
    if (typeof until === "string") return await context.park({ on: "quota", reason: error.message, until });
    const hint = error.hint === undefined ? "" : ` ${error.hint}`;
    return await context.park({ on: "person", reason: `${error.message}.${hint} Resume when that is put right.` });
  }
}
