import type { Context as StoredContext } from "../core/context/context.ts";
import type { JsonObject } from "../core/json.ts";
import { canonicalJson, capture } from "../core/values/index.ts";
import { checkFields, parseDocument } from "./checkpoint-document.ts";
import type { CheckpointDocument } from "./checkpoint-document.ts";

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
