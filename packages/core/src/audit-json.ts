// Finds what JSON.parse hides: duplicate keys, `__proto__`, integers beyond a double, lone surrogates.

import { PROTO_KEY, pointer } from "./values.ts";

export interface AuditFinding {
  readonly path: string;
  readonly line: number;
  readonly why: string;
}

/**
 * Reads a text that JSON.parse has accepted once more, token by token, for what JSON.parse hides: a key given twice,
 * a key `__proto__`, an integer that a double cannot hold, half of a surrogate pair. Returns the first of them with its
 * position, or null.
 * The caller bounds its depth.
 */
export function auditJson(text: string): AuditFinding | null {
  const cursor: Cursor = { text, at: 0, path: [] };
  const found = auditValue(cursor);
  if (found === null) return null;
  return { path: pointer(cursor.path), line: text.slice(0, cursor.at).split("\n").length, why: found };
}

interface Cursor {
  readonly text: string;
  at: number;
  readonly path: string[];
}

/** What is wrong; the cursor then stands there, and its path leads there. */
function auditValue(cursor: Cursor): string | null {
  skipSpace(cursor);
  switch (cursor.text[cursor.at]) {
    case "{":
      return auditObject(cursor);
    case "[":
      return auditList(cursor);
    case '"':
      return illFormed(readString(cursor));
    default:
      return auditScalar(cursor);
  }
}

function auditObject(cursor: Cursor): string | null {
  const seen = new Set<string>();
  while (cursor.text[nextToken(cursor)] !== "}") {
    const start = cursor.at;
    const key = readString(cursor);
    cursor.path.push(key);
    if (seen.has(key)) {
      cursor.at = start;
      return "a key occurs twice, possibly with different values";
    }
    const bad = key === PROTO_KEY ? PROTO_REFUSED : illFormed(key);
    if (bad !== null) return bad;
    seen.add(key);
    nextToken(cursor); // the colon
    const found = auditValue(cursor);
    if (found !== null) return found;
    cursor.path.pop();
    skipSpace(cursor);
    if (cursor.text[cursor.at] !== ",") break;
  }
  skipSpace(cursor);
  cursor.at += 1;
  return null;
}

/** Why a document may not have this key. */
export const PROTO_REFUSED = `a key is named ${PROTO_KEY}, which programs take for the prototype of the object`;

function auditList(cursor: Cursor): string | null {
  let index = 0;
  while (cursor.text[nextToken(cursor)] !== "]") {
    cursor.path.push(String(index));
    const found = auditValue(cursor);
    if (found !== null) return found;
    cursor.path.pop();
    index += 1;
    skipSpace(cursor);
    if (cursor.text[cursor.at] !== ",") break;
  }
  skipSpace(cursor);
  cursor.at += 1;
  return null;
}

const SCALAR = /[^\s,\]}]*/y;

function auditScalar(cursor: Cursor): string | null {
  SCALAR.lastIndex = cursor.at;
  const token = SCALAR.exec(cursor.text)?.[0] ?? "";
  const value: unknown = JSON.parse(token);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) return `the number ${token.slice(0, 40)} is too large`;
    // What JavaScript wrote comes back as it was, though the double's exact value has other last digits.
    if (/^-?\d+$/.test(token) && String(value) !== token && BigInt(token) !== BigInt(value))
      return `the number ${token.slice(0, 40)} has more digits than can be kept`;
  }
  cursor.at += token.length;
  return null;
}

function illFormed(text: string): string | null {
  return text.isWellFormed() ? null : "a text holds half of a surrogate pair, which UTF-8 cannot encode";
}

/** From its opening quote to behind its closing one. */
function readString(cursor: Cursor): string {
  const start = cursor.at;
  cursor.at += 1;
  while (cursor.text[cursor.at] !== '"') cursor.at += cursor.text[cursor.at] === "\\" ? 2 : 1;
  cursor.at += 1;
  return String(JSON.parse(cursor.text.slice(start, cursor.at)));
}

/** Over one sign of punctuation to the next token. */
function nextToken(cursor: Cursor): number {
  skipSpace(cursor);
  cursor.at += 1;
  skipSpace(cursor);
  return cursor.at;
}

const SPACE = /[ \t\n\r]*/y;

function skipSpace(cursor: Cursor): void {
  SPACE.lastIndex = cursor.at;
  cursor.at += SPACE.exec(cursor.text)?.[0].length ?? 0;
}
