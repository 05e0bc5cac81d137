import type { ParkedOn } from "../../core/run/run.ts";
import type { AnyContext } from "../any-context.ts";

/**
 * Parks the first time it is reached; run again after the run was taken up, it goes on. Written down before parking: killed in
 * between, the run only goes on without having waited.
 */
export async function parkOnce(
  context: AnyContext,
  params: { readonly name: string; readonly on: ParkedOn; readonly reason: string },
): Promise<void> {
  let first = false;
  await context.step(params.name, () => {
    first = true;
    return true;
  });
  if (first) await context.park({ on: params.on, reason: params.reason });
}
