import type * as fc from "fast-check";
import type { ErrorCode } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import type { ForeignFile, Format } from "../../formats/format.ts";

/** What a codec brings along to be put through the shared suite. */
export interface FormatHarness {
  readonly format: Format;
  /** Files as the foreign tool may write them, all valid, with fields nobody knows here and there. */
  readonly files: fc.Arbitrary<ForeignFile>;
  /** The document of a valid file as plain values, by other means than the codec's, and back. */
  readonly parse: (bytes: Uint8Array) => Json;
  readonly write: (document: Json) => Uint8Array;
  /** A value that does not belong there, one field at a time; `path` is a JSON pointer into the golden's document. */
  readonly misfits: readonly Misfitting[];
  /** Corruptions beyond those that every format gets: future versions, duplicate keys in its own syntax, bombs. */
  readonly corruptions: readonly Corruption[];
  /** Whether a cut document is always told from a whole one (JSON: yes). */
  readonly endsAreMarked: boolean;
  /** Pointers that writing may change on purpose (a version that is brought up), as a whole subtree. */
  readonly normalised: readonly string[];
}

export interface Misfitting {
  readonly golden: string;
  readonly path: string;
  readonly value: Json;
  /** Where the refusal points to, when it is not the field itself. */
  readonly blames?: string;
}

export interface Corruption {
  readonly name: string;
  readonly file: ForeignFile;
  readonly code: ErrorCode;
}

export const FULL = process.env["HOLDFAST_FULL"] === "1";

/** Ten thousand cases take minutes. */
export const PATIENCE = { timeout: FULL ? 1_200_000 : 600_000 };

/** 10,000 cases a format in a full run. HOLDFAST_SEED repeats a run. */
export function propertyRuns(few: number): fc.Parameters<unknown> {
  const seed = process.env["HOLDFAST_SEED"];
  return { numRuns: FULL ? 10_000 : few, ...(seed === undefined || seed === "" ? {} : { seed: Number(seed) }) };
}
