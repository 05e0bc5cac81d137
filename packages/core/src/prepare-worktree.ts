// Makes a worktree of a run usable before agents and gates work in it: runs the user's set-up commands if lockfiles, commands or Node
// differ from the last successful set-up there, or if something that it made is gone. Before that it copies the files that the user named.

import { join } from "node:path";
import { fileKind, readRegularFile, writeDurable } from "@holdfast/platform/files";
import {
  type Adapters,
  NO_WORKTREE,
  WORKTREE,
  type WorktreeSetup,
  currentPrograms,
  runMark,
  snapshotParams,
} from "./adapters.ts";
import { type Checkpoint, type FilesPlane, type Planes, RESUMED } from "./checkpoint.ts";
import { commandEnding, lastLines } from "./commands.ts";
import { copyIgnoredFiles } from "./copy-files.ts";
import { type TypeOf, count, dictionary, list, nullable, object, optional, parseJsonAs, text } from "./json.ts";
import type { Lease } from "./lease.ts";
import { describeChanged, keepBranch, restoreRunFiles, switchBack } from "./restore-files.ts";
import type { Run } from "./run.ts";
import { type RunSession, emitNote } from "./run-session.ts";
import type { StageExecution } from "./step.ts";
import { FACTS_SHAPE, type SetupFacts, compareFacts, listEntries, readFacts } from "./toolchain.ts";
import { startWaiting } from "./waiting.ts";
import type { Workspace } from "./workspace.ts";

const RECORD_SHAPE = object({
  /** null: a set-up began and did not succeed. */
  facts: nullable(FACTS_SHAPE),
  /** Paths that existed before the set-up and that no set-up had made. */
  before: list(text),
  /** Paths that set-ups made. */
  made: list(text),
  /** Digests of the files that were copied. */
  copied: dictionary(text),
  /** Problems with files to copy that the user knows of. */
  reported: list(text),
  /** The checkpoint whose files a set-up began with that has not ended; null: none, or the files were others. */
  began: optional(nullable(count)),
});
/** The record of the last set-up, in the git directory of its worktree: it disappears with the worktree. */
type SetupRecord = TypeOf<typeof RECORD_SHAPE>;

/** Why a set-up must run, in a few words each; empty: it has not succeeded here before. null: it need not run. */
export function whySetUp(params: {
  readonly record: Pick<SetupRecord, "facts"> | null;
  readonly facts: SetupFacts;
  /** Paths that an earlier set-up made and that are gone. */
  readonly missing: readonly string[];
}): readonly string[] | null {
  const { record, facts, missing } = params;
  if (facts.commands.length === 0) return null;
  if (record === null || record.facts === null) return [];
  const reasons = [...compareFacts(record.facts, facts), ...missing.map((path) => `${path} is missing`)];
  return reasons.length === 0 ? null : reasons;
}

/**
 * Sets the worktree up if it needs it. Agent calls and gates call this first, also in side worktrees. If a command fails, the run waits
 * for the user. A worktree of the user is left alone.
 */
export async function prepareWorktree(execution: StageExecution, workspace: Workspace | undefined): Promise<void> {
  const { runSession, mark } = execution;
  const { adapters, run, attempt, halt } = runSession;
  const { worktreeSetup: setup } = adapters;
  if (workspace === undefined) return;
  const isOwn = workspace.root === runSession.workspace?.root;
  if (setup !== undefined && !(isOwn && isUsers(run))) {
    execution.check();
    const host: SetupHost = {
      adapters,
      run: run.id,
      stageAttempt: attempt.number,
      mark: mark + STEP,
      signal: halt.signal,
      check: () => halt.check(),
      note: (text, output) => emitNote(runSession, text, output),
      emit: (event) => runSession.emit(event),
      own: !isOwn ? null : { sequence: runSession.state.sequence, files: runSession.state.files },
      keepBranch: () => keepBranch(runSession, STEP, runSession.state.files),
      async putBack(to) {
        const why = "what set-up left half-done";
        await restoreRunFiles(runSession, { to, trigger: "error_recovery", why, finish: () => [] });
        return "The files are put back";
      },
    };
    // Parallel calls share the worktree, and one set-up at a time is enough for the machine.
    const failure = await execution.busy(() => execution.inTurn(() => setUp(host, workspace, setup)));
    if (failure !== null) await startWaiting(execution, { for: "you", reason: failure, until: null });
  }
  if (isOwn) {
    const { lockfiles } = readFacts(workspace.root, []);
    runSession.toolchain = { ...currentPrograms(adapters, runSession.toolchain), lockfiles };
  }
}

/** Whether the run works in a worktree that the user made, with the user's own dependencies in it. */
function isUsers({ labels }: Pick<Run, "labels">): boolean {
  const label = labels[WORKTREE];
  return label !== undefined && label !== NO_WORKTREE;
}

/** Whether the worktree was set up, or was when these planes were saved. A worktree of the user never is. */
export function isSetUp(workspace: Workspace, { toolchain }: Planes): boolean {
  return (toolchain?.setup ?? null) !== null || readRecord(recordFile(workspace)) !== null;
}

/** null: no set-up was needed. */
export type SetupOutcome = { readonly kind: "done" | "failed"; readonly text: string } | null;

/**
 * Sets the run's worktree up after a restore, if what the set-up depends on differs now. The caller holds the lease. After a kill, or if a
 * command fails, the next agent call or gate of the run repeats the set-up.
 */
export async function setUpRestored(params: {
  readonly adapters: Adapters;
  readonly run: Run;
  readonly lease: Lease;
  readonly workspace: Workspace;
  /** The newest checkpoint. */
  readonly saved: Checkpoint;
  readonly signal: AbortSignal;
  readonly listen: (note: { readonly text: string; readonly output?: readonly string[] }) => void;
}): Promise<SetupOutcome> {
  const { adapters, run, lease, workspace, saved, signal, listen } = params;
  const { worktreeSetup: setup } = adapters;
  if (setup === undefined || isUsers(run)) return null;
  const { number } = saved.planes.position.stageAttempt;
  const notes: string[] = [];
  const failure = await setUp(
    {
      adapters,
      run: run.id,
      stageAttempt: number,
      mark: `${runMark(adapters, run.id)}/${number}/${STEP}`,
      signal,
      check: () => signal.throwIfAborted(),
      async note(text, output) {
        const body = output === undefined ? { text } : { text, output };
        await adapters.store.commit({ lease, entries: [{ kind: "note", body }] });
        notes.push(text);
        if (output !== undefined) listen(body);
      },
      emit: (event) => {
        if (event.kind === "step_started") listen({ text: `Setting up the worktree: ${setup.commands.join(" && ")}` });
      },
      own: { sequence: saved.sequence, files: saved.planes.files },
      keepBranch: async () => {
        const note = await switchBack(workspace, STEP, saved.planes.files);
        if (note !== null) listen({ text: note });
      },
      putBack: () => Promise.resolve("Restore again to put the files back"),
    },
    workspace,
    setup,
  );
  if (failure !== null) return { kind: "failed", text: failure };
  return notes.length === 0 ? null : { kind: "done", text: notes.join(". ") };
}

/** What a set-up needs of the process that runs it. */
interface SetupHost {
  readonly adapters: Adapters;
  readonly run: string;
  readonly stageAttempt: number;
  /** Mark of the processes that it starts. */
  readonly mark: string;
  readonly signal: AbortSignal;
  /** Throws if the work is to stop. */
  check(): void;
  note(text: string, output?: readonly string[]): Promise<void>;
  emit(event: Parameters<RunSession["emit"]>[0]): void;
  /** The newest checkpoint of the run; null: the worktree is a side worktree, which is recreated instead of repaired. */
  readonly own: { readonly sequence: number; readonly files: FilesPlane | null } | null;
  /** Makes the worktree refer to its repository and to the run's branch again, and reports it. */
  keepBranch(): Promise<void>;
  /** Saves the files, and puts those of a checkpoint back. Returns what to tell the user. */
  putBack(checkpoint: number): Promise<string>;
}

const NO_RECORD: SetupRecord = { facts: null, before: [], made: [], copied: {}, reported: [], began: null };

/** The reason for the user if a command failed; null: the worktree is ready. */
async function setUp(host: SetupHost, workspace: Workspace, { commands, copy }: WorktreeSetup): Promise<string | null> {
  const file = recordFile(workspace);
  const record = await copyFiles(host, workspace, { copy, file, record: readRecord(file) });
  return await runCommands(host, workspace, { commands, file, record });
}

interface RecordFile {
  readonly file: string;
  /** null: nothing was set up here before. */
  readonly record: SetupRecord | null;
}

async function copyFiles(
  { adapters, note }: SetupHost,
  workspace: Workspace,
  { copy, file, record }: RecordFile & { readonly copy: readonly string[] },
): Promise<SetupRecord | null> {
  if (copy.length === 0) return record;
  const from = await adapters.projectRoot();
  if (from === workspace.root) return record;
  const { reported, copied: before } = record ?? NO_RECORD;
  const outputs = adapters.outputs(workspace.root);
  const { copied, written, problems } = await copyIgnoredFiles({ from, workspace, outputs, patterns: copy, before });
  if (written.length > 0) await note(`Copied from ${from}: ${written.join(", ")}`);
  const unreported = problems.filter((problem) => !reported.includes(problem));
  for (const problem of unreported) await note(problem);
  if (written.length === 0 && unreported.length === 0) return record;
  const next = { ...(record ?? { ...NO_RECORD, before: listEntries(workspace.root) }), copied, reported: problems };
  writeRecord(file, next);
  return next;
}

async function runCommands(
  host: SetupHost,
  workspace: Workspace,
  { commands, file, record }: RecordFile & { readonly commands: readonly string[] },
): Promise<string | null> {
  const { root } = workspace;
  const missing = (record?.made ?? []).filter((path) => fileKind(join(root, path)) === "absent");
  const why = whySetUp({ record, facts: readFacts(root, commands), missing });
  if (why === null) return null;
  const earlier = new Set(record?.made);
  // What an unfinished set-up made half is in no list, so its own `before` still counts.
  const before = record?.facts === null ? record.before : listEntries(root).filter((path) => !earlier.has(path));
  const kept = { ...(record ?? NO_RECORD), before, began: null };
  // Without this record, a process that resumes after a kill would take half-made directories for the repository's own.
  const began = await checkpointOf(host, workspace);
  writeRecord(file, { ...kept, facts: null, began });
  host.emit({ kind: "step_started", step: STEP, title: "setting up the worktree" });
  const untouched = await trackedChanges(host, root);
  let failure: string | null = null;
  for (const command of commands) failure ??= await runCommand(host, root, command);
  if (host.own !== null) await host.keepBranch();
  const changes = await trackedChanges(host, root);
  const changed = [...new Set([...changes, ...untouched].map(([path]) => path))].filter(
    (path) => changes.get(path) !== untouched.get(path),
  );
  const deleted = changed.filter((path) => changes.get(path) === null);
  if (deleted.length > 0) failure ??= `Set-up of the worktree deleted ${describeChanged(deleted)}, which git tracks`;
  if (failure !== null) {
    const back = deleted.length > 0 && began !== null ? `. ${await host.putBack(began)}` : "";
    if (back === "" && changed.length > 0) await host.note(changedText(changed));
    // From now on the user may edit the files to repair the set-up.
    writeRecord(file, { ...kept, facts: null });
    return `${failure}${back}. Whole output: holdfast output ${host.run} --step ${STEP}. The command is workspace.setup in the config`;
  }
  const had = new Set(before);
  const made = listEntries(root).filter((path) => !had.has(path));
  const shown = await hideDependencies(host, workspace, made);
  // A set-up may write its own lockfile, so the facts are read again.
  writeRecord(file, { ...kept, facts: readFacts(root, commands), made });
  const again = why.length === 0 ? "" : ` again (${why.join("; ")})`;
  await host.note(`Set up the worktree${again}: ${commands.join(" && ")}`);
  if (changed.length > 0) await host.note(changedText(changed));
  if (shown.length > 0)
    await host.note(
      `Set-up made ${shown.join(", ")}, which git does not ignore: commits of this run would contain it. Add it to .gitignore.`,
    );
  host.emit({ kind: "step_finished", step: STEP, replayed: false });
  return null;
}

function changedText(changed: readonly string[]): string {
  return `Set-up changed ${describeChanged(changed)}, which git tracks: commits of this run would contain that. Use commands that only install, such as npm ci.`;
}

/** The newest checkpoint, if it holds the files as they are now. */
async function checkpointOf({ adapters, own }: SetupHost, workspace: Workspace): Promise<number | null> {
  if (own === null || own.files === null) return null;
  const { tree } = await workspace.look(snapshotParams(adapters));
  return tree === own.files.tree ? own.sequence : null;
}

/**
 * The checkpoint with the files before a set-up that was killed; null: no set-up was, or something changed the files since. A resume may
 * have taken a checkpoint before it came here.
 */
export function filesBeforeSetup(
  workspace: Pick<Workspace, "privateDirectory">,
  { sequence, trigger, name }: Pick<Checkpoint, "sequence" | "trigger" | "name">,
): number | null {
  const record = readRecord(recordFile(workspace));
  const began = record?.facts === null ? (record.began ?? null) : null;
  const isResumed = trigger === "automatic" && name === RESUMED && began === sequence - 1;
  return began === sequence || isResumed ? began : null;
}

/** Files that git tracks and that differ from HEAD, with what they are now. Only for a report: empty if HEAD is detached, as in side worktrees. */
async function trackedChanges({ adapters }: SetupHost, root: string): Promise<ReadonlyMap<string, string | null>> {
  const branch = await adapters.branches.of(root).catch(() => null);
  if (branch === null) return new Map();
  const files = await branch.changedSince({ from: await branch.head(), exclude: [] });
  return new Map(files.flatMap(({ path, status, digest }) => (status === "added" ? [] : [[path, digest] as const])));
}

const STEP = "set-up";
const TIMEOUT_MS = 30 * 60_000;

async function runCommand(host: SetupHost, root: string, command: string): Promise<string | null> {
  const { adapters, run, stageAttempt, mark, signal } = host;
  const log = adapters.logs.open({ run, stageAttempt, step: STEP });
  log.append(`$ ${command}`);
  const result = await adapters.commands.run({
    command,
    cwd: root,
    mark,
    timeoutMs: TIMEOUT_MS,
    signal,
    onLine: (line) => log.append(line),
    unrecorded: true,
  });
  await log.close();
  // An interrupted command has not failed: the next process runs it again.
  host.check();
  if (result.kind === "exited" && result.code === 0) return null;
  const reason = `Set-up of the worktree ${commandEnding(result)}: ${command}`;
  await host.note(reason, lastLines(result.output));
  return reason;
}

/** Directories of dependencies that no commit should contain. */
const DEPENDENCIES: ReadonlySet<string> = new Set(["node_modules", ".venv"]);

/**
 * Hides directories of dependencies that git does not ignore, and links to them: the rule `node_modules/` matches no
 * link. Returns the other paths that git does not ignore.
 */
async function hideDependencies(
  { adapters }: SetupHost,
  workspace: Workspace,
  made: readonly string[],
): Promise<readonly string[]> {
  const shown = await workspace.notIgnored(made);
  const dependencies = shown.filter((path) => DEPENDENCIES.has(path.split("/").at(-1) ?? ""));
  const ofKind = (kind: "directory" | "other"): readonly string[] =>
    dependencies.filter((path) => fileKind(join(workspace.root, path)) === kind);
  const [directories, links] = [ofKind("directory"), ofKind("other")];
  const outputs = adapters.outputs(workspace.root);
  for (const path of directories) await outputs.hide(path);
  await workspace.keepOut(links);
  return shown.filter((path) => !directories.includes(path) && !links.includes(path));
}

const MAX_RECORD_BYTES = 16 * 1024 * 1024;

function recordFile({ privateDirectory }: Pick<Workspace, "privateDirectory">): string {
  return join(privateDirectory, "set-up.json");
}

/** What earlier set-ups left in a worktree: the paths that they made, and the digests of the files that were copied. */
export function readSetupTraces(workspace: Pick<Workspace, "privateDirectory">): Pick<SetupRecord, "made" | "copied"> {
  return readRecord(recordFile(workspace)) ?? NO_RECORD;
}

/** A record that cannot be read counts as none: the set-up runs once more. */
function readRecord(path: string): SetupRecord | null {
  const file = readRegularFile({ path, maxBytes: MAX_RECORD_BYTES });
  return file.kind === "read" ? (parseJsonAs(RECORD_SHAPE, file.bytes.toString("utf8")) ?? null) : null;
}

function writeRecord(path: string, record: SetupRecord): void {
  writeDurable({ path, data: Buffer.from(JSON.stringify(record)), mode: "replace" });
}
