import { type Json, isJsonArray } from "../json.ts";
import { FRAMED_TEXT_MAX, FRAME_MAX } from "./limits.ts";
import { sortedKeys } from "./sorted-keys.ts";

/** Whether canonical JSON of the value is surely longer than `limit`, found by looking at no more than that much of it. */
export function isLongerThan(value: Json, limit: number): boolean {
  return rest(value, limit) < 0;
}

/** What is left of `limit` after the value; negative as soon as it is used up. Escapes are not counted. */
function rest(value: Json, limit: number): number {
  if (typeof value === "string") return limit - value.length - 2;
  if (typeof value !== "object" || value === null) return limit - 1;
  let left = limit - 1;
  if (isJsonArray(value)) {
    for (const child of value) {
      left = rest(child, left - 1);
      if (left < 0) return left;
    }
    return left;
  }
  for (const key of sortedKeys(value)) {
    left = rest(value[key] ?? null, left - key.length - 4);
    if (left < 0) return left;
  }
  return left;
}

/** Whether the value is one text of moderate length with little around it. Says nothing about a value that is short. */
export function isFramed(value: Json): boolean {
  const frame: Frame = { size: 0, longest: 0 };
  measure(value, frame);
  return !isTooMuch(frame);
}

interface Frame {
  size: number;
  /** Length of the longest string so far. */
  longest: number;
}

/** Once true, it stays so whatever is added: what is around the longest string never gets less. */
function isTooMuch(frame: Frame): boolean {
  return frame.size - frame.longest > FRAME_MAX || frame.longest > FRAMED_TEXT_MAX;
}

function measure(value: Json, frame: Frame): void {
  if (typeof value === "string") {
    frame.size += value.length + 2;
    if (value.length > frame.longest) frame.longest = value.length;
    return;
  }
  frame.size += 1;
  if (typeof value !== "object" || value === null) return;
  if (isJsonArray(value)) {
    for (const child of value) {
      frame.size += 1;
      measure(child, frame);
      if (isTooMuch(frame)) return;
    }
    return;
  }
  for (const key of sortedKeys(value)) {
    frame.size += key.length + 4;
    measure(value[key] ?? null, frame);
    if (isTooMuch(frame)) return;
  }
}
