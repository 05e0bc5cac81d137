import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { HoldfastError } from "../../../core/error.ts";
import type { Json, JsonObject } from "../../../core/json.ts";
import { auditJson } from "../../../core/values/audit-json.ts";
import type { AuditFinding } from "../../../core/values/audit-json.ts";

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

/** JSON.parse alone keeps the last of two equal keys and rounds long integers: state that cannot be kept exactly is refused. */
function parse(content: string, source: string): Json {
  const parsed = parseSyntax(content, source);
  const finding = audit(content);
  if (finding === null) return parsed;
  throw new HoldfastError({
    code: "USAGE",
    message: `The JSON of ${source} cannot be kept as it is, at ${finding.path} (line ${finding.line}): ${finding.why}`,
    hint: "Write a long integer as a string, and every key once.",
    data: { path: finding.path, line: finding.line },
  });
}

function audit(content: string): AuditFinding | null {
  try {
    return auditJson(content);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { path: "/", line: 1, why: "it is nested too deeply" };
  }
}

function parseSyntax(content: string, source: string): Json {
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
