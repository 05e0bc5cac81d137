/**
 * The Checkpoint class of `holdfast/context`: an immutable snapshot of a task's values and token counters, and its JSON
 * document.
 */
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
import { canonicalJson, capture, findProtoKey } from "@holdfast/core/values";
import { contextDocument, contextFields } from "@holdfast/formats/context-store";
import { type ErrorCode, HoldfastError } from "@holdfast/platform/error";
import { protoKeyError } from "./context-tree.ts";

/** Counters by name, such as `{ input_tokens: 100 }`: whole numbers from 0. */
export type TokenUsage = StoredContext["tokens"];

/** The fields of a {@link Checkpoint}. */
export interface CheckpointParams {
  /** The task that the checkpoint belongs to; not empty. */
  readonly taskId: string;
  /** Its position in the task's history: 1, 2, 3 … */
  readonly version: number;
  readonly values: JsonObject;
  readonly tokenUsage: TokenUsage;
  /** Your own notes about the checkpoint. Default: empty. */
  readonly metadata?: JsonObject;
  /** ISO 8601; default: now. Informational: the order comes from the version. */
  readonly createdAt?: string;
}

/**
 * An immutable snapshot of a context at one moment. It is deeply frozen and shares nothing with the objects that it was
 * made from.
 *
 * You rarely create one yourself: `context.snapshot()`, `store.save()` and `store.get()` return them.
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
  /** Its position in the task's history: 1, 2, 3 … */
  readonly version: number;
  /** All values that were visible in the context, including those inherited from a parent. */
  readonly values: JsonObject;
  /** The token counters at that moment. */
  readonly tokenUsage: TokenUsage;
  /** The caller's notes about the checkpoint. */
  readonly metadata: JsonObject;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Unknown fields of a document, which `toJSON` writes back unchanged. */
  #unknown: JsonObject = {};

  /**
   * @throws {HoldfastError} `USAGE` if a field is missing or has the wrong type (`data.path` names it), `NOT_JSON` if
   * values or metadata hold what JSON cannot represent.
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
   * Reads the document that {@link Checkpoint.toJSON} writes, as a parsed object. `values`, `token_usage` and `metadata`
   * may be absent (empty), and so may `created_at` (now). `toJSON` writes other fields back unchanged.
   *
   * @throws {HoldfastError} `FORMAT_INVALID`; `data.path` is the JSON pointer of the invalid field.
   */
  static fromJSON(document: unknown): Checkpoint {
    const { params, unknown } = parseDocument(document);
    const checkpoint = new Checkpoint(params);
    checkpoint.#unknown = unknown;
    return checkpoint;
  }

  /**
   * The document with `task_id`, `version`, `values`, `token_usage`, `metadata` and `created_at`; `JSON.stringify`
   * calls this.
   */
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

  /** Whether all fields are equal. The order of keys does not matter. */
  equals(other: Checkpoint): boolean {
    return this === other || canonicalJson({ ...this.toJSON() }) === canonicalJson({ ...other.toJSON() });
  }

  /** `Checkpoint(taskId="task-1", version=1, keys=2)`: its task, version and number of values. */
  toString(): string {
    const keys = Object.keys(this.values).length;
    return `Checkpoint(taskId=${JSON.stringify(this.taskId)}, version=${this.version}, keys=${keys})`;
  }
}

function frozen(values: JsonObject): JsonObject {
  // The capture of a plain object is a plain object.
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

/** Throws FORMAT_INVALID or NOT_JSON, with the path. Accepts what `holdfast format validate` accepts. */
function parseDocument(document: unknown): { readonly params: CheckpointParams; readonly unknown: JsonObject } {
  // The capture of a plain object is a plain object.
  const copy = capture(fit(jsonObject, document, "FORMAT_INVALID")) as JsonObject;
  const fields = fit(contextDocument, copy, "FORMAT_INVALID");
  const proto = findProtoKey(copy);
  if (proto !== null) throw protoKeyError("FORMAT_INVALID", proto);
  const { task_id: taskId, version, values = {}, token_usage: tokenUsage = {}, metadata, created_at: at } = fields;
  return {
    params: { taskId, version, values, tokenUsage, metadata: metadata ?? {}, ...(at == null ? {} : { createdAt: at }) },
    unknown: Object.fromEntries(Object.entries(copy).filter(([name]) => !FIELDS.has(name))),
  };
}

/** Throws USAGE, with the path. */
function checkFields(params: Required<CheckpointParams>): Required<CheckpointParams> {
  const { values, tokenUsage, metadata } = fit(paramsShape, params, "USAGE");
  const proto = findProtoKey(capture({ values, tokenUsage, metadata }));
  if (proto !== null) throw protoKeyError("USAGE", proto);
  return params;
}

const FIELDS: ReadonlySet<string> = new Set<keyof CheckpointDocument>([
  "task_id",
  "version",
  "values",
  "token_usage",
  "metadata",
  "created_at",
]);

const paramsShape = object<Required<CheckpointParams>>({
  taskId: contextFields.taskId,
  version: contextFields.version,
  values: jsonObject,
  tokenUsage: dictionary(count),
  metadata: jsonObject,
  createdAt: contextFields.time,
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
