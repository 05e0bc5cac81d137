import { isJsonObject } from "../../core/json.ts";
import type { Json } from "../../core/json.ts";

/**
 * A score from 0 to 100, or null when the value is none: nothing is guessed. Numbers are rounded and clamped; texts may carry
 * their scale ("92", "85.5/100", "9/10", "90 %"); an object may hold it as `score`.
 */
export function coerceScore(value: Json | undefined): number | null {
  if (typeof value === "number") return Number.isFinite(value) ? clamp(value) : null;
  if (typeof value === "string") return scoreOfText(value);
  return isJsonObject(value) ? coerceScore(value["score"]) : null;
}

const SCALED = /^\s*(-?\d+(?:\.\d+)?)\s*(?:%|\/\s*(\d+(?:\.\d+)?))?\s*$/;

function scoreOfText(text: string): number | null {
  const match = SCALED.exec(text);
  if (match === null) return null;
  const scale = match[2] === undefined ? 100 : Number(match[2]);
  return scale > 0 ? clamp((Number(match[1]) / scale) * 100) : null;
}

function clamp(value: number): number {
  return Math.min(100, Math.max(0, Math.round(value)));
}
