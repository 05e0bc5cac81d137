import type { ExecutionConfig } from "../core/checkpoint.ts";
import { maskSecrets, secretValues } from "../core/mask.ts";
import { describeEnvironment } from "../core/replay/environment.ts";
import type { Environment } from "../core/replay/environment.ts";
import { recordingParts } from "../engine/record/recording-parts.ts";
import { Tape } from "../engine/record/tape.ts";
import type { WorkParts } from "../engine/work-parts.ts";
import { sha256 } from "../system/hash.ts";

/** For one run: with a tape where its mode says so. */
export function recordedParts(parts: WorkParts, mode: ExecutionConfig["mode"]): WorkParts {
  if (mode === "default") return parts;
  return recordingParts(parts, new Tape({ environment: currentEnvironment, mask: maskOwnSecrets }));
}

/** As agents and commands get it, secrets masked. */
export function currentEnvironment(): Environment {
  return describeEnvironment(process.env, sha256);
}

export function maskOwnSecrets(text: string): string {
  return maskSecrets(text, secretValues(process.env));
}
