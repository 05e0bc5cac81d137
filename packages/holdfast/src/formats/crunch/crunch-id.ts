import type { JsonObject } from "../../core/json.ts";
import { canonicalJson } from "../../core/values/index.ts";

/**
 * All forms that were seen: CP-enrich-20250114T103000-a3f2b1, CP-enrich-20250114-a3f2, CP-20250114-a3f2, CP-impl,
 * CP-before-batch-1. Others are read too, with a remark.
 */
export function isCrunchId(id: string): boolean {
  return /^CP-[A-Za-z0-9][\w.-]*$/.test(id);
}

/** An id becomes a file's name: it must not lead anywhere else, on any system. */
export function isFileName(id: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return id.length <= 200 && id.trim() !== "" && !/[/\\\u0000-\u001F\u007F]/.test(id) && !/^\.{1,2}$/.test(id);
}

/** For a checkpoint that has none. From what it says, so that the same checkpoint is given the same id again. */
export function makeId(params: {
  readonly phase: string;
  readonly createdAt: string | null;
  readonly document: JsonObject;
}): string {
  const phase = params.phase.replaceAll(/[^A-Za-z0-9_-]/g, "-").slice(0, 40) || "none";
  const time = params.createdAt === null ? [] : [params.createdAt.replaceAll(/[-:]|\.\d+Z$/g, "")];
  return ["CP", phase, ...time, shortHash(canonicalJson(params.document))].join("-");
}

/** FNV-1a, 32 bits: a name, not a proof. Crunch's own has 16. */
function shortHash(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
