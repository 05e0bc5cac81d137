// The difference of two JSON values, as a list of changed paths.

import { type Json, type JsonArray, type JsonObject, isJsonArray, isJsonObject } from "./json.ts";
import { pointer } from "./values.ts";

export interface JsonChange {
  /** JSON pointer (RFC 6901). */
  readonly path: string;
  /** Absent when the part was added. */
  readonly from?: Json;
  /** Absent when the part was removed. */
  readonly to?: Json;
}

export interface JsonDiff {
  readonly changes: readonly JsonChange[];
  /** More changes exist than `limit`. */
  readonly truncated: boolean;
}

/** Parts shared by identity are passed over, so the cost follows the difference when one was captured on the other. */
export function diffJson(params: { readonly from: Json; readonly to: Json; readonly limit?: number }): JsonDiff {
  const limit = params.limit ?? 1000;
  const changes: JsonChange[] = [];
  const path: string[] = [];
  // One more than asked for shows that there are more.
  collect(params.from, params.to, path, (change) => {
    changes.push(change);
    return changes.length <= limit;
  });
  return { changes: changes.slice(0, limit), truncated: changes.length > limit };
}

/** Returns false to stop. */
type Report = (change: JsonChange) => boolean;

function collect(from: Json | undefined, to: Json | undefined, path: string[], report: Report): boolean {
  if (from === to) return true;
  if (from === undefined) return to === undefined || report({ path: pointer(path), to });
  if (to === undefined) return report({ path: pointer(path), from });
  if (isJsonArray(from) && isJsonArray(to)) return collectArray(from, to, path, report);
  if (isJsonObject(from) && isJsonObject(to)) return collectObject(from, to, path, report);
  return report({ path: pointer(path), from, to });
}

function collectArray(from: JsonArray, to: JsonArray, path: string[], report: Report): boolean {
  for (let i = 0; i < Math.max(from.length, to.length); i += 1) {
    if (!step(from[i], to[i], String(i), path, report)) return false;
  }
  return true;
}

function collectObject(from: JsonObject, to: JsonObject, path: string[], report: Report): boolean {
  const added = Object.keys(to).filter((key) => !Object.hasOwn(from, key));
  for (const key of [...Object.keys(from), ...added].sort()) {
    const before = Object.hasOwn(from, key) ? from[key] : undefined;
    const after = Object.hasOwn(to, key) ? to[key] : undefined;
    if (!step(before, after, key, path, report)) return false;
  }
  return true;
}

function step(from: Json | undefined, to: Json | undefined, key: string, path: string[], report: Report): boolean {
  if (from === to) return true;
  path.push(key);
  const continues = collect(from, to, path, report);
  path.pop();
  return continues;
}
