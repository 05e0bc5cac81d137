// The contract of a codec for another tool's checkpoint files, and how a checkpoint keeps the document it came from.

import type { CoreAdapters } from "@holdfast/core/adapters";
import { type Checkpoint, type Planes, TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Run, Work } from "@holdfast/core/run";
import { FORMAT_NAMES } from "./format-names.ts";

/**
 * Converts another tool's files to checkpoints and back. Pure: it does no input or output. Decoding rejects with a
 * coded error and never guesses. Unknown content is kept and written back.
 */
export interface Format {
  readonly name: FormatName;
  readonly title: string;
  readonly capabilities: {
    /** Whether one document or directory can hold several checkpoints. */
    readonly many: boolean;
    /** Whether the format is a directory of files with an index. */
    readonly directory: boolean;
    /** Whether a run can resume from it alone, because it records the position. */
    readonly resumable: boolean;
  };
  /** Estimates from the name and the bytes whether the file has this format. Never throws. */
  detect(file: ExternalFile): Detection;
  /** Throws FORMAT_INVALID, FORMAT_TOO_NEW or FORMAT_DAMAGED (data: path within the document, line where known). */
  decode(file: ExternalFile): Decoded;
  /** Returns the bytes of one document, and everything it cannot hold. */
  encode(checkpoint: ExternalCheckpoint): Encoded;
  /** Joins the documents of several checkpoints of one run into one. Absent: each checkpoint needs its own file. */
  join?(documents: readonly Encoded[]): Encoded;
}

export type FormatName = "impl-json" | "crunch-yaml" | "context-store" | "loop-json";

export interface ExternalFile {
  /** As the user gave it; some formats depend on the name. */
  readonly path: string;
  /** Already decompressed; `compression` is how the file was stored. */
  readonly bytes: Uint8Array;
  readonly compression: "none" | "gzip";
}

export type Detection = { readonly match: "yes" | "maybe" | "no"; readonly why: string };

export interface Decoded {
  /** Oldest first. */
  readonly checkpoints: readonly ExternalCheckpoint[];
  /** What was unusual but accepted, with its path: a legacy id, a local time without a zone. */
  readonly remarks: readonly Remark[];
}

/** A checkpoint in Holdfast's terms, with its complete original document. */
export interface ExternalCheckpoint {
  /** The other tool's id; null if it has none. */
  readonly id: string | null;
  /** ISO 8601 UTC; null if the document has no time. */
  readonly createdAt: string | null;
  readonly trigger: Trigger;
  readonly workflow: string;
  readonly work: Work;
  readonly planes: Planes;
  /** The complete document as it was read: unknown fields survive, and encoding to the same format is stable. */
  readonly original: { readonly format: FormatName; readonly document: JsonObject } | null;
  /** Other documents about the run in the same directory, by file name, which are not checkpoints. */
  readonly beside?: JsonObject;
  /**
   * What the run's workflow says in the format's own members, and in its issue snapshot. Absent: the codec derives them
   * from the planes alone.
   */
  readonly described?: { readonly stage: string; readonly issue: JsonObject; readonly members: JsonObject };
}

export interface Remark {
  readonly path: string;
  readonly text: string;
}

export interface Encoded {
  readonly bytes: Uint8Array;
  /** Suggested path relative to the other tool's root (`.tmp/impl-checkpoint.json`). */
  readonly path: string;
  /**
   * Alternative path if another checkpoint has the first one and both must be kept. Absent: paths never collide, or
   * only one checkpoint can exist.
   */
  readonly elsewhere?: string;
  readonly losses: readonly Loss[];
}

/** What the target format cannot hold. A conversion never loses anything silently. */
export interface Loss {
  /** Path in Holdfast's terms: `position.budget`, `files`. */
  readonly path: string;
  readonly why: string;
}

/** Extension in which a checkpoint keeps its complete source document. */
const SOURCE_DOCUMENT = "imported";

/** Label of a run whose history began elsewhere: the number of versions before its first checkpoint. */
export const VERSIONS_BEFORE = "versions_before";
/** Label of an imported run that identifies its source. */
export const IMPORT_LABEL = "import";
/** Journal entry with the last checkpoint of an import: from then on the import is complete. */
export const IMPORT_ENTRY = "x.imported";

interface SourceDocument {
  readonly format: FormatName;
  readonly id: string | null;
  readonly createdAt: string | null;
  readonly trigger: Trigger;
  readonly document: JsonObject | null;
  /** The sequence of the checkpoint that was imported from it. Later checkpoints contain the document too. */
  readonly sequence: number;
}

export function attachSourceDocument(external: ExternalCheckpoint, format: FormatName, sequence: number): Planes {
  const { id, createdAt, trigger, original, planes } = external;
  // Stored as text: the store keeps JSON in canonical form, which would lose the order of fields.
  const document = original === null ? null : JSON.stringify(original.document);
  const kept: JsonObject = { format, id, createdAt, trigger, document, sequence };
  return {
    ...planes,
    // A tree of another repository pins nothing here; the document keeps what it says about the tree.
    files: null,
    effects: { entry: 0, pending: [] },
    extensions: { ...planes.extensions, [SOURCE_DOCUMENT]: kept },
  };
}

export function sourceDocumentOf(planes: Pick<Planes, "extensions">): SourceDocument | null {
  const kept: Json | undefined = planes.extensions[SOURCE_DOCUMENT];
  if (!isJsonObject(kept)) return null;
  const { id, createdAt, document, sequence } = kept;
  const format = FORMAT_NAMES.find((name) => name === kept["format"]);
  const trigger = TRIGGERS.find((name) => name === kept["trigger"]);
  if (format === undefined || trigger === undefined) return null;
  return {
    format,
    id: typeof id === "string" ? id : null,
    createdAt: typeof createdAt === "string" ? createdAt : null,
    trigger,
    document: documentOf(document),
    sequence: typeof sequence === "number" ? sequence : 0,
  };
}

function documentOf(text: Json | undefined): JsonObject | null {
  if (typeof text !== "string") return null;
  const document: Json = JSON.parse(text);
  return isJsonObject(document) ? document : null;
}

/** Whether the import is complete, because the importing process may have died. */
export async function isWhole(adapters: CoreAdapters, run: string): Promise<boolean> {
  for await (const { kind } of adapters.store.readJournal({ run })) if (kind === IMPORT_ENTRY) return true;
  return false;
}

/** Worktree paths that the document names; each format puts them into its own extension. */
export function worktreesNamedIn(extensions: JsonObject): readonly string[] {
  return Object.values(extensions).flatMap((extension) => {
    const path = isJsonObject(extension) ? extension["worktree"] : undefined;
    return typeof path === "string" && path.startsWith("/") ? [path] : [];
  });
}

/** The branch that a crunch document names; null: none. */
export function branchNamedIn({ crunch }: JsonObject): string | null {
  const branch = isJsonObject(crunch) ? crunch["branch"] : undefined;
  return typeof branch === "string" && branch !== "" ? branch : null;
}

/** Returns a branch name in which git, a shell and a path see nothing but a name; null: the text is not one. */
export function parseBranchName(text: string): string | null {
  const isPlain = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$/.test(text) && !/\.\.|\/\/|\/\.|\.lock(?:\/|$)|[./]$/.test(text);
  return isPlain && !/^(?:refs|HEAD$)/.test(text) ? text : null;
}

/**
 * Converts a checkpoint for a codec, with the document it was imported from, however far the run has advanced since.
 */
export function toExternalCheckpoint(
  run: Pick<Run, "workflow" | "work" | "labels">,
  checkpoint: Pick<Checkpoint, "trigger" | "sequence" | "createdAt" | "planes">,
  to: FormatName,
): { readonly external: ExternalCheckpoint; readonly losses: readonly Loss[] } {
  const imported = sourceDocumentOf(checkpoint.planes);
  // Later checkpoints also contain the document, but it describes only the imported one.
  const itself = checkpoint.trigger === "import" ? imported : null;
  const { [SOURCE_DOCUMENT]: _kept, ...extensions } = checkpoint.planes.extensions;
  const original =
    imported === null || imported.document === null ? null : { format: imported.format, document: imported.document };
  const external: ExternalCheckpoint = {
    // An id of another format would not have the form that this one asks for.
    id: itself?.format === to ? itself.id : newId(run, checkpoint, imported, to),
    // A document without a time stays without one in its own format; another format may need one.
    createdAt: itself?.format === to ? itself.createdAt : (itself?.createdAt ?? checkpoint.createdAt),
    trigger: itself?.trigger ?? checkpoint.trigger,
    workflow: run.workflow,
    work: run.work,
    planes: { ...checkpoint.planes, extensions },
    original,
  };
  return { external, losses: original === null || original.format === to ? [] : [documentLost(original, to)] };
}

/** Versions continue from the imported one; all other formats derive an id from the content. */
function newId(
  { labels }: Pick<Run, "labels">,
  { sequence }: Pick<Checkpoint, "sequence">,
  imported: SourceDocument | null,
  to: FormatName,
): string | null {
  if (to !== "context-store") return null;
  const before = labels[VERSIONS_BEFORE];
  if (typeof before === "number") return String(before + sequence);
  const last = imported?.format === "context-store" ? Number(imported.id) : 0;
  return String(Number.isSafeInteger(last) ? last + sequence - (imported?.sequence ?? 0) : sequence);
}

function documentLost(original: { readonly format: FormatName; readonly document: JsonObject }, to: FormatName): Loss {
  const why = `The ${original.format} document it was imported from has no place in ${to}: fields of that format alone remain in the store`;
  return { path: `extensions.${SOURCE_DOCUMENT}`, why };
}
