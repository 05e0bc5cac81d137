import type { Detection, ForeignFile, Format } from "../format.ts";
import { decodeCrunch } from "./decode-crunch.ts";
import { encodeCrunch } from "./encode-crunch.ts";

/** Checkpoints of claude-crunch: YAML, JSON before 2026, one file each in a directory with an index. */
export const crunchYaml: Format = {
  name: "crunch-yaml",
  title: "claude-crunch checkpoint (YAML or JSON)",
  capabilities: { many: false, directory: true, resumable: true },
  detect: detectCrunch,
  decode: decodeCrunch,
  encode: (checkpoint) => encodeCrunch(checkpoint),
};

/** By its text alone: parsing a large YAML document only to decline it would take seconds. */
function detectCrunch(file: ForeignFile): Detection {
  const text = LOSSY.decode(file.bytes.subarray(0, LOOKED_AT));
  const has = (member: string): boolean => new RegExp(`(?:^|[{,])\\s*["']?${member}["']?\\s*:`, "m").test(text);
  const hits = ["checkpoint_id", "workflow_state", "current_phase"].filter(has);
  if (!hits.includes("checkpoint_id")) return { match: "no", why: "it has no checkpoint_id" };
  if (hits.length === 3)
    return { match: "yes", why: "it has a checkpoint_id and a workflow_state with a current_phase" };
  if (has("checkpoints")) return { match: "no", why: "it is an index of checkpoints, not one of them" };
  if (/(?:^|\/)CP-[^/]*\.(?:ya?ml|json)$/i.test(file.path)) {
    return { match: "maybe", why: "it has a checkpoint_id and is named as crunch names its files" };
  }
  return { match: "no", why: "it has a checkpoint_id but no workflow_state" };
}

const LOOKED_AT = 65_536;
const LOSSY = new TextDecoder();
