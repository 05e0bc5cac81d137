import type { CoreAdapters } from "@holdfast/core/adapters";
import { type Checkpoint, type Planes, TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Run, Work } from "@holdfast/core/run";
import { FORMAT_NAMES } from "./format-names.ts";

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
  detect(file: ExternalFile): Detection;
  /** FORMAT_INVALID, FORMAT_TOO_NEW or FORMAT_DAMAGED (data: path within the document, line where known). */
  decode(file: ExternalFile): Decoded;
  /** The bytes of one document, and all that it could not carry. */
  encode(checkpoint: ExternalCheckpoint): Encoded;
}

export type FormatName = "impl-json" | "crunch-yaml" | "context-store" | "loop-json";

export interface ExternalFile {
  /** As given by the user; names matter to some formats. */
  readonly path: string;
  /** Decompressed already; `compression` is how the file was stored. */
  readonly bytes: Uint8Array;
  readonly compression: "none" | "gzip";
}

export type Detection = { readonly match: "yes" | "maybe" | "no"; readonly why: string };

export interface Decoded {
  /** In order: oldest first. */
  readonly checkpoints: readonly ExternalCheckpoint[];
  /** What looked odd and was accepted all the same, with where: a legacy id, a local time without zone. */
  readonly remarks: readonly Remark[];
}

/** One checkpoint in our words, with the whole original beside it. */
export interface ExternalCheckpoint {
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

/** Extension under which a checkpoint keeps the document it came from, whole. */
const SOURCE_DOCUMENT = "imported";

/** Label of a run that was imported: what it was made of. */
export const IMPORT_LABEL = "import";
/** Journal entry with the last checkpoint of an import: from then on it is whole. */
export const IMPORT_ENTRY = "x.imported";

interface SourceDocument {
  readonly format: FormatName;
  readonly id: string | null;
  readonly createdAt: string | null;
  readonly trigger: Trigger;
  readonly document: JsonObject | null;
}

export function attachSourceDocument(foreign: ExternalCheckpoint, format: FormatName): Planes {
  const { id, createdAt, trigger, original, planes } = foreign;
  // As text: the store keeps JSON in its canonical form, in which the order of the fields would be lost.
  const document = original === null ? null : JSON.stringify(original.document);
  const kept: JsonObject = { format, id, createdAt, trigger, document };
  return {
    ...planes,
    // A tree of another repository pins nothing here; what the document says of it stays in the document.
    files: null,
    effects: { entry: 0, pending: [] },
    extensions: { ...planes.extensions, [SOURCE_DOCUMENT]: kept },
  };
}

export function sourceDocumentOf(planes: Pick<Planes, "extensions">): SourceDocument | null {
  const kept: Json | undefined = planes.extensions[SOURCE_DOCUMENT];
  if (!isJsonObject(kept)) return null;
  const { id, createdAt, document } = kept;
  const format = FORMAT_NAMES.find((name) => name === kept["format"]);
  const trigger = TRIGGERS.find((name) => name === kept["trigger"]);
  if (format === undefined || trigger === undefined) return null;
  return {
    format,
    id: typeof id === "string" ? id : null,
    createdAt: typeof createdAt === "string" ? createdAt : null,
    trigger,
    document: documentOf(document),
  };
}

function documentOf(text: Json | undefined): JsonObject | null {
  if (typeof text !== "string") return null;
  const document: Json = JSON.parse(text);
  return isJsonObject(document) ? document : null;
}

/** A process may have died in the middle of it. */
export async function isWhole(parts: CoreAdapters, run: string): Promise<boolean> {
  for await (const { kind } of parts.store.readJournal({ run })) if (kind === IMPORT_ENTRY) return true;
  return false;
}

/** Where the document says that its files are: formats put it into an extension of their own. */
export function worktreesNamedIn(extensions: JsonObject): readonly string[] {
  return Object.values(extensions).flatMap((extension) => {
    const path = isJsonObject(extension) ? extension["worktree"] : undefined;
    return typeof path === "string" && path.startsWith("/") ? [path] : [];
  });
}

/** A checkpoint of ours as codecs take it, with the document that it came from, however far the run has gone on since. */
export function toExternalCheckpoint(
  run: Pick<Run, "workflow" | "work">,
  checkpoint: Pick<Checkpoint, "trigger" | "sequence" | "createdAt" | "planes">,
  to: FormatName,
): { readonly foreign: ExternalCheckpoint; readonly losses: readonly Loss[] } {
  const imported = sourceDocumentOf(checkpoint.planes);
  // Later checkpoints carry the document along, but they are not the one that it describes.
  const itself = checkpoint.trigger === "import" ? imported : null;
  const { [SOURCE_DOCUMENT]: _kept, ...extensions } = checkpoint.planes.extensions;
  const original =
    imported === null || imported.document === null ? null : { format: imported.format, document: imported.document };
  const foreign: ExternalCheckpoint = {
    id: itself === null ? newId(checkpoint, imported, to) : itself.id,
    createdAt: itself === null ? checkpoint.createdAt : itself.createdAt,
    trigger: itself?.trigger ?? checkpoint.trigger,
    workflow: run.workflow,
    work: run.work,
    planes: { ...checkpoint.planes, extensions },
    original,
  };
  return { foreign, losses: original === null || original.format === to ? [] : [documentLost(original, to)] };
}

/** Versions count on from the imported one; all other formats make an id from what the checkpoint says. */
function newId(
  checkpoint: Pick<Checkpoint, "sequence">,
  imported: SourceDocument | null,
  to: FormatName,
): string | null {
  if (to !== "context-store") return null;
  const before = imported?.format === "context-store" ? Number(imported.id) : 0;
  return String((Number.isSafeInteger(before) ? before : 0) + checkpoint.sequence);
}

function documentLost(original: { readonly format: FormatName; readonly document: JsonObject }, to: FormatName): Loss {
  const why = `The ${original.format} document it was imported from has no place in ${to}: what only that format has stays in the store`;
  return { path: `extensions.${SOURCE_DOCUMENT}`, why };
}
