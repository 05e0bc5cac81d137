import { HoldfastError } from "../error.ts";
import { makeRunId } from "../run/run-id.ts";

/** As the published schema of loop checkpoints wants it. */
export const LOOP_ID = /^ralph-[a-z0-9-]+-[a-f0-9]{8}$/;

/**
 * "ralph-fix-the-tests-a1b2c3d4": the first words of the task, then the eight hex digits that were given (core makes up none). Always
 * fits LOOP_ID and a run id's length, whatever the task holds; one without a Latin letter or digit is called "task". USAGE for other digits.
 */
export function makeLoopId(params: { readonly task: string; readonly hex: string }): string {
  if (!/^[a-f0-9]{8}$/.test(params.hex)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `A loop id ends with 8 lower-case hex digits, not ${JSON.stringify(params.hex)}`,
    });
  }
  return `ralph-${makeRunId({ work: { kind: "task", text: params.task }, random: params.hex })}`;
}
