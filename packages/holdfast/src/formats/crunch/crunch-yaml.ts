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
  if (["checkpoint_id", "workflow_state", "current_phase"].every(has)) {
    return { match: "yes", why: "it has a checkpoint_id and a workflow_state with a current_phase" };
  }
  if (PLACE.test(file.path)) return { match: "maybe", why: "it lies where crunch puts its checkpoints" };
  return { match: "no", why: "it has no checkpoint_id with a workflow_state" };
}

/** A file of that name is crunch's, also when it is damaged; the index beside it is not a checkpoint. */
const PLACE =
  /(?:^|[/\\])\.claude[/\\]crunch[/\\][^/\\]+[/\\]checkpoints[/\\](?!index\.)[^/\\]+\.(?:ya?ml|json)(?:\.gz|\.lz4)?$/i;
const LOOKED_AT = 65_536;
const LOSSY = new TextDecoder();
