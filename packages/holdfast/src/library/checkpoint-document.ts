import { HoldfastError } from "../core/error.ts";
import type { ErrorCode } from "../core/error.ts";
import type { JsonObject } from "../core/json.ts";
import { count, dictionary, jsonObject, object, parseShape, text } from "../core/shape.ts";
import type { Shape } from "../core/shape.ts";
import { capture } from "../core/values/index.ts";
import type { CheckpointParams } from "./checkpoint.ts";

/** A checkpoint as JSON: what `JSON.stringify(checkpoint)` writes and `Checkpoint.fromJSON` reads. */
export interface CheckpointDocument {
  readonly task_id: string;
  readonly version: number;
  readonly values: JsonObject;
  readonly token_usage: Readonly<Record<string, number>>;
  readonly metadata: JsonObject;
  /** ISO 8601. */
  readonly created_at: string;
}

/** FORMAT_INVALID or NOT_JSON, with the path. */
export function parseDocument(document: unknown): {
  readonly params: Required<CheckpointParams>;
  readonly unknown: JsonObject;
} {
  // A plain object is captured as a plain object.
  const copy = capture(fit(jsonObject, document, "FORMAT_INVALID")) as JsonObject;
  const filled = { token_usage: {}, metadata: {}, created_at: new Date().toISOString(), ...copy };
  const fields = fit(documentShape, filled, "FORMAT_INVALID");
  const { task_id: taskId, version, values, token_usage: tokenUsage, metadata, created_at: createdAt } = fields;
  return {
    params: { taskId, version, values, tokenUsage, metadata, createdAt },
    unknown: Object.fromEntries(Object.entries(copy).filter(([name]) => !Object.hasOwn(FIELDS, name))),
  };
}

/** USAGE, with the path. */
export function checkFields(params: CheckpointParams): Required<CheckpointParams> {
  return fit(paramsShape, params, "USAGE");
}

const taskId: Shape<string> = (value) =>
  typeof value === "string" && value !== "" && value.isWellFormed()
    ? null
    : { path: "", expected: "a text that is not empty", actual: value };

const version: Shape<number> = (value) =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 1
    ? null
    : { path: "", expected: "a whole number from 1", actual: value };

/** Kept as it was written, microseconds and all. The tool that this spelling comes from means UTC when it names no zone. */
const time: Shape<string> = (value) => {
  const wrong = { path: "", expected: "an ISO 8601 time", actual: value };
  if (typeof value !== "string" || !ISO_TIME.test(value)) return wrong;
  return Number.isNaN(Date.parse(value.replace(" ", "T"))) ? wrong : null;
};
const ISO_TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?$/;

const FIELDS: { readonly [Name in keyof CheckpointDocument]: Shape<CheckpointDocument[Name]> } = {
  task_id: taskId,
  version,
  values: jsonObject,
  token_usage: dictionary(count),
  metadata: jsonObject,
  created_at: time,
};
const documentShape = object<CheckpointDocument>(FIELDS);

const paramsShape = object<Required<CheckpointParams>>({
  taskId,
  version,
  values: jsonObject,
  tokenUsage: dictionary(count),
  metadata: jsonObject,
  createdAt: time,
});

function fit<T>(shape: Shape<T>, value: unknown, code: ErrorCode): T {
  try {
    return parseShape({ shape, value, what: "This checkpoint", code });
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    const hint =
      text(value) === null
        ? "Give the parsed document: Checkpoint.fromJSON(JSON.parse(text))."
        : "A checkpoint has task_id, version, values, token_usage, metadata and created_at.";
    throw new HoldfastError({ code, message: error.message, hint, data: error.data, cause: error });
  }
}
