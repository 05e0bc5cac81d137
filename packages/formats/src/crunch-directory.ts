// A crunch checkpoint directory: reads its checkpoint files, index and `latest`, with repair information, and plans the writes to it under
// crunch's limits.

import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import {
  type Json,
  type JsonObject,
  type TypeOf,
  count,
  flag,
  isJsonArray,
  isJsonObject,
  list,
  object,
  text,
} from "@holdfast/core/json";
import { type RetentionPolicy, planRetention } from "@holdfast/core/retention";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import {
  checkpointFileName,
  idFromFileName,
  isCheckpointFile,
  isIndexFile,
  isJsonName,
  readCrunch,
} from "./crunch-document.ts";
import { decodeTrigger, triggerWord } from "./crunch-words.ts";
import { type CrunchEncoding, type DecodeCrunch, decodeCrunch, documentOf, encodeCrunch } from "./crunch-yaml.ts";
import { checkDocument, field, invalidDocument, maybe, sameJson } from "./document.ts";
import type { ExternalCheckpoint, ExternalFile, Loss, Remark } from "./format.ts";
import { writeJson } from "./strict-json.ts";
import { writeYaml } from "./strict-yaml.ts";

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
function makeIndex(params: { readonly checkpoints: readonly CrunchFile[]; readonly old: JsonObject | null }): {
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
function compareEntries(a: CrunchFile, b: CrunchFile, place: (id: string) => number | undefined): number {
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
function canResume({ original }: Pick<ExternalCheckpoint, "original">): boolean {
  const recovery = field(original?.document ?? {}, "recovery_info");
  return !isJsonObject(recovery) || field(recovery, "can_resume") !== false;
}

/** The phase that a document names. */
function phaseOf(document: JsonObject): Json | undefined {
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

type CrunchIndexEntry = TypeOf<typeof indexEntry>;
type CrunchIndex = TypeOf<typeof crunchIndex>;

/** Throws FORMAT_INVALID or FORMAT_DAMAGED. Also returns the whole document, for its unknown fields. */
function decodeIndex(file: ExternalFile): { readonly index: CrunchIndex; readonly document: JsonObject } {
  const { document, source } = readCrunch(file);
  return { index: checkDocument(crunchIndex, document, source), document };
}

/**
 * Names are relative to the directory. The caller performs the actions in order and makes each durable before the next.
 */
export type DirectoryAction =
  | { readonly kind: "write"; readonly name: string; readonly bytes: Uint8Array }
  /** A symbolic link, created under another name and renamed over the existing one. */
  | { readonly kind: "link"; readonly name: string; readonly target: string }
  | { readonly kind: "remove"; readonly name: string };

interface CrunchWritePlan {
  readonly actions: readonly DirectoryAction[];
  readonly losses: readonly { readonly id: string; readonly losses: readonly Loss[] }[];
  /** Checkpoints that crunch's configuration excludes. */
  readonly limited: readonly Loss[];
}

/**
 * Plans how to add checkpoints to a directory: new files first, then the index, then `latest`, and removals last. After
 * an interruption at any point, crunch finds a consistent directory, at worst with an outdated index. With an empty
 * `add` only index and `latest` are repaired. Unreadable files remain.
 */
export function planCrunchWrite(params: {
  readonly directory: CrunchDirectory;
  readonly add: readonly ExternalCheckpoint[];
  /** Absent: no checkpoint is removed to keep limits. */
  readonly limits?: CrunchLimits;
  /** Selects files to remove. */
  readonly remove?: (file: CrunchFile) => boolean;
  /** Extension of new file names; the writer compresses accordingly. */
  readonly suffix?: "" | ".gz";
  /** false: `latest` is a file with the name instead of a link. */
  readonly links: boolean;
}): CrunchWritePlan {
  const { directory, limits } = params;
  const known = new Map(directory.checkpoints.map((file) => [file.checkpoint.id, file]));
  const fresh = encodingOfNew(directory);
  const added = params.add.map((checkpoint) => prepare(checkpoint, { known, fresh, suffix: params.suffix ?? "" }));
  const files = new Map<string | null, LimitedFile>(
    directory.checkpoints.map((file) => [file.checkpoint.id, { ...file, bytes: null }]),
  );
  for (const { file } of added) {
    refuseUnreadable(directory, file);
    files.set(file.checkpoint.id, file);
  }
  const positions = positionsOf(directory);
  const all = [...files.values()].toSorted((a, b) => compareEntries(a, b, (id) => positions.get(id)));
  const { drop: limited, losses } = limits === undefined ? NO_LIMITS : planCrunchLimits(all, limits);
  const removed = params.remove === undefined ? [] : all.filter(params.remove);
  const drop = new Set([...limited, ...removed.map(({ checkpoint }) => checkpoint.id ?? "")]);
  const checkpoints = all.filter(({ checkpoint }) => !drop.has(checkpoint.id ?? ""));
  const { document } = makeIndex({ checkpoints, old: directory.index.document });
  const text = JSON.stringify(document);
  const dropped = directory.checkpoints.filter(({ checkpoint }) => drop.has(checkpoint.id ?? ""));
  return {
    actions: [
      ...checkpoints.flatMap(({ name, bytes }) => (bytes === null ? [] : [{ kind: "write", name, bytes } as const])),
      ...directory.index.files
        .filter((file) => JSON.stringify(file.document) !== text)
        .map(({ name }) => ({ kind: "write", name, bytes: indexBytes(name, document) }) as const),
      ...planLatest({ directory, newest: checkpoints.at(-1)?.name ?? null, links: params.links }),
      ...dropped.map((file): DirectoryAction => ({ kind: "remove", name: file.name })),
    ],
    losses: added.map((one) => ({ id: one.file.checkpoint.id ?? "", losses: one.losses })),
    limited: losses,
  };
}

const NO_LIMITS = { drop: new Set<string>(), losses: [] };

/** Uses the encoding of the newest file, because a directory may predate crunch's change from JSON to YAML. */
function encodingOfNew(directory: CrunchDirectory): CrunchEncoding {
  const like = directory.checkpoints.at(-1)?.name ?? directory.index.files[0]?.name ?? "";
  return isJsonName(like) ? "json" : "yaml";
}

function indexBytes(name: string, document: JsonObject): Uint8Array {
  return isJsonName(name) ? writeJson(document) : new TextEncoder().encode(writeYaml(document));
}

/** An existing checkpoint keeps its file name and the encoding that the name says. */
function prepare(
  checkpoint: ExternalCheckpoint,
  there: {
    readonly known: ReadonlyMap<string | null, CrunchFile>;
    readonly fresh: CrunchEncoding;
    readonly suffix: string;
  },
): { readonly file: LimitedFile; readonly losses: readonly Loss[] } {
  const { document } = documentOf(checkpoint);
  const id = String(document["checkpoint_id"]);
  const found = there.known.get(id);
  const old = found?.name;
  const encoding = old === undefined ? there.fresh : isJsonName(old) ? "json" : "yaml";
  const { bytes, losses } = encodeCrunch(checkpoint, encoding);
  // The index must describe what the file contains.
  const written: ExternalCheckpoint = { ...checkpoint, id, original: { format: "crunch-yaml", document } };
  const name = old ?? `${id}.${encoding}${there.suffix}`;
  // A file with equal content (other order, other quotes) keeps its writer's spelling.
  const same = sameJson(found?.checkpoint.original?.document, document);
  return { file: { name, checkpoint: written, bytes: same ? null : bytes }, losses };
}

/** An unreadable file may be the only copy of its content, so it is not overwritten. */
function refuseUnreadable(directory: CrunchDirectory, file: CrunchFile): void {
  if (!directory.broken.some(({ name }) => name === file.name)) return;
  throw usageError(
    `${file.name} cannot be written: a file of that name is there and cannot be read`,
    "Move it away first; nothing was changed.",
  );
}

function positionsOf(directory: CrunchDirectory): ReadonlyMap<string, number> {
  const listed = directory.index.document["checkpoints"];
  const ids = Array.isArray(listed)
    ? listed.map((entry) => (isJsonObject(entry) ? String(entry["checkpoint_id"]) : ""))
    : [];
  return new Map(ids.map((id, place) => [id, place]));
}

function planLatest(params: {
  readonly directory: CrunchDirectory;
  readonly newest: string | null;
  readonly links: boolean;
}): readonly DirectoryAction[] {
  const { target, as } = params.directory.latest;
  if (params.newest === null) return as === null ? [] : [{ kind: "remove", name: "latest" }];
  const form = params.links ? "link" : "file";
  if (target === params.newest && as === form) return [];
  return params.links
    ? [{ kind: "link", name: "latest", target: params.newest }]
    : [{ kind: "write", name: "latest", bytes: new TextEncoder().encode(`${params.newest}\n`) }];
}

/** What crunch's own configuration allows in a directory. */
export interface CrunchLimits {
  readonly retention: RetentionPolicy;
  /** Ids that the run can write again. Other checkpoints may be the only copy and are never removed. */
  readonly ours: ReadonlySet<string>;
  /** Size of a file on disk in bytes; `bytes` is its content if it is not written yet. */
  readonly sizeOf: (name: string, bytes: Uint8Array | null) => number;
}

interface LimitedFile extends CrunchFile {
  /** null: the file already exists. */
  readonly bytes: Uint8Array | null;
}

/** Ids that must not be in the directory, and the losses to report. `files` is oldest first. */
function planCrunchLimits(
  files: readonly LimitedFile[],
  { retention, ours, sizeOf }: CrunchLimits,
): { readonly drop: ReadonlySet<string>; readonly losses: readonly Loss[] } {
  const limit = retention.maxBytes ?? Number.POSITIVE_INFINITY;
  const sized = files.map((file) => ({ file, size: sizeOf(file.name, file.bytes) }));
  const tooLarge = sized.filter(({ file, size }) => file.bytes !== null && size > limit);
  const fitting = sized.filter((one) => !tooLarge.includes(one));
  const [plan] = planRetention({
    subjects: [
      {
        run: "crunch",
        state: { kind: "active" },
        checkpoints: fitting.map(({ file, size }, at) => summaryOf(file, at + 1, size)),
        pinned: new Map(
          fitting.flatMap(({ file }, at) => (ours.has(file.checkpoint.id ?? "") ? [] : [[at + 1, "of another"]])),
        ),
        resumable: new Set(fitting.flatMap(({ file }, at) => (canResume(file.checkpoint) ? [at + 1] : []))),
      },
    ],
    policy: retention,
    // Crunch drops nothing by age, so the time does not matter.
    now: 0,
  });
  const dropped = (plan?.decisions ?? []).flatMap((decision) =>
    decision.action === "drop" ? [fitting[decision.sequence - 1]] : [],
  );
  const gone = dropped.flatMap((one) => one?.file.checkpoint.id ?? []);
  const left = fitting.reduce((sum, one) => sum + (dropped.includes(one) ? 0 : one.size), 0);
  return {
    drop: new Set([...gone, ...tooLarge.flatMap(({ file }) => file.checkpoint.id ?? [])]),
    losses: [
      ...tooLarge.map(({ file, size }) => ({
        path: `checkpoints.${file.checkpoint.id ?? ""}`,
        why: `It has ${size} bytes and max_size_mb allows ${limit}: not written`,
      })),
      ...(gone.length === 0
        ? []
        : [{ path: "checkpoints", why: `${gone.length} are not kept there: retention or max_size_mb` }]),
      ...(left <= limit
        ? []
        : [{ path: "checkpoints", why: `They have ${left} bytes and max_size_mb allows ${limit}; none more may go` }]),
    ],
  };
}

/** Counts a checkpoint by the phase and trigger that its document names, whether it is read or about to be written. */
function summaryOf({ checkpoint, name }: CrunchFile, sequence: number, size: number): CheckpointSummary {
  const { position } = checkpoint.planes;
  const document = checkpoint.original?.document ?? {};
  const { trigger } = document;
  const phase = phaseOf(document);
  return {
    id: `crunch@${sequence}`,
    run: "crunch",
    sequence,
    entry: sequence,
    parent: null,
    trigger: (typeof trigger === "string" ? decodeTrigger(trigger) : undefined) ?? checkpoint.trigger,
    name,
    createdAt: checkpoint.createdAt ?? "",
    stage: typeof phase === "string" ? phase : position.stage,
    iteration: position.iteration,
    score: null,
    tree: null,
    tags: [],
    size: { logical: size, added: size },
    digest: "",
    quarantined: false,
  };
}
