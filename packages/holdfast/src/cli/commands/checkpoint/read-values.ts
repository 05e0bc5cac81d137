import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { HoldfastError } from "../../../core/error.ts";
import type { Json, JsonObject } from "../../../core/json.ts";

/** State from a file, or from stdin for "-": one JSON object. */
export async function readValues(file: string): Promise<JsonObject> {
  const source = file === "-" ? "stdin" : file;
  const values = parse(await read(file, source), source);
  if (isObject(values)) return values;
  throw new HoldfastError({
    code: "USAGE",
    message: `The JSON of ${source} is not an object`,
    hint: 'Give an object such as {"step": 3}.',
  });
}

async function read(file: string, source: string): Promise<string> {
  try {
    return await (file === "-" ? text(process.stdin) : readFile(file, "utf8"));
  } catch (cause) {
    throw new HoldfastError({
      code: "USAGE",
      message: `Cannot read ${source}`,
      hint: "Use --values FILE, or --values - for stdin.",
      cause,
    });
  }
}

function parse(content: string, source: string): Json {
  try {
    const parsed: Json = JSON.parse(content);
    return parsed;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new HoldfastError({
      code: "NOT_JSON",
      message: `What ${source} holds is not JSON: ${why}`,
      hint: 'Give an object such as {"step": 3}.',
      cause,
    });
  }
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
