import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { parseCrunchConfig } from "../../formats/crunch/crunch-config.ts";
import type { CrunchConfig } from "../../formats/crunch/crunch-config.ts";
import { readRegularFile } from "../../system/regular-file.ts";

/** `.claude/checkpoint-config.yaml` of the repository, for what is written for crunch; null where there is none. */
export function readCrunchSettings(root: string): CrunchConfig | null {
  const path = join(root, ".claude/checkpoint-config.yaml");
  const read = readRegularFile({ path, maxBytes: 1024 * 1024 });
  if (read.kind === "absent") return null;
  if (read.kind === "refused")
    throw new HoldfastError({ code: "FORMAT_DAMAGED", message: `${path} cannot be read: ${read.why}` });
  return parseCrunchConfig({ path, bytes: read.bytes, compression: "none" });
}
