/**
 * The run file, version 1: a whole run in one file.
 *
 *   holdfast-run 1 <sha256 of everything after this line>
 *   {"source": {...}, "git": {...} or null, "records": bytes, "objects": bytes}
 *   <records: zstd of JSON lines> <objects: a git pack>
 *
 * The records are the birth record, chunks, entries and lines of logs. The digest proves that the file is whole, not who
 * wrote it.
 */
import { hash } from "node:crypto";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import {
  type Shape,
  count,
  jsonObject,
  list,
  nullable,
  object,
  oneOf,
  optional,
  parseShape,
  text,
} from "@holdfast/core/json";
import type { JsonObject } from "@holdfast/core/json";
import type { StoredEntry, StoredRun } from "@holdfast/core/store";
import type { PackedObjects } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";

export const MAX_RUN_FILE_BYTES = 1024 ** 3;

export interface RunFile {
  readonly source: RunFileSource;
  readonly stored: StoredRun;
  readonly logs: readonly RunFileLog[];
  /** null: the run has no files. */
  readonly objects: PackedObjects | null;
}

export interface RunFileSource {
  /** Id of the store that the run comes from. */
  readonly store: string;
  readonly createdAt: string;
}

/** What one agent call printed, with secrets masked. */
export interface RunFileLog {
  readonly stageAttempt: number;
  readonly step: string;
  readonly lines: readonly string[];
}

const MAGIC = "holdfast-run";
const FIRST_LINE = /^holdfast-run ([1-9]\d{0,8}) ([0-9a-f]{64})\n/;

/** Whether the bytes begin as a run file does, of whichever version. */
export function isRunFile(start: Uint8Array): boolean {
  return Buffer.from(start.subarray(0, MAGIC.length + 1)).toString("latin1") === `${MAGIC} `;
}

export function encodeRunFile(file: RunFile): Buffer {
  const { stored, objects } = file;
  const lines = [
    { birth: stored.birth, head: stored.head },
    ...stored.chunks.map((chunk) => ({ chunk })),
    ...stored.entries.map((entry) => ({ entry })),
    ...file.logs.map((log) => ({ log })),
  ];
  const records = zstdCompressSync(Buffer.concat(lines.map((line) => Buffer.from(`${JSON.stringify(line)}\n`))));
  const pack = objects?.pack ?? Buffer.alloc(0);
  const git =
    objects === null ? null : { format: objects.format, refs: objects.refs, prerequisites: objects.prerequisites };
  const header = { source: file.source, git, records: records.length, objects: pack.length };
  const rest = Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), records, pack]);
  return Buffer.concat([Buffer.from(`${MAGIC} 1 ${hash("sha256", rest, "hex")}\n`), rest]);
}

/** FORMAT_DAMAGED, or FORMAT_TOO_NEW. What the records claim is not checked here: `Store.importRun` does that. */
export function decodeRunFile(bytes: Buffer): RunFile {
  const [first, version, digest] = FIRST_LINE.exec(bytes.toString("latin1", 0, 100)) ?? [];
  if (first === undefined) throw damagedRunFile("its first line is not one of a run file");
  if (version !== "1") {
    throw new HoldfastError({
      code: "FORMAT_TOO_NEW",
      message: `The run file has version ${version}; this Holdfast reads version 1`,
      hint: "Import it with the Holdfast version that wrote it, or a newer one.",
    });
  }
  const rest = bytes.subarray(first.length);
  if (hash("sha256", rest, "hex") !== digest) throw damagedRunFile("its content does not give its digest");
  const end = rest.indexOf(0x0a);
  const header = parsed(headerShape, rest.toString("utf8", 0, Math.max(end, 0)), "Its header");
  const packAt = end + 1 + header.records;
  if (packAt + header.objects !== rest.length) throw damagedRunFile("its parts do not add up to its size");
  const records = parseRecords(unpack(rest.subarray(end + 1, packAt)));
  const { git } = header;
  return { source: header.source, ...records, objects: git === null ? null : { ...git, pack: rest.subarray(packAt) } };
}

function unpack(records: Buffer): Buffer {
  try {
    return zstdDecompressSync(records, { maxOutputLength: MAX_RUN_FILE_BYTES });
  } catch (error) {
    throw damagedRunFile("its records cannot be unpacked, or are larger than a run may be", error);
  }
}

function parseRecords(bytes: Buffer): Pick<RunFile, "stored" | "logs"> {
  let birth: Birth | null = null;
  const entries: StoredEntry[] = [];
  const chunks: string[] = [];
  const logs: RunFileLog[] = [];
  for (let at = 0, line = 1; at < bytes.length; line++) {
    const end = bytes.indexOf(0x0a, at);
    if (end === -1) throw damagedRunFile("its last record is cut");
    const record = parsed(recordShape, bytes.toString("utf8", at, end), `Record ${line}`);
    if (record.birth !== undefined && record.head !== undefined) birth = { birth: record.birth, head: record.head };
    if (record.chunk !== undefined) chunks.push(record.chunk);
    if (record.entry !== undefined) entries.push(record.entry);
    if (record.log !== undefined) logs.push(record.log);
    at = end + 1;
  }
  if (birth === null) throw damagedRunFile("it has no birth record");
  return { stored: { ...birth, entries, chunks }, logs };
}

type Birth = Pick<StoredRun, "birth" | "head">;

interface Header {
  readonly source: RunFileSource;
  readonly git: Omit<PackedObjects, "pack"> | null;
  readonly records: number;
  readonly objects: number;
}

const headerShape: Shape<Header> = object<Header>({
  source: object<RunFileSource>({ store: text, createdAt: text }),
  git: nullable(
    object<Omit<PackedObjects, "pack">>({
      format: oneOf({ sha1: true, sha256: true }),
      refs: list(object<PackedObjects["refs"][number]>({ ref: text, id: text })),
      prerequisites: list(text),
    }),
  ),
  records: count,
  objects: count,
});

interface RunRecord {
  readonly birth?: JsonObject;
  readonly head?: string;
  readonly chunk?: string;
  readonly entry?: StoredEntry;
  readonly log?: RunFileLog;
}

const recordShape: Shape<RunRecord> = object<RunRecord>({
  birth: optional(jsonObject),
  head: optional(text),
  chunk: optional(text),
  entry: optional(object<StoredEntry>({ kind: text, at: text, epoch: count, body: text, planes: nullable(text) })),
  log: optional(object<RunFileLog>({ stageAttempt: count, step: text, lines: list(text) })),
});

function parsed<T>(shape: Shape<T>, json: string, what: string): T {
  try {
    return parseShape({ shape, value: JSON.parse(json), what });
  } catch (error) {
    throw damagedRunFile(error instanceof Error ? error.message : String(error), error);
  }
}

/** A run file that cannot be what an export wrote. */
export function damagedRunFile(why: string, cause?: unknown): HoldfastError {
  return new HoldfastError({
    code: "FORMAT_DAMAGED",
    message: `The run file is damaged: ${why}`,
    hint: "Nothing was imported. Export the run again, or copy the file again.",
    ...(cause === undefined ? {} : { cause }),
  });
}
