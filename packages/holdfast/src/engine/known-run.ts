import { runNotFound } from "../core/refusals.ts";
import type { RunSummary } from "../core/run/run.ts";
import type { Store } from "../ports/store.ts";

/** RUN_NOT_FOUND where there is none. */
export async function knownRun(store: Pick<Store, "getRun">, run: string): Promise<RunSummary> {
  const summary = await store.getRun(run);
  if (summary === undefined) throw runNotFound(run);
  return summary;
}
