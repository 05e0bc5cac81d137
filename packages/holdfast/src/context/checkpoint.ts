import type { Context as StoredContext } from "@holdfast/core/checkpoint";
import {
  type JsonObject,
  type Shape,
  count,
  dictionary,
  jsonObject,
  object,
  parseShape,
  text,
} from "@holdfast/core/json";
import { canonicalJson } from "@holdfast/core/values/canonical-json";
import { capture } from "@holdfast/core/values/capture";
import { type ErrorCode, HoldfastError } from "@holdfast/platform/error";

/** Counters by name, such as `{ input_tokens: 100 }`: whole numbers from 0. */
export type TokenUsage = StoredContext["tokens"];

/** What a {@link Checkpoint} is made of. */
export interface CheckpointParams {
  /** The task that the checkpoint belongs to; not empty. */
  readonly taskId: string;
  /** Its place in the task's history: 1, 2, 3 … */
  readonly version: number;
  readonly values: JsonObject;
  readonly tokenUsage: TokenUsage;
  /** Whatever you want to remember about it. Default: nothing. */
  readonly metadata?: JsonObject;
  /** ISO 8601; default: now. A label: order comes from the version. */
  readonly createdAt?: string;
}

/**
 * An immutable snapshot of a context at one moment. It is frozen through and through, and shares nothing with the objects
 * that it was made from.
 *
 * You rarely make one yourself: `context.snapshot()`, `store.save()` and `store.get()` return them.
 *
 * @example
 * ```ts
 * const text = JSON.stringify(checkpoint); // {"task_id":"task-1","version":1,"values":{…},"token_usage":{…},…}
 * const again = Checkpoint.fromJSON(JSON.parse(text));
 * again.equals(checkpoint); // true
 * ```
 */
export class Checkpoint {
  /** The task that it belongs to. */
  readonly taskId: string;
  /** Its place in the task's history: 1, 2, 3 … */
  readonly version: number;
  /** All values that the context showed, those inherited from a parent included. */
  readonly values: JsonObject;
  /** Token counters as they stood. */
  readonly tokenUsage: TokenUsage;
  /** What the caller noted about it. */
  readonly metadata: JsonObject;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Fields of a document that we do not know: written back as they were. */
  #unknown: JsonObject = {};

  /**
   * @throws {HoldfastError} `USAGE` when a field is missing or of the wrong kind (`data.path` says which), `NOT_JSON` when
   * values or metadata hold what JSON cannot carry.
   */
  constructor(params: CheckpointParams) {
    const { metadata = {}, createdAt = new Date().toISOString() } = params;
    const fields = checkFields({ ...params, metadata, createdAt });
    this.taskId = fields.taskId;
    this.version = fields.version;
    this.values = frozen(fields.values);
    this.tokenUsage = Object.freeze({ ...fields.tokenUsage });
    this.metadata = frozen(fields.metadata);
    this.createdAt = fields.createdAt;
    Object.freeze(this);
  }

  /**
   * Reads the document that {@link Checkpoint.toJSON} writes: an object, already parsed. `token_usage` and `metadata` may be
   * absent (empty), `created_at` too (now). Fields beyond these are kept, and written back by `toJSON`.
   *
   * @throws {HoldfastError} `FORMAT_INVALID`; `data.path` is the JSON pointer of what is wrong.
   */
  static fromJSON(document: unknown): Checkpoint {
    const { params, unknown } = parseDocument(document);
    const checkpoint = new Checkpoint(params);
    checkpoint.#unknown = unknown;
    return checkpoint;
  }

  /** The document with `task_id`, `version`, `values`, `token_usage`, `metadata` and `created_at`; `JSON.stringify` calls it. */
  toJSON(): CheckpointDocument {
    return {
      task_id: this.taskId,
      version: this.version,
      values: this.values,
      token_usage: this.tokenUsage,
      metadata: this.metadata,
      created_at: this.createdAt,
      ...this.#unknown,
    };
  }

  /** Are all fields the same? The order of keys does not matter. */
  equals(other: Checkpoint): boolean {
    return this === other || canonicalJson({ ...this.toJSON() }) === canonicalJson({ ...other.toJSON() });
  }
}

function frozen(values: JsonObject): JsonObject {
  // A plain object is captured as a plain object.
  return capture(values) as JsonObject;
}

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
function parseDocument(document: unknown): {
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
function checkFields(params: CheckpointParams): Required<CheckpointParams> {
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
