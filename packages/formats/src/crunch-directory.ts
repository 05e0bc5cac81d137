// Reads a crunch checkpoint directory: its checkpoint files, index and `latest`, with repair information.

import {
  type Json,
  type JsonObject,
  count,
  flag,
  isJsonArray,
  isJsonObject,
  list,
  object,
  text,
} from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import {
  checkpointFileName,
  idFromFileName,
  isCheckpointFile,
  isIndexFile,
  isJsonName,
  readCrunch,
} from "./crunch-document.ts";
import { decodeTrigger, triggerWord } from "./crunch-words.ts";
import { type DecodeCrunch, decodeCrunch } from "./crunch-yaml.ts";
import { type Parsed, checkDocument, field, invalidDocument, maybe, sameJson } from "./document.ts";
import type { ExternalCheckpoint, ExternalFile, Remark } from "./format.ts";

/** The content of `.claude/crunch/<issue>/checkpoints`. */
export interface CrunchListing {
  /** All regular files. Paths are as the user gave them; the last segment is the file name. */
  readonly files: readonly ExternalFile[];
  /** Target of the link `latest`; null without a link. If `latest` is a file, it is among the files. */
  readonly link: string | null;
}

export interface CrunchDirectory {
  /** Oldest first. */
  readonly checkpoints: readonly CrunchFile[];
  /** Files that cannot be read, with the reason. No plan changes them. */
  readonly broken: readonly UnreadableFile[];
  /** The correct index; `problems` is empty if the existing one is correct. */
  readonly index: {
    readonly document: JsonObject;
    readonly problems: readonly string[];
    /** All existing index files with their content, null if unreadable. Without any, the one to create. */
    readonly files: readonly IndexFile[];
  };
  /** Name of the newest file, and what the link or pointer file says; null if there is neither. */
  readonly latest: {
    readonly name: string | null;
    readonly target: string | null;
    readonly as: "link" | "file" | null;
  };
  readonly remarks: readonly Remark[];
}

interface IndexFile {
  readonly name: string;
  readonly document: JsonObject | null;
}

interface UnreadableFile {
  readonly name: string;
  readonly error: HoldfastError;
}

export interface CrunchFile {
  readonly name: string;
  readonly checkpoint: ExternalCheckpoint;
}

/**
 * The checkpoint files are the source of truth. Index and `latest` are derived and may be missing, cut or outdated
 * after a crash. What only a readable index knows (the trigger, the order of equal times, unknown fields) is taken from
 * it.
 */
export function readCrunchDirectory(listing: CrunchListing, decode: DecodeCrunch = decodeCrunch): CrunchDirectory {
  const remarks: Remark[] = [];
  const read: CrunchFile[] = [];
  const broken: UnreadableFile[] = [];
  const indexes: ExternalFile[] = [];
  let pointer: ExternalFile | null = null;
  for (const file of listing.files) {
    const name = checkpointFileName(file.path);
    if (name === "latest") pointer = file;
    else if (isIndexFile(name)) indexes.push(file);
    else if (isCheckpointFile(name)) readFile(file, name, { decode, read, broken, remarks });
    else remarks.push({ path: name, text: "is not a file of crunch: ignored" });
  }
  const old = readIndexes(indexes);
  const entries = new Map(old.entries.map((entry, place) => [entry.checkpoint_id, { entry, place }]));
  const checkpoints = ignoreDuplicates(read, { broken, remarks })
    .map((file) => withTrigger(file, entries.get(file.checkpoint.id ?? "")?.entry))
    .toSorted((a, b) => compareEntries(a, b, (id) => entries.get(id)?.place));
  const made = makeIndex({ checkpoints, old: old.document });
  const newest = checkpoints.at(-1)?.name ?? null;
  const target = listing.link ?? pointedAt(pointer);
  return {
    checkpoints,
    broken,
    index: {
      document: made.document,
      problems: [...(old.document === null ? [] : made.problems), ...old.problems],
      files: old.files,
    },
    latest: { name: newest, target, as: listing.link !== null ? "link" : pointer !== null ? "file" : null },
    remarks,
  };
}

/** Among files with one id, the one named after the id counts, YAML before JSON. The others remain unchanged. */
function ignoreDuplicates(
  read: readonly CrunchFile[],
  into: { readonly broken: UnreadableFile[]; readonly remarks: Remark[] },
): readonly CrunchFile[] {
  const chosen = new Map<string | null, CrunchFile>();
  const rank = ({ name, checkpoint }: CrunchFile): number =>
    (idFromFileName(name) === checkpoint.id ? 0 : 2) + (isJsonName(name) ? 1 : 0);
  for (const file of read.toSorted((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1))) {
    const { id, original } = file.checkpoint;
    const other = chosen.get(id);
    if (other === undefined) chosen.set(id, file);
    else if (sameJson(original?.document, other.checkpoint.original?.document)) {
      into.remarks.push({ path: file.name, text: `is the same as ${other.name}: ignored` });
    } else {
      const source = { format: "crunch-yaml", file: file.name } as const;
      const why = `there is the id of ${other.name}`;
      into.broken.push({ name: file.name, error: invalidDocument(source, { path: "/checkpoint_id", why }) });
    }
  }
  return [...chosen.values()];
}

function readFile(
  file: ExternalFile,
  name: string,
  into: {
    readonly decode: DecodeCrunch;
    readonly read: CrunchFile[];
    readonly broken: UnreadableFile[];
    readonly remarks: Remark[];
  },
): void {
  try {
    const decoded = into.decode(file);
    into.remarks.push(...decoded.remarks.map((remark) => ({ ...remark, path: `${name}#${remark.path}` })));
    for (const checkpoint of decoded.checkpoints) {
      into.read.push({ name, checkpoint });
      if (idFromFileName(name) !== checkpoint.id) {
        into.remarks.push({ path: name, text: `is named otherwise than its id, ${checkpoint.id}` });
      }
    }
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    into.broken.push({ name, error });
  }
}

/**
 * A directory from the time of crunch's change may have a JSON and a YAML index. Both are read, YAML first, and both
 * are kept correct.
 */
function readIndexes(files: readonly ExternalFile[]): {
  readonly entries: readonly CrunchIndexEntry[];
  readonly document: JsonObject | null;
  readonly problems: readonly string[];
  readonly files: readonly IndexFile[];
} {
  if (files.length === 0)
    return {
      entries: [],
      document: null,
      problems: ["the index is missing"],
      files: [{ name: "index.yaml", document: null }],
    };
  const problems: string[] = [];
  const read = files
    .toSorted((a, b) => Number(isJsonName(a.path)) - Number(isJsonName(b.path)))
    .map((file) => {
      const name = checkpointFileName(file.path);
      try {
        return { name, ...decodeIndex(file) };
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        problems.push(error.message);
        return { name, index: null, document: null };
      }
    });
  const entries = new Map<string, CrunchIndexEntry>();
  for (const { index } of read)
    for (const entry of index?.checkpoints ?? [])
      if (!entries.has(entry.checkpoint_id)) entries.set(entry.checkpoint_id, entry);
  const [first, ...others] = read.flatMap(({ document }) => (document === null ? [] : [document]));
  const all = [...entries.values()];
  return {
    entries: all,
    // The entries come from a JSON document, so the cast is safe.
    document:
      first === undefined || others.length === 0
        ? (first ?? null)
        : { ...first, checkpoints: all as object as readonly Json[] },
    problems,
    files: read.map(({ name, document }) => ({ name, document })),
  };
}

/** The document's own trigger takes precedence; crunch's own files have none. */
function withTrigger(file: CrunchFile, entry: CrunchIndexEntry | undefined): CrunchFile {
  const word = entry?.trigger ?? null;
  const own = file.checkpoint.original?.document["trigger"];
  if (word === null || (own !== undefined && own !== null)) return file;
  return { ...file, checkpoint: { ...file.checkpoint, trigger: decodeTrigger(word) ?? "automatic" } };
}

/** Without links, a file holds the name. Some tools put a copy of the checkpoint there instead. */
function pointedAt(pointer: ExternalFile | null): string | null {
  if (pointer === null) return null;
  const text = new TextDecoder().decode(pointer.bytes.subarray(0, 4096)).trim();
  if (!text.includes("\n")) return checkpointFileName(text);
  try {
    return decodeCrunch(pointer).checkpoints[0]?.id ?? null;
  } catch {
    return null;
  }
}

/**
 * Builds the correct index for these files, oldest first, and lists how the old one differs. Keeps unknown fields of
 * the index and of every entry whose checkpoint still exists.
 */
export function makeIndex(params: { readonly checkpoints: readonly CrunchFile[]; readonly old: JsonObject | null }): {
  readonly document: JsonObject;
  readonly problems: readonly string[];
} {
  const { checkpoints } = params;
  const old = params.old ?? {};
  const known = new Map<string, JsonObject>();
  const listed = field(old, "checkpoints");
  for (const entry of isJsonArray(listed) ? listed : []) {
    const id = isJsonObject(entry) ? field(entry, "checkpoint_id") : undefined;
    if (isJsonObject(entry) && typeof id === "string") known.set(id, entry);
  }
  const entries = checkpoints.map((file) => entryOf(file, known.get(file.checkpoint.id ?? "") ?? {}));
  const newest = checkpoints.at(-1)?.checkpoint;
  const number = newest?.work.kind === "issue" ? newest.work.number : (field(old, "issue_number") ?? null);
  const document: JsonObject = {
    ...old,
    issue_number: number,
    checkpoints: entries,
    latest: newest?.id ?? null,
    total_checkpoints: entries.length,
  };
  return { document, problems: params.old === null ? [] : problemsOf(old, document, known) };
}

/**
 * Sorts by time, then by the old index, then by id. A checkpoint without a time comes first, because it may be of any
 * age.
 */
export function compareEntries(a: CrunchFile, b: CrunchFile, place: (id: string) => number | undefined): number {
  const [one, other] = [a.checkpoint, b.checkpoint];
  const [first, second] = [one.createdAt ?? "", other.createdAt ?? ""];
  if (first !== second) return first < second ? -1 : 1;
  const [left, right] = [one.id ?? "", other.id ?? ""];
  const byPosition = (place(left) ?? Number.MAX_SAFE_INTEGER) - (place(right) ?? Number.MAX_SAFE_INTEGER);
  if (byPosition !== 0) return byPosition;
  if (left !== right) return left < right ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}

/** An unknown trigger is left out, not invented. */
function entryOf({ checkpoint }: CrunchFile, old: JsonObject): JsonObject {
  const document = checkpoint.original?.document ?? {};
  const entry: Record<string, Json> = { ...old, checkpoint_id: checkpoint.id ?? "" };
  const createdAt = field(document, "created_at") ?? checkpoint.createdAt;
  if (createdAt !== null) entry["created_at"] = createdAt;
  if (checkpoint.trigger !== "import") entry["trigger"] = field(old, "trigger") ?? triggerWord(checkpoint.trigger);
  entry["phase"] = phaseOf(document) ?? checkpoint.planes.position.stage;
  entry["can_resume"] = canResume(checkpoint);
  return entry;
}

/** Reads the document itself: the planes of a run in progress do not have crunch's recovery information. */
export function canResume({ original }: Pick<ExternalCheckpoint, "original">): boolean {
  const recovery = field(original?.document ?? {}, "recovery_info");
  return !isJsonObject(recovery) || field(recovery, "can_resume") !== false;
}

/** The phase that a document names. */
export function phaseOf(document: JsonObject): Json | undefined {
  const state = field(document, "workflow_state");
  return isJsonObject(state) ? field(state, "current_phase") : undefined;
}

function problemsOf(old: JsonObject, made: JsonObject, known: ReadonlyMap<string, JsonObject>): readonly string[] {
  const problems: string[] = [];
  const entries = made["checkpoints"];
  const ids = new Set<string>();
  for (const entry of isJsonArray(entries) ? entries : []) {
    if (!isJsonObject(entry)) continue;
    const id = String(entry["checkpoint_id"]);
    ids.add(id);
    const was = known.get(id);
    if (was === undefined) problems.push(`it does not list ${id}`);
    else if (!sameJson(was, entry)) problems.push(`it is wrong about ${id}`);
  }
  for (const id of known.keys()) if (!ids.has(id)) problems.push(`it lists ${id}, which has no readable file`);
  for (const name of ["issue_number", "latest", "total_checkpoints"]) {
    if (!sameJson(field(old, name) ?? null, made[name] ?? null)) problems.push(`its ${name} is wrong`);
  }
  if (problems.length === 0 && !sameJson(old, made)) problems.push("it has another order");
  return problems;
}

/** Crunch's index of its checkpoints. It is derived from them except for the trigger, which only the index holds. */
const indexEntry = object({
  checkpoint_id: text,
  created_at: maybe(text),
  trigger: maybe(text),
  phase: maybe(text),
  can_resume: maybe(flag),
});

const crunchIndex = object({
  issue_number: maybe(count),
  checkpoints: list(indexEntry),
  latest: maybe(text),
  total_checkpoints: maybe(count),
});

type CrunchIndexEntry = Parsed<typeof indexEntry>;
type CrunchIndex = Parsed<typeof crunchIndex>;

/** Throws FORMAT_INVALID or FORMAT_DAMAGED. Also returns the whole document, for its unknown fields. */
function decodeIndex(file: ExternalFile): { readonly index: CrunchIndex; readonly document: JsonObject } {
  const { document, source } = readCrunch(file);
  return { index: checkDocument(crunchIndex, document, source), document };
}
