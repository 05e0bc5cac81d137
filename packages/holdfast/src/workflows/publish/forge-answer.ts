import { HoldfastError } from "../../core/error.ts";
import type { AnyContext } from "../any-context.ts";

/** When a forge or a remote that does not answer, and names no time, is asked again. */
const ASK_AGAIN_MS = 60_000;

/**
 * What the forge or the remote answers, as a rule through a step. Where it does not answer for now the run waits for it, until the time that it names
 * where it names one. Where only the user can help (a login, a missing remote) the run waits for the user. No iteration is spent on either. Call it
 * outside the step, so that the step counts as not done and is tried again.
 */
export async function askForge<T>(context: AnyContext, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof HoldfastError) || (error.code !== "FORGE_FAILED" && error.code !== "FORGE_DENIED"))
      throw error;
    if (error.retry === "later") {
      const { until } = error.data;
      const time = typeof until === "string" ? until : new Date(context.now() + ASK_AGAIN_MS).toISOString();
      return await context.park({ on: "forge", reason: error.message, until: time });
    }
    const hint = error.hint === undefined ? "" : ` ${error.hint}`;
    const reason = `${error.message}.${hint} Fix this, then run \`holdfast resume ${context.run.id}\`.`;
    return await context.park({ on: "person", reason });
  }
}
