import { type Json, isJsonArray } from "../json.ts";
import { isAscending } from "./build-object.ts";
import { isCaptured, isIrregular } from "./captured.ts";
import { MAX_DEPTH } from "./limits.ts";
import { Unfit, isPlainArray, isPlainObject, refusal } from "./refusal.ts";

/** RFC 8785. NOT_JSON, with the path in `data.path`, for anything JSON cannot carry. */
export function canonicalJson(value: Json): string {
  try {
    return writeChecked(value, 0);
  } catch (error) {
    if (error instanceof Unfit || error instanceof RangeError) throw refusal(value, error);
    throw error;
  }
}

/** For captured values, which are known to be JSON and have their keys in order. */
export function capturedJson(value: Json): string {
  return typeof value === "object" && value !== null && isIrregular(value)
    ? writeCaptured(value)
    : JSON.stringify(value);
}

/** Checks and writes in one pass; live objects seldom have their keys in order, so the native writer is no help. */
function writeChecked(value: unknown, depth: number): string {
  switch (typeof value) {
    case "string":
      if (!value.isWellFormed()) throw new Unfit();
      return JSON.stringify(value);
    case "number":
      if (!Number.isFinite(value)) throw new Unfit();
      // Gives "0" for -0, as RFC 8785 wants.
      return String(value);
    case "boolean":
      return value ? "true" : "false";
    case "object":
      if (value === null) return "null";
      // Only capture and decode register values.
      if (isCaptured(value)) return capturedJson(value as Json);
      if (depth >= MAX_DEPTH || Object.getOwnPropertySymbols(value).length > 0) throw new Unfit();
      return Array.isArray(value) ? writeArray(value, depth) : writeObject(value, depth);
    default:
      throw new Unfit();
  }
}

function writeArray(value: readonly unknown[], depth: number): string {
  if (!isPlainArray(value) || Object.keys(value).length !== value.length) throw new Unfit();
  let text = "";
  for (const child of value)
    text += text === "" ? writeChecked(child, depth + 1) : `,${writeChecked(child, depth + 1)}`;
  return `[${text}]`;
}

function writeObject(value: object, depth: number): string {
  if (!isPlainObject(value)) throw new Unfit();
  const keys = Object.keys(value);
  if (!isAscending(keys)) keys.sort();
  let text = "";
  for (const key of keys) {
    const descriptor = Object.getOwnPropertyDescriptor(value, key);
    if (descriptor === undefined || !("value" in descriptor)) throw new Unfit();
    text += `${text === "" ? "" : ","}${keyText(key)}${writeChecked(descriptor.value, depth + 1)}`;
  }
  return `{${text}}`;
}

/** The same few keys come again and again. */
const knownKeys = new Map<string, string>();
const MAX_KNOWN_KEYS = 1000;
const MAX_KNOWN_KEY_LENGTH = 40;

/** With its colon. */
function keyText(key: string): string {
  const known = knownKeys.get(key);
  if (known !== undefined) return known;
  if (!key.isWellFormed()) throw new Unfit();
  const text = `${JSON.stringify(key)}:`;
  if (key.length <= MAX_KNOWN_KEY_LENGTH && knownKeys.size < MAX_KNOWN_KEYS) knownKeys.set(key, text);
  return text;
}

function writeCaptured(value: Json): string {
  if (typeof value !== "object" || value === null || !isIrregular(value)) return JSON.stringify(value);
  let text = "";
  if (isJsonArray(value)) {
    for (const child of value) text += text === "" ? writeCaptured(child) : `,${writeCaptured(child)}`;
    return `[${text}]`;
  }
  for (const key of Object.keys(value).sort()) {
    text += `${text === "" ? "" : ","}${keyText(key)}${writeCaptured(value[key] ?? null)}`;
  }
  return `{${text}}`;
}
