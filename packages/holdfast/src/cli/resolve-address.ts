import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Holdfast } from "../app.ts";
import type { CheckpointSummary } from "../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../core/error.ts";
import type { Shell } from "./command.ts";

/** As `resolve`, for commands that take paths too: whoever writes a path in the place of an address is told where it goes. */
export async function resolveAddress(
  shell: Pick<Shell, "cwd">,
  holdfast: Holdfast,
  params: { readonly typed: string; readonly instead: string },
): Promise<CheckpointSummary> {
  const { typed, instead } = params;
  try {
    return await holdfast.resolve(typed);
  } catch (error) {
    const unknown = error instanceof HoldfastError && (error.code === "USAGE" || error.code === "RUN_NOT_FOUND");
    if (!unknown || typed === "" || !existsSync(resolve(shell.cwd, typed))) throw error;
    throw new HoldfastError({
      code: error.code,
      message: error.message,
      hint: `${typed} is a path here; paths go after --: ${instead} -- ${typed}`,
      data: error.data,
      cause: error,
    });
  }
}
