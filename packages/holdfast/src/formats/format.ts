import type { Planes } from "../core/checkpoint/checkpoint.ts";
import type { JsonObject } from "../core/json.ts";
import type { Work } from "../core/run/run.ts";
import type { Trigger } from "../core/checkpoint/trigger.ts";

/**
 * How a foreign tool's files become checkpoints and back. Pure: bytes in, values out; nothing is read, written or asked.
 * Decoding refuses with a coded error and never guesses; what it does not know it keeps, and encoding writes it back.
 */
export interface Format {
  readonly name: FormatName;
  readonly title: string;
  readonly capabilities: {
    /** Several checkpoints in one document or directory. */
    readonly many: boolean;
    /** A directory of files with an index. */
    readonly directory: boolean;
    /** A run can go on from it by itself: it says where it stood. */
    readonly resumable: boolean;
  };
  /** How sure it is, from the name and the bytes alone; "no" for anything else. Never throws. */
  detect(file: ForeignFile): Detection;
  /** FORMAT_INVALID, FORMAT_TOO_NEW or FORMAT_DAMAGED (data: path within the document, line where known). */
  decode(file: ForeignFile): Decoded;
  /** The bytes of one document, and all that it could not carry. */
  encode(checkpoint: ForeignCheckpoint): Encoded;
}

export type FormatName = "impl-json" | "crunch-yaml" | "context-store" | "loop-json";

export interface ForeignFile {
  /** As given by the user; names matter to some formats. */
  readonly path: string;
  /** Decompressed already; `compression` is how the file was stored. */
  readonly bytes: Uint8Array;
  readonly compression: "none" | "gzip";
}

export type Detection = { readonly match: "yes" | "maybe" | "no"; readonly why: string };

export interface Decoded {
  /** In order: oldest first. */
  readonly checkpoints: readonly ForeignCheckpoint[];
  /** What looked odd and was accepted all the same, with where: a legacy id, a local time without zone. */
  readonly remarks: readonly Remark[];
}

/** One checkpoint in our words, with the whole original beside it. */
export interface ForeignCheckpoint {
  /** As the foreign tool names it; null when it has none. */
  readonly id: string | null;
  /** ISO 8601 UTC; null when the document says nothing. */
  readonly createdAt: string | null;
  readonly trigger: Trigger;
  readonly workflow: string;
  readonly work: Work;
  readonly planes: Planes;
  /** The document as it was read, whole: unknown fields survive, and encoding into the same format is stable. */
  readonly original: { readonly format: FormatName; readonly document: JsonObject } | null;
}

export interface Remark {
  readonly path: string;
  readonly text: string;
}

export interface Encoded {
  readonly bytes: Uint8Array;
  /** Suggested place relative to the foreign tool's root (`.tmp/impl-checkpoint.json`). */
  readonly path: string;
  /** Where it goes when another checkpoint has that place, and this one is to be kept too; absent: places are never shared, or one is all there is. */
  readonly elsewhere?: string;
  readonly losses: readonly Loss[];
}

/** What the target cannot carry, named: a conversion never loses silently. */
export interface Loss {
  /** Of ours: `position.budget`, `files`. */
  readonly path: string;
  readonly why: string;
}
