import { isJsonObject } from "./json.ts";
import type { Json, JsonObject } from "./json.ts";

/**
 * The JSON objects in a text, outermost ones only, in their order. Braces in strings do not count, so an object whose text quotes code or
 * fences is whole. Braces of prose are stepped over.
 */
export function objectsIn(text: string): readonly JsonObject[] {
  const found: JsonObject[] = [];
  let from = text.indexOf("{");
  for (let tries = 0; from !== -1 && tries < MAX_TRIES; tries += 1) {
    const end = endOf(text, from);
    const object = end === -1 ? null : parseObject(text.slice(from, end));
    if (object !== null) found.push(object);
    from = text.indexOf("{", object === null ? from + 1 : end);
  }
  return found;
}

/** A text of nothing but braces must not take for ever. */
const MAX_TRIES = 1000;

/** After the brace that closes the one at `from`; -1 when none does. */
function endOf(text: string, from: number): number {
  let depth = 0;
  let quoted = false;
  for (let at = from; at < text.length; at += 1) {
    const character = text[at];
    if (quoted) {
      if (character === "\\") at += 1;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === "{") depth += 1;
    else if (character === "}") {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return -1;
}

function parseObject(text: string): JsonObject | null {
  try {
    const value = JSON.parse(text) as Json; // What JSON.parse returns is JSON.
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}
