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

function countKeys(value: JsonContainer, depth: number): number {
  if (depth >= MAX_FOREIGN_DEPTH) return TOO_DEEP;
  let keys = 0;
  // Not Object.entries: this is most of what strictness costs, and it allocates nothing.
  for (const key in value) {
    if (!Array.isArray(value)) keys += 1;
    const child: Json | undefined = Reflect.get(value, key);
    if (typeof child === "number") keys += isExact(child) ? 0 : Number.POSITIVE_INFINITY;
    else if (typeof child === "object" && child !== null) {
      const inside = countKeys(child, depth + 1);
      if (inside === TOO_DEEP) return TOO_DEEP;
      keys += inside;
    }
  }
  return keys;
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
    let at = colon - 1;
    while (isSpace(text.charCodeAt(at))) at -= 1;
    if (text.charCodeAt(at) !== QUOTE) continue;
    const quote = at;
    while (text.charCodeAt(at - 1) === BACKSLASH) at -= 1;
    if ((quote - at) % 2 === 0) keys += 1;
  }
  return keys;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function hasSurrogateEscape(text: string): boolean {
  return text.includes("\\ud") || text.includes("\\uD");
}
