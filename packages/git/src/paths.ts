// Paths inside a worktree as bytes: quoting, parsing, and the check that a path is safe to write.

import type { GitPath } from "@holdfast/core/checkpoint";

/**
 * A path inside a worktree in the bytes that git and the kernel use. It is a string with one character per byte
 * (latin1), so that it can be a key and sorts in git's order. Never show it or pass it to `fs`; use `quotePath` and
 * `pathBytes`.
 */
export type RawPath = string;

export function quotePath(path: RawPath): GitPath {
  if (!path.startsWith('"') && PRINTABLE_ASCII.test(path)) return path;
  const bytes = pathBytes(path);
  if (!path.startsWith('"') && !CONTROL.test(path)) {
    const text = bytes.toString("utf8");
    if (Buffer.from(text, "utf8").equals(bytes)) return text;
  }
  return `"${Array.from(bytes, escapeByte).join("")}"`;
}

/**
 * The inverse of `quotePath`. Returns undefined for text with a quote that is invalid (a bad escape, no closing quote).
 */
export function parsePath(path: GitPath): RawPath | undefined {
  if (!path.startsWith('"')) return Buffer.from(path, "utf8").toString("latin1");
  const match = QUOTED.exec(path);
  if (match?.[1] === undefined) return undefined;
  return match[1].replaceAll(ESCAPE, (_, octal: string | undefined, letter: string | undefined) =>
    octal === undefined ? (LETTER_BYTES.get(letter ?? "") ?? "") : String.fromCharCode(Number.parseInt(octal, 8)),
  );
}

export function pathBytes(path: RawPath): Buffer {
  return Buffer.from(path, "latin1");
}

/** Splits git's `-z` output: paths or records, each ended by a NUL. */
export function splitRecords(output: Buffer): string[] {
  const text = output.toString("latin1");
  if (text === "") return [];
  return (text.endsWith("\0") ? text.slice(0, -1) : text).split("\0");
}

export function joinRecords(records: readonly string[]): Buffer {
  return Buffer.from(records.map((record) => `${record}\0`).join(""), "latin1");
}

const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;
// eslint-disable-next-line no-control-regex -- control characters are what it looks for
const CONTROL = /[\x00-\x1f\x7f]/;
const QUOTED = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[abtnvfr"\\]|\\[0-3][0-7]{2})*)"$/;
const ESCAPE = /\\(?:([0-3][0-7]{2})|([abtnvfr"\\]))/g;
const ESCAPES: readonly (readonly [byte: number, letter: string])[] = [
  [0x07, "a"],
  [0x08, "b"],
  [0x09, "t"],
  [0x0a, "n"],
  [0x0b, "v"],
  [0x0c, "f"],
  [0x0d, "r"],
  [0x22, '"'],
  [0x5c, "\\"],
];
const BYTE_LETTERS = new Map(ESCAPES);
const LETTER_BYTES = new Map(ESCAPES.map(([byte, letter]) => [letter, String.fromCharCode(byte)]));

function escapeByte(byte: number): string {
  const letter = BYTE_LETTERS.get(byte);
  if (letter !== undefined) return `\\${letter}`;
  if (byte >= 0x20 && byte < 0x7f) return String.fromCharCode(byte);
  return `\\${byte.toString(8).padStart(3, "0")}`;
}

/**
 * True if a path from a tree may be written below a worktree root. Trees can come from anywhere, and git does not check
 * what `cat-file` returns, so we must. The same rule decides what a snapshot can contain.
 */
export function isSafePath(path: RawPath): boolean {
  if (path === "" || path.includes("\0")) return false;
  return path.split("/").every((name) => name !== "" && name !== "." && name !== ".." && !isDotGit(name));
}

/**
 * True for ".git" as Linux, NTFS (short name, streams, trailing dots and spaces) or HFS+ (ignorable characters) read
 * it.
 */
function isDotGit(name: string): boolean {
  const visible = Buffer.from(name, "latin1").toString("utf8").replaceAll(IGNORABLE, "");
  return /^(?:\.git|git~1)[. ]*(?::.*)?$/is.test(visible) || /(?:^|\\)(?:\.git|git~1)[. ]*(?:\\|$)/is.test(visible);
}

const IGNORABLE = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;
