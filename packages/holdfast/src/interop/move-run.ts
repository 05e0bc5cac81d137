/** Exports a whole run to one file, and imports such a file into the store of another clone, where it can be resumed. */
import {
  type CoreAdapters,
  NO_WORKTREE,
  WORKTREE,
  newWorktreePath,
  rejectRolledBackStore,
  snapshotParams,
} from "@holdfast/core/adapters";
import type { Checkpoint, Planes } from "@holdfast/core/checkpoint";
import { type Masking, createMasking } from "@holdfast/core/mask";
import { loadRun } from "@holdfast/core/run-session";
import type { RunSummary } from "@holdfast/core/run";
import { rewoundTo } from "@holdfast/core/state";
import {
  type CommitBody,
  type Store,
  allCheckpoints,
  knownRun,
  leaseHeld,
  runExists,
  runNotStarted,
} from "@holdfast/core/store";
import { openMemoryStore } from "@holdfast/core/store-memory";
import { withoutAccepted } from "@holdfast/core/findings";
import type { PackedObjects } from "@holdfast/core/workspace";
import { HoldfastError, describeList } from "@holdfast/platform/error";
import { readRegularFile, writeDurable } from "@holdfast/platform/files";
import {
  MAX_RUN_FILE_BYTES,
  type RunFile,
  type RunFileLog,
  type RunFileSource,
  damagedRunFile,
  decodeRunFile,
  encodeRunFile,
} from "./run-file.ts";

/** Kind of the journal entry of an import. Its run needs consent before it is resumed. */
const RUN_IMPORTED = "x.run_imported";

export interface RunExport {
  readonly run: string;
  readonly bytes: Uint8Array;
  readonly entries: number;
  readonly checkpoints: number;
  /** Commits that the other clone must have. */
  readonly prerequisites: readonly string[];
  readonly secrets: readonly { readonly where: string; readonly kind: string }[];
  /** More was in the run than the search for secrets reads. */
  readonly unsearched: boolean;
  /** The worktree has changes that no checkpoint holds. */
  readonly unsaved: boolean;
}

/** Reads everything and writes nothing. LEASE_HELD while a live process executes the run. */
export async function planRunExport(
  adapters: CoreAdapters,
  params: { readonly run: string; readonly masking?: Masking },
): Promise<RunExport> {
  const { store, workspaces } = adapters;
  const run = await knownRun(store, params.run);
  const lease = await store.getLease(run.id);
  if (lease !== undefined && adapters.liveness(lease.owner) !== "dead") throw leaseHeld(lease);
  const newest = await store.latest(run.id);
  if (newest === undefined) throw runNotStarted(run);
  const stored = await store.exportRun(run.id);
  const logs = await readLogs(adapters, run.id);
  const source = {
    store: store.id,
    createdAt: new Date(adapters.clock.now()).toISOString(),
  };
  const packed = await workspaces?.packRun({ run: run.id, maxBytes: MAX_RUN_FILE_BYTES });
  const objects =
    packed === undefined
      ? null
      : { ...packed, refs: packed.refs.filter(({ ref }) => sequenceIn(ref) <= newest.sequence) };
  const blobs =
    packed === undefined ? undefined : await workspaces?.readPackedTexts({ packed, maxBytes: MAX_SEARCHED });
  const texts = [
    ...stored.entries.map(({ body }, i) => ({ where: `journal entry ${i + 1}`, text: body })),
    ...stored.chunks.map((text) => ({ where: "the state of a checkpoint", text })),
    { where: `the state of ${newest.id}`, text: JSON.stringify(newest.planes) },
    ...logs.map(({ step, lines }) => ({ where: `the log of ${step}`, text: lines.join("\n") })),
    ...(blobs?.texts ?? []),
  ];
  return {
    run: run.id,
    bytes: encodeRunFile({ source, stored, logs, objects }),
    entries: stored.entries.length,
    checkpoints: run.checkpoints,
    prerequisites: objects?.prerequisites ?? [],
    secrets: secretsIn(texts, params.masking ?? createMasking()),
    unsearched: blobs?.isCut ?? false,
    unsaved: await isUnsaved(adapters, newest),
  };
}

const MAX_SEARCHED = 64 * 1024 ** 2;

function secretsIn(
  texts: readonly { readonly where: string; readonly text: string }[],
  { find }: Masking,
): RunExport["secrets"] {
  const found = texts.flatMap(({ where, text }) => find(text).map(({ kind }) => ({ where, kind })));
  return [...new Map(found.map((one) => [`${one.where}\n${one.kind}`, one])).values()];
}

async function readLogs({ logs }: CoreAdapters, run: string): Promise<readonly RunFileLog[]> {
  const files = await logs.list(run);
  return await Promise.all(
    files.map(async (file) => {
      const { stageAttempt, step } = file;
      return { stageAttempt, step, lines: (await logs.read(file, 0)).lines };
    }),
  );
}

async function isUnsaved(adapters: CoreAdapters, newest: Checkpoint): Promise<boolean> {
  const workspace = await adapters.workspaces?.find(newest.run);
  const saved = newest.planes.files;
  if (workspace === undefined || saved === null) return false;
  return (await workspace.look(snapshotParams(adapters))).tree !== saved.tree;
}

/** The sequence in the name of a snapshot's ref; 0 for other refs. */
function sequenceIn(ref: string): number {
  return Number(/^refs\/holdfast\/[^/]+\/(\d+)/.exec(ref)?.[1] ?? 0);
}

/** NEEDS_DECISION when the file would hold secrets and the user has not asked for that. */
export function writeRunExport(
  planned: RunExport,
  params: { readonly path: string; readonly withSecrets: boolean },
): void {
  const { secrets, run } = planned;
  if (secrets.length > 0 && !params.withSecrets) {
    const places = secrets.map(({ where, kind }) => `${where} (${kind})`);
    throw new HoldfastError({
      code: "NEEDS_DECISION",
      message: `The file of ${run} would hold secrets: ${describeList(places)}`,
      hint: "Nothing was written. Replace the secrets, or add --with-secrets and give the file only to those who may know them.",
      data: { secrets },
    });
  }
  writeDurable({ path: params.path, data: planned.bytes, mode: "replace" });
}

export interface RunImport {
  readonly run: string;
  readonly workflow: string;
  readonly source: RunFileSource;
  readonly entries: number;
  readonly checkpoints: number;
  /** "whole": the store has this run already; the import only completes refs and logs. */
  readonly before: "none" | "whole";
  readonly file: RunFile;
  readonly first: CommitBody;
  readonly sequence: number;
  /** Of every checkpoint that holds files. */
  readonly files: readonly NonNullable<Planes["files"]>[];
}

/** Reads and checks everything, and writes nothing. `protect`: branches that no imported run may work on. */
export async function planRunImport(
  adapters: CoreAdapters,
  params: { readonly path: string; readonly protect: readonly string[] },
): Promise<RunImport> {
  const file = readRunFile(params.path);
  // The whole import, in memory: what a store or the engine could not read later is found before anything is written.
  const staging = openMemoryStore({ clock: adapters.clock });
  try {
    await staging.importRun({ stored: file.stored, label: "import", first: null });
    const run = await onlyRun(staging);
    const checkpoints = await checkpointsOf(staging, run);
    const loaded = await loadRun({ store: staging }, run.id).catch((error: unknown) => {
      throw damagedRunFile(error instanceof Error ? error.message : String(error));
    });
    const newest = { ...loaded.newest.planes, position: loaded.position };
    checkFiles({ run, file, newest, checkpoints, protect: params.protect });
    const sequence = loaded.top + 1;
    const planes = await localPlanes(adapters, run.id, newest, sequence);
    const { store, createdAt } = file.source;
    const body = { store, createdAt, head: file.stored.head };
    return {
      run: run.id,
      workflow: run.workflow,
      source: file.source,
      entries: run.entries,
      checkpoints: run.checkpoints,
      before: await findBefore(adapters, run, file.stored.head),
      file,
      sequence,
      first: { entries: [{ kind: RUN_IMPORTED, body }], checkpoint: { sequence, trigger: "import", planes } },
      files: checkpoints.flatMap(({ planes: { files } }) => (files === null ? [] : [files])),
    };
  } finally {
    await staging.close();
  }
}

function readRunFile(path: string): RunFile {
  const read = readRegularFile({ path, maxBytes: MAX_RUN_FILE_BYTES });
  if (read.kind === "read") return decodeRunFile(read.bytes);
  const why = read.kind === "refused" ? read.why : "it is not there";
  throw new HoldfastError({
    code: "IO_FAILED",
    message: `${path} cannot be read: ${why}`,
    hint: "Give the path of a run file.",
  });
}

async function onlyRun(store: Store): Promise<RunSummary> {
  const [run] = await store.listRuns();
  if (run === undefined) throw damagedRunFile("it has no run");
  if (run.latest === null) throw damagedRunFile("its run has no checkpoint");
  return run;
}

async function checkpointsOf(store: Store, run: RunSummary): Promise<readonly Checkpoint[]> {
  const all: Checkpoint[] = [];
  for await (const { sequence } of allCheckpoints(store, run.id))
    all.push(await store.getCheckpoint({ run: run.id, sequence }));
  return all;
}

async function findBefore(adapters: CoreAdapters, run: RunSummary, head: string): Promise<"none" | "whole"> {
  const { store } = adapters;
  if ((await store.getRun(run.id)) === undefined) {
    await rejectRolledBackStore(adapters, run.id);
    return "none";
  }
  for await (const { hash } of store.readJournal({ run: run.id, after: run.entries - 1, limit: 1 }))
    if (hash === head) return "whole";
  throw runExists(run.id);
}

/**
 * What a run file may say about files and branches. The engine hands these to git and pushes the branch: ids must be ids, every snapshot
 * must be one of the file's own refs, and a run that a workflow executes has one branch of its own.
 */
function checkFiles(params: {
  readonly run: RunSummary;
  readonly file: RunFile;
  readonly newest: Planes;
  readonly checkpoints: readonly Checkpoint[];
  readonly protect: readonly string[];
}): void {
  const { run, file, newest, checkpoints } = params;
  const refs = new Map(file.objects?.refs.map(({ ref, id }) => [ref, id]));
  const isExecuted = run.workflow !== "manual";
  const own = newest.files?.branch ?? null;
  for (const { sequence, planes } of checkpoints) {
    const { files, inputs } = planes;
    const name = `checkpoint ${sequence}`;
    if (inputs.base?.startsWith("-") === true) throw damagedRunFile(`the base of ${name} is not a commit or a branch`);
    if (files === null) continue;
    const ids = [files.tree, files.snapshot, files.head, files.index].filter((id) => id !== null);
    if (!ids.every((id) => OBJECT_ID.test(id)))
      throw damagedRunFile(`${name} names an object by something else than its id`);
    if (files.base?.startsWith("-") === true) throw damagedRunFile(`the base of ${name} is not a commit or a branch`);
    if (refs.get(files.ref) !== files.snapshot) throw damagedRunFile(`the files of ${name} are not among its refs`);
    if (files.branch !== null && !BRANCH.test(files.branch))
      throw damagedRunFile(`${JSON.stringify(files.branch)} is not a branch`);
    if (isExecuted && files.branch !== null && files.branch !== own)
      throw damagedRunFile(`${name} is on another branch than the run`);
  }
  const label = run.labels[WORKTREE];
  const inCheckout = label !== undefined && label !== NO_WORKTREE;
  if (isExecuted && inCheckout)
    throw refused(`Run ${run.id} works in a checkout of its user, not in a worktree of its own`);
  const short = own?.replace(/^refs\/heads\//, "") ?? "";
  if (isExecuted && [...ALWAYS_PROTECTED, ...params.protect].includes(short))
    throw refused(`Run ${run.id} works on the branch ${short}, which is not a run's own`);
}

const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
/** The characters that git refuses in a branch are refused here too. */
const BRANCH = /^refs\/heads\/(?!-)(?!.*(?:\.\.|@\{|\/\/|\.lock(?:\/|$)|\/\.|[/.]$))[^\p{Cc}\s~^:?*[\\]+$/u;
const ALWAYS_PROTECTED = ["main", "master"];

/**
 * The newest planes as this machine may use them. The worktree is one of this repository; what the user of the other machine had allowed
 * (all tools, overwriting commits of others) must be allowed here again; the agent's record goes back to the checkpoint.
 */
async function localPlanes(adapters: CoreAdapters, run: string, newest: Planes, sequence: number): Promise<Planes> {
  const { yolo: _allowed, ...position } = newest.position;
  const worktree = newWorktreePath(adapters, (await adapters.workspaces?.list()) ?? [], run);
  const ref = `refs/holdfast/${run}/${sequence}`;
  return {
    ...newest,
    position,
    files: newest.files === null ? null : { ...newest.files, worktree, ref },
    conversation: rewoundTo(newest.conversation, "restore"),
    extensions: withoutAccepted(newest.extensions),
  };
}

/**
 * Writes objects, then the run in one transaction, then refs and logs. Refs come after the run, because refs of an unknown run mean that
 * the store was cut. After a kill at any point, the same call completes it.
 */
export async function applyRunImport(
  adapters: CoreAdapters,
  planned: RunImport,
): Promise<{ readonly run: string; readonly changed: boolean }> {
  const { run, file, first, sequence } = planned;
  const { store, workspaces } = adapters;
  const { objects } = file;
  if (objects !== null && objects.refs.length > 0) await unpack(adapters, run, objects, planned.files);
  const result = await store.importRun({ stored: file.stored, label: "holdfast format import", first });
  const files = first.checkpoint?.planes.files ?? null;
  if (workspaces !== null && objects !== null) {
    const newest = files === null ? [] : [{ ref: files.ref, id: files.snapshot }];
    await workspaces.pinRun({
      run,
      refs: [...objects.refs.filter(({ ref }) => sequenceIn(ref) < sequence), ...newest],
    });
  }
  await writeLogs(adapters, run, file.logs);
  return { run, changed: result === "imported" };
}

async function unpack(
  adapters: CoreAdapters,
  run: string,
  packed: PackedObjects,
  files: RunImport["files"],
): Promise<void> {
  const { workspaces } = adapters;
  if (workspaces === null) {
    throw new HoldfastError({
      code: "NOT_A_REPOSITORY",
      message: `Run ${run} has files, and this is not a git repository`,
      hint: "Import it in a clone of the repository that it comes from.",
    });
  }
  await workspaces.unpackRun({ run, packed });
  for (const one of files)
    if (!(await workspaces.has(one))) throw damagedRunFile(`the files of ${one.ref} are not whole`);
}

/** Lines that are there are not written twice. */
async function writeLogs({ logs }: CoreAdapters, run: string, wanted: readonly RunFileLog[]): Promise<void> {
  const there = await logs.list(run);
  for (const { stageAttempt, step, lines } of wanted) {
    const file = there.find((one) => one.stageAttempt === stageAttempt && one.step === step);
    const known = file === undefined ? 0 : (await logs.read(file, 0)).lines.length;
    if (known >= lines.length) continue;
    const log = logs.open({ run, stageAttempt, step });
    for (const line of lines.slice(known)) log.append(line);
    await log.close();
  }
}

function refused(message: string): HoldfastError {
  const hint = "Nothing was imported. Only runs with a branch and a worktree of their own can move to another machine.";
  return new HoldfastError({ code: "UNSUPPORTED", message, hint });
}
