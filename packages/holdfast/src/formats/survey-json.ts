import { isJsonArray } from "../core/json.ts";
import type { JsonContainer } from "../core/json.ts";

/** Far below what our own values may have, because a document is kept inside of them; far above what anybody wrote. */
export const MAX_FOREIGN_DEPTH = 500;

export type Survey = "sound" | "suspicious" | "too deep";

/**
 * A quick look at a text and what JSON.parse made of it. "sound" is certain: no key was given twice, no number was
 * rounded, no text is ill-formed. "suspicious" may be harmless; auditJson, which is slow, decides.
 * Every key that was given twice is one key less in the value, so counting both sides is enough.
 */
export function surveyJson(text: string, value: JsonContainer): Survey {
  const count: Count = { keys: 0, tooDeep: false, inexact: false };
  countKeys(value, 0, count);
  if (count.tooDeep) return "too deep";
  return !count.inexact && count.keys === countKeysIn(text) && !hasSurrogateEscape(text) ? "sound" : "suspicious";
}

interface Count {
  keys: number;
  tooDeep: boolean;
  inexact: boolean;
}

/** Written for speed, as this is much of what strictness costs: no lists of keys, no iterators, no calls for scalars. */
function countKeys(value: JsonContainer, depth: number, count: Count): void {
  if (depth >= MAX_FOREIGN_DEPTH) {
    count.tooDeep = true;
    return;
  }
  if (isJsonArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const child = value[index];
      if (typeof child === "object") {
        if (child !== null) countKeys(child, depth + 1, count);
      } else if (typeof child === "number" && !isExact(child)) count.inexact = true;
    }
    return;
  }
  let keys = 0;
  for (const key in value) {
    const child = value[key];
    keys += 1;
    if (typeof child === "object") {
      if (child !== null) countKeys(child, depth + 1, count);
    } else if (typeof child === "number" && !isExact(child)) count.inexact = true;
  }
  count.keys += keys;
}

function isExact(value: number): boolean {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Colons that follow a closing quote, at least: a text that begins with a colon is counted as well, which makes the
 * survey suspicious and never sound. Colons are sought and not quotes, because there are fewer of them; one that ends no
 * key stands within a text, and the rest of that text is passed over.
 */
function countKeysIn(text: string): number {
  let keys = 0;
  for (let colon = text.indexOf(":"); colon !== -1;) {
    const before = text.charCodeAt(colon - 1);
    const isKey =
      before === QUOTE ? text.charCodeAt(colon - 2) !== BACKSLASH || endsKey(text, colon) : endsKeySpaced(text, colon);
    if (isKey) keys += 1;
    colon = text.indexOf(":", isKey ? colon + 1 : endOfText(text, colon + 1));
  }
  return keys;
}

/** Of the closing quote of the text that `from` is in. */
function endOfText(text: string, from: number): number {
  let quote = text.indexOf('"', from);
  while (quote !== -1 && text.charCodeAt(quote - 1) === BACKSLASH && isEscaped(text, quote))
    quote = text.indexOf('"', quote + 1);
  // There is one: JSON.parse took it.
  return quote === -1 ? text.length : quote;
}

function isEscaped(text: string, at: number): boolean {
  let start = at;
  while (text.charCodeAt(start - 1) === BACKSLASH) start -= 1;
  return (at - start) % 2 === 1;
}

function endsKeySpaced(text: string, colon: number): boolean {
  return isSpace(text.charCodeAt(colon - 1)) && endsKey(text, colon);
}

function endsKey(text: string, colon: number): boolean {
  let at = colon - 1;
  while (isSpace(text.charCodeAt(at))) at -= 1;
  return text.charCodeAt(at) === QUOTE && !isEscaped(text, at);
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function hasSurrogateEscape(text: string): boolean {
  return text.includes("\\u") && /\\u[dD]/.test(text);
}
