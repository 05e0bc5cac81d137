import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import { type JsonObject, isJsonObject } from "@holdfast/core/json";
import { type RetentionPolicy, planRetention } from "@holdfast/core/retention";
import { HoldfastError } from "@holdfast/platform/error";
import { type CrunchDirectory, type CrunchFile, compareEntries, makeIndex } from "./crunch-directory.ts";
import { isJsonName } from "./crunch-document.ts";
import { type CrunchEncoding, documentOf, encodeCrunch } from "./crunch-yaml.ts";
import { field, sameJson } from "./document.ts";
import type { ExternalCheckpoint, Loss } from "./format.ts";
import { writeJson } from "./strict-json.ts";
import { writeYaml } from "./strict-yaml.ts";

/** Names are relative to the directory. To be done in this order, each one durable before the next. */
export type DirectoryAction =
  | { readonly kind: "write"; readonly name: string; readonly bytes: Uint8Array }
  /** A symbolic link, made under another name and put in place of what is there. */
  | { readonly kind: "link"; readonly name: string; readonly target: string }
  | { readonly kind: "remove"; readonly name: string };

interface CrunchWritePlan {
  readonly actions: readonly DirectoryAction[];
  readonly losses: readonly { readonly id: string; readonly losses: readonly Loss[] }[];
  /** What crunch's configuration keeps out. */
  readonly limited: readonly Loss[];
}

/**
 * What brings a directory to hold these checkpoints too: new files first, then the index, then `latest`, and only then goes
 * what is no longer named. Stopped anywhere, crunch finds a directory that is whole, at worst with an index that is behind.
 * An empty `add` repairs the index and `latest` alone. Broken files stay where they are.
 */
export function planCrunchWrite(params: {
  readonly directory: CrunchDirectory;
  readonly add: readonly ExternalCheckpoint[];
  /** Absent: all stay. */
  readonly limits?: CrunchLimits;
  /** End of the names of new files: packed by whoever writes them. */
  readonly suffix?: "" | ".gz";
  /** false: `latest` becomes a file that holds the name. */
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
    refuseForeign(directory, file);
    files.set(file.checkpoint.id, file);
  }
  const places = placesOf(directory);
  const all = [...files.values()].toSorted((a, b) => compareEntries(a, b, (id) => places.get(id)));
  const { drop, losses } = limits === undefined ? NO_LIMITS : planCrunchLimits(all, limits);
  const checkpoints = all.filter(({ checkpoint }) => !drop.has(checkpoint.id ?? ""));
  const { document } = makeIndex({ checkpoints, old: directory.index.document });
  const said = JSON.stringify(document);
  const dropped = directory.checkpoints.filter(({ checkpoint }) => drop.has(checkpoint.id ?? ""));
  return {
    actions: [
      ...checkpoints.flatMap(({ name, bytes }) => (bytes === null ? [] : [{ kind: "write", name, bytes } as const])),
      ...directory.index.files
        .filter((file) => JSON.stringify(file.document) !== said)
        .map(({ name }) => ({ kind: "write", name, bytes: indexBytes(name, document) }) as const),
      ...planLatest({ directory, newest: checkpoints.at(-1)?.name ?? null, links: params.links }),
      ...dropped.map((file): DirectoryAction => ({ kind: "remove", name: file.name })),
    ],
    losses: added.map((one) => ({ id: one.file.checkpoint.id ?? "", losses: one.losses })),
    limited: losses,
  };
}

const NO_LIMITS = { drop: new Set<string>(), losses: [] };

/** As the newest that is there: a directory may be from before crunch changed from JSON to YAML, or from after. */
function encodingOfNew(directory: CrunchDirectory): CrunchEncoding {
  const like = directory.checkpoints.at(-1)?.name ?? directory.index.files[0]?.name ?? "";
  return isJsonName(like) ? "json" : "yaml";
}

function indexBytes(name: string, document: JsonObject): Uint8Array {
  return isJsonName(name) ? writeJson(document) : new TextEncoder().encode(writeYaml(document));
}

/** A checkpoint that is there already keeps its name, and is written as that name promises. */
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
  // The index speaks of what stands in the file.
  const written: ExternalCheckpoint = { ...checkpoint, id, original: { format: "crunch-yaml", document } };
  const name = old ?? `${id}.${encoding}${there.suffix}`;
  // What stands there in other words (another order, other quotes) is left as its writer spelled it.
  const same = sameJson(found?.checkpoint.original?.document, document);
  return { file: { name, checkpoint: written, bytes: same ? null : bytes }, losses };
}

/** A file that we could not read may be the only copy of something: it is not overwritten. */
function refuseForeign(directory: CrunchDirectory, file: CrunchFile): void {
  if (!directory.broken.some(({ name }) => name === file.name)) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${file.name} cannot be written: a file of that name is there and cannot be read`,
    hint: "Move it away first; nothing was changed.",
  });
}

function placesOf(directory: CrunchDirectory): ReadonlyMap<string, number> {
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
  const { said, as } = params.directory.latest;
  if (params.newest === null) return as === null ? [] : [{ kind: "remove", name: "latest" }];
  const form = params.links ? "link" : "file";
  if (said === params.newest && as === form) return [];
  return params.links
    ? [{ kind: "link", name: "latest", target: params.newest }]
    : [{ kind: "write", name: "latest", bytes: new TextEncoder().encode(`${params.newest}\n`) }];
}

/** What crunch's own configuration allows a directory to hold. */
export interface CrunchLimits {
  readonly retention: RetentionPolicy;
  /** Ids that the run can write again. What another wrote may be the only copy, and is never removed. */
  readonly ours: ReadonlySet<string>;
  /** Bytes that a file takes on disk; with its content where it is still to be written. */
  readonly sizeOf: (name: string, bytes: Uint8Array | null) => number;
}

interface LimitedFile extends CrunchFile {
  /** null: it is there already. */
  readonly bytes: Uint8Array | null;
}

/** Ids that are not to be there, and what to say of it. `files` oldest first. */
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
        state: { kind: "open" },
        checkpoints: fitting.map(({ file, size }, at) => summaryOf(file, at + 1, size)),
        pinned: new Map(
          fitting.flatMap(({ file }, at) => (ours.has(file.checkpoint.id ?? "") ? [] : [[at + 1, "of another"]])),
        ),
        resumable: new Set(fitting.flatMap(({ file }, at) => (canResume(file) ? [at + 1] : []))),
      },
    ],
    policy: retention,
    // Crunch drops nothing for its age, so the hour does not matter.
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

function summaryOf({ checkpoint, name }: CrunchFile, sequence: number, size: number): CheckpointSummary {
  const { position } = checkpoint.planes;
  return {
    id: `crunch@${sequence}`,
    run: "crunch",
    sequence,
    entry: sequence,
    parent: null,
    trigger: checkpoint.trigger,
    name,
    createdAt: checkpoint.createdAt ?? "",
    stage: position.stage,
    iteration: position.iteration,
    score: null,
    tree: null,
    tags: [],
    size: { logical: size, added: size },
    digest: "",
    quarantined: false,
  };
}

function canResume({ checkpoint }: CrunchFile): boolean {
  const recovery = field(checkpoint.planes.extensions, "recovery");
  return !isJsonObject(recovery) || field(recovery, "can_resume") !== false;
}
