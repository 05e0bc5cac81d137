import { isJsonArray } from "../core/json.ts";
import type { Json, JsonContainer } from "../core/json.ts";

/** Far below what our own values may have, because a document is kept inside of them; far above what anybody wrote. */
export const MAX_FOREIGN_DEPTH = 500;

export type Survey = "sound" | "suspicious" | "too deep";

/**
 * A quick look at a text and what JSON.parse made of it. "sound" is certain: no key was given twice, no number was
 * rounded, no text is ill-formed. "suspicious" may be harmless; auditJson, which is slow, decides.
 * Every key that was given twice is one key less in the value, so counting both sides is enough.
 */
export function surveyJson(text: string, value: JsonContainer): Survey {
  const keys = countKeys(value, 0);
  if (keys === TOO_DEEP) return "too deep";
  // Infinite where a number is suspicious, so never equal.
  return keys === countKeysIn(text) && !hasSurrogateEscape(text) ? "sound" : "suspicious";
}

const TOO_DEEP = -1;

/** Written for speed, as this is most of what strictness costs: no lists of keys, no iterators, no calls for scalars. */
function countKeys(value: JsonContainer, depth: number): number {
  if (depth >= MAX_FOREIGN_DEPTH) return TOO_DEEP;
  let keys = 0;
  if (isJsonArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const inside = countKeysBelow(value[index], depth);
      if (inside === TOO_DEEP) return TOO_DEEP;
      keys += inside;
    }
    return keys;
  }
  for (const key in value) {
    const inside = countKeysBelow(value[key], depth);
    if (inside === TOO_DEEP) return TOO_DEEP;
    keys += inside + 1;
  }
  return keys;
}

function countKeysBelow(child: Json | undefined, depth: number): number {
  if (typeof child === "number") return isExact(child) ? 0 : Number.POSITIVE_INFINITY;
  return typeof child === "object" && child !== null ? countKeys(child, depth + 1) : 0;
}

function isExact(value: number): boolean {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Colons that follow a closing quote, at least: a text that begins with a colon is counted as well, which makes the
 * survey suspicious and never sound. Colons are sought and not quotes, because there are fewer of them.
 */
function countKeysIn(text: string): number {
  let keys = 0;
  for (let colon = text.indexOf(":"); colon !== -1; colon = text.indexOf(":", colon + 1)) {
    const before = text.charCodeAt(colon - 1);
    if (
      before === QUOTE ? text.charCodeAt(colon - 2) !== BACKSLASH || endsKey(text, colon) : endsKeySpaced(text, colon)
    )
      keys += 1;
  }
  return keys;
}

function endsKeySpaced(text: string, colon: number): boolean {
  return isSpace(text.charCodeAt(colon - 1)) && endsKey(text, colon);
}

function endsKey(text: string, colon: number): boolean {
  let at = colon - 1;
  while (isSpace(text.charCodeAt(at))) at -= 1;
  if (text.charCodeAt(at) !== QUOTE) return false;
  const quote = at;
  while (text.charCodeAt(at - 1) === BACKSLASH) at -= 1;
  return (quote - at) % 2 === 0;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function hasSurrogateEscape(text: string): boolean {
  return text.includes("\\u") && /\\u[dD]/.test(text);
}
