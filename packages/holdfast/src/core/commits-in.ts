import { isJsonArray, isJsonObject } from "./json.ts";
import type { Json } from "./json.ts";

/** Every text in the value that has the form of a git object id. */
export function commitsIn(value: Json | undefined): ReadonlySet<string> {
  const found = new Set<string>();
  collect(value, found);
  return found;
}

function collect(value: Json | undefined, into: Set<string>): void {
  if (typeof value === "string") {
    if (OBJECT_ID.test(value)) into.add(value);
  } else if (isJsonArray(value)) {
    for (const one of value) collect(one, into);
  } else if (isJsonObject(value)) {
    for (const one of Object.values(value)) collect(one, into);
  }
}

const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
