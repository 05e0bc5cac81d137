import type { ExecutionConfig } from "../../core/checkpoint/checkpoint.ts";
import { maskSecrets, secretValues } from "../../core/mask.ts";
import { describeEnvironment } from "../../core/replay/environment.ts";
import type { Environment } from "../../core/replay/environment.ts";
import { newestWhole } from "../../engine/conduct/newest-whole.ts";
import { recordingParts } from "../../engine/record/recording-parts.ts";
import { Tape } from "../../engine/record/tape.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { sha256 } from "../../system/hash.ts";

/** For one run: with a tape where its mode says so. */
export function recordedParts(parts: WorkParts, mode: ExecutionConfig["mode"]): WorkParts {
  if (mode === "default") return parts;
  return recordingParts(parts, new Tape({ environment: currentEnvironment, mask: maskOwnSecrets }));
}

/** For a run that is there: with a tape where it is recorded. */
export async function partsOfRun(parts: WorkParts, run: string): Promise<WorkParts> {
  if ((await parts.store.getRun(run)) === undefined) return parts;
  const saved = (await newestWhole(parts.store, run)).checkpoint?.planes.config;
  return recordedParts(parts, saved?.mode ?? "default");
}

/** As agents and commands get it, secrets masked. */
export function currentEnvironment(): Environment {
  return describeEnvironment(process.env, sha256);
}

export function maskOwnSecrets(text: string): string {
  return maskSecrets(text, secretValues(process.env));
}
