import { type Row, bytes, integer, realOrNull, text, textOrNull, toHex } from "./columns.ts";
import type { CheckpointColumns, LogRow } from "./log.ts";
import { isEntryKind, isTrigger } from "./vocabulary.ts";
import { HoldfastError } from "@holdfast/platform/error";
import type { Digest } from "@holdfast/core/json";

/** What `logRow` reads. */
export const COLUMNS =
  "pos, run, entry, kind, at, epoch, seal, sequence, trigger, name, stage, iteration, score, tree, origin, logical, added";

export function logRow(row: Row): LogRow {
  const kind = text(row, "kind");
  if (!isEntryKind(kind)) throw unknownWord("kind", kind);
  return {
    pos: integer(row, "pos"),
    run: integer(row, "run"),
    entry: integer(row, "entry"),
    kind,
    at: integer(row, "at"),
    epoch: integer(row, "epoch"),
    hash: sealed(row, HASH),
    checkpoint: kind === "checkpoint" ? checkpointColumns(row) : null,
  };
}

function checkpointColumns(row: Row): CheckpointColumns {
  const trigger = text(row, "trigger");
  if (!isTrigger(trigger)) throw unknownWord("trigger", trigger);
  return {
    sequence: integer(row, "sequence"),
    trigger,
    name: textOrNull(row, "name"),
    stage: text(row, "stage"),
    iteration: realOrNull(row, "iteration") ?? 0,
    score: realOrNull(row, "score"),
    tree: textOrNull(row, "tree"),
    origin: textOrNull(row, "origin"),
    parent: bytes(row, "seal").length > PARENT * DIGEST_BYTES ? sealed(row, PARENT) : null,
    root: sealed(row, ROOT),
    logical: integer(row, "logical"),
    added: integer(row, "added"),
  };
}

const DIGEST_BYTES = 32;
/** Places of the digests in a seal. */
const HASH = 0;
const ROOT = 1;
const PARENT = 2;

export function sealOf(hash: Digest, root: Digest, parent: Digest | null): Buffer {
  const seal = Buffer.allocUnsafe((parent === null ? 2 : 3) * DIGEST_BYTES);
  seal.write(hash, 0, "hex");
  seal.write(root, DIGEST_BYTES, "hex");
  if (parent !== null) seal.write(parent, 2 * DIGEST_BYTES, "hex");
  return seal;
}

function sealed(row: Row, place: number): Digest {
  const digest = bytes(row, "seal").subarray(place * DIGEST_BYTES, (place + 1) * DIGEST_BYTES);
  if (digest.length === DIGEST_BYTES) return toHex(digest);
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: "The seal of a journal entry is cut short",
    hint: "Run `holdfast verify` to see what is still whole.",
  });
}

function unknownWord(column: string, word: string): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `${JSON.stringify(word)} is not a ${column} of a journal entry`,
    hint: "Run `holdfast verify` to see what is still whole.",
    data: { column, word },
  });
}
