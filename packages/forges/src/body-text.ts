// Bodies of issues, comments and pull requests: idempotency keys, length limits, closing references and review text.

import type { Subject } from "@holdfast/core/forge";
import { usageError } from "@holdfast/platform/error";

/** Adds the key to the body as an invisible marker. The marker identifies the resource later, for any login. */
export function withMarker(body: string, key: string): string {
  requireKey(key);
  if (hasMarker(body, key)) return body;
  const text = body.trimEnd();
  return `${text}${text === "" ? "" : "\n\n"}${markerOf(key)}\n`;
}

export function hasMarker(body: string, key: string): boolean {
  return body.includes(markerOf(key));
}

/** Whether Holdfast wrote this text. */
export function hasAnyMarker(body: string): boolean {
  return body.search(MARKER) !== -1;
}

/** Adds the keys of the old body to the new one, so that an edit does not remove them. */
export function keepMarkers(body: string, before: string): string {
  const keys = Array.from(before.matchAll(MARKER), ([, key = ""]) => key);
  return keys.reduce(withMarker, body);
}

/** A key consists of run, stage and purpose. Characters that could end the HTML comment early are not allowed. */
export function requireKey(key: string): void {
  if (/^[^\s<>]{1,200}$/.test(key)) return;
  throw usageError(
    `${JSON.stringify(key)} cannot be used as a key`,
    "Use 1 to 200 characters without spaces and without < or >.",
  );
}

const MARKER = /<!-- holdfast:([^\s<>]+) -->/g;

function markerOf(key: string): string {
  return `<!-- holdfast:${key} -->`;
}

/**
 * Shortens a body to the forge's limit. `finish` adds the keys after the cut, so that a key is never cut off. Without
 * its key the resource could not be found again and would be created twice.
 */
export function truncateBody(body: string, most: number, finish: (body: string) => string): string {
  const whole = finish(body);
  if (whole.length <= most) return whole;
  const room = most - finish("").length - NOTE.length - 2;
  const cut = body.slice(0, Math.max(0, room)).replace(/[\uD800-\uDBFF]$/, "");
  return finish(`${cut}${NOTE}`);
}

const NOTE = "\n\n(cut: the forge takes no more)";

export function requireText(name: string, text: string): void {
  if (text.trim() !== "" && !/[\n\r\0]/.test(text)) return;
  throw usageError(`${JSON.stringify(text)} cannot be used as a ${name}`, "Give one line of text.");
}

/** Numbers of the issues that a pull request's body closes. `Closes #42` matches 42 only, never 4 or 420. */
export function closedIssues(body: string): readonly number[] {
  const named = body.matchAll(/\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\s*:?\s+#(\d{1,9})(?!\d)/gi);
  return [...new Set(Array.from(named, ([, digits]) => Number(digits)))];
}

/** A review and its line comments as one text for the agent. */
export function reviewText(
  body: string,
  remarks: readonly { readonly file: string; readonly line: number | null; readonly body: string }[],
): string {
  const lines = remarks.map(
    ({ file, line, body: text }) => `${file}${line === null ? "" : `:${line}`}: ${text.trim()}`,
  );
  return [body.trim(), ...lines].filter((text) => text !== "").join("\n\n");
}

export function subjectNumber(on: Subject): number {
  return typeof on === "number" ? on : on.pullRequest;
}

export function requireNumber(number: number): void {
  if (Number.isSafeInteger(number) && number > 0 && number < 1e9) return;
  throw usageError(`${String(number)} is not the number of an issue or pull request`, "Numbers start at 1.");
}
