// Plans the writes to a crunch checkpoint directory: new files, index, `latest` and removals under crunch's limits.

import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import { type JsonObject, isJsonObject } from "@holdfast/core/json";
import { type RetentionPolicy, planRetention } from "@holdfast/core/retention";
import { HoldfastError } from "@holdfast/platform/error";
import {
  type CrunchDirectory,
  type CrunchFile,
  canResume,
  compareEntries,
  makeIndex,
  phaseOf,
} from "./crunch-directory.ts";
import { isJsonName } from "./crunch-document.ts";
import { decodeTrigger } from "./crunch-words.ts";
import { type CrunchEncoding, documentOf, encodeCrunch } from "./crunch-yaml.ts";
import { sameJson } from "./document.ts";
import type { ExternalCheckpoint, Loss } from "./format.ts";
import { writeJson } from "./strict-json.ts";
import { writeYaml } from "./strict-yaml.ts";

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
  throw new HoldfastError({
    code: "USAGE",
    message: `${file.name} cannot be written: a file of that name is there and cannot be read`,
    hint: "Move it away first; nothing was changed.",
  });
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
