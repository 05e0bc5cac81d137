import { HoldfastError } from "../core/error.ts";

/** The body with the key in it, unseen by readers: by it the thing is found again, whoever made it and whenever. */
export function withMarker(body: string, key: string): string {
  requireKey(key);
  if (hasMarker(body, key)) return body;
  const text = body.trimEnd();
  return `${text}${text === "" ? "" : "\n\n"}${markerOf(key)}\n`;
}

export function hasMarker(body: string, key: string): boolean {
  return body.includes(markerOf(key));
}

/** A new body must not make a thing lose its keys. */
export function keepMarkers(body: string, before: string): string {
  const keys = Array.from(before.matchAll(MARKER), ([, key = ""]) => key);
  return keys.reduce(withMarker, body);
}

/** A key comes from run, stage and purpose. What could end the comment early is none. */
export function requireKey(key: string): void {
  if (/^[^\s<>]{1,200}$/.test(key)) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(key)} cannot be used as a key`,
    hint: "Use 1 to 200 characters without spaces and without < or >.",
  });
}

const MARKER = /<!-- holdfast:([^\s<>]+) -->/g;

function markerOf(key: string): string {
  return `<!-- holdfast:${key} -->`;
}
