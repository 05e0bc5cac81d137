// Makes a worktree of a run usable before agents and gates work in it: runs the user's set-up commands if lockfiles, commands or Node
// differ from the last successful set-up there, or if something that it made is gone. Before that it copies the files that the user named.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileKind, readRegularFile, writeDurable } from "@holdfast/platform/files";
import { NO_WORKTREE, WORKTREE, type WorktreeSetup } from "./adapters.ts";
import { commandEnding, lastLines } from "./commands.ts";
import { copyIgnoredFiles } from "./copy-files.ts";
import { type TypeOf, dictionary, list, nullable, object, parseJsonAs, sha256, text } from "./json.ts";
import { emitNote } from "./run-session.ts";
import type { StageExecution } from "./step.ts";
import { startWaiting } from "./waiting.ts";
import type { Workspace } from "./workspace.ts";

const FACTS_SHAPE = object({
  commands: list(text),
  /** Digests by path. */
  lockfiles: dictionary(text),
  /** Version of Node, without the `v`. */
  node: text,
});
/** What a set-up depends on. */
export type SetupFacts = TypeOf<typeof FACTS_SHAPE>;

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

/** The differences, in the order in which a user would look for them. */
export function compareFacts(before: SetupFacts, now: SetupFacts): readonly string[] {
  const paths = [...new Set([...Object.keys(before.lockfiles), ...Object.keys(now.lockfiles)])].toSorted();
  const lockfiles = paths.flatMap((path) => {
    const [was, is] = [before.lockfiles[path], now.lockfiles[path]];
    if (was === is) return [];
    return [`${path} ${was === undefined ? "is new" : is === undefined ? "is gone" : "changed"}`];
  });
  return [
    ...lockfiles,
    ...(JSON.stringify(before.commands) === JSON.stringify(now.commands) ? [] : ["the set-up commands changed"]),
    ...(before.node === now.node ? [] : [`Node ${before.node} → ${now.node}`]),
  ];
}

/**
 * Sets the worktree up if it needs it. Agent calls and gates call this first, also in side worktrees. If a command fails, the run waits
 * for the user. A worktree of the user is left alone.
 */
export async function prepareWorktree(execution: StageExecution, workspace: Workspace | undefined): Promise<void> {
  const { runSession } = execution;
  const { worktreeSetup: setup } = runSession.adapters;
  if (setup === undefined || workspace === undefined || isUsers(execution, workspace)) return;
  execution.check();
  // Parallel calls share the worktree, and one set-up at a time is enough for the machine.
  const failure = await execution.busy(() => execution.inTurn(() => setUp(execution, workspace, setup)));
  if (failure !== null) await startWaiting(execution, { for: "you", reason: failure, until: null });
}

/** Whether the run works in a worktree that the user made, with the user's own dependencies in it. */
function isUsers({ runSession }: StageExecution, workspace: Workspace): boolean {
  const label = runSession.run.labels[WORKTREE];
  return label !== undefined && label !== NO_WORKTREE && workspace.root === runSession.workspace?.root;
}

const NO_RECORD: SetupRecord = { facts: null, before: [], made: [], copied: {}, reported: [] };

/** The reason for the user if a command failed; null: the worktree is ready. */
async function setUp(
  execution: StageExecution,
  workspace: Workspace,
  { commands, copy }: WorktreeSetup,
): Promise<string | null> {
  const file = join(workspace.privateDirectory, RECORD_FILE);
  const record = await copyFiles(execution, workspace, { copy, file, record: readRecord(file) });
  return await runCommands(execution, workspace, { commands, file, record });
}

interface RecordFile {
  readonly file: string;
  /** null: nothing was set up here before. */
  readonly record: SetupRecord | null;
}

async function copyFiles(
  { runSession }: StageExecution,
  workspace: Workspace,
  { copy, file, record }: RecordFile & { readonly copy: readonly string[] },
): Promise<SetupRecord | null> {
  if (copy.length === 0) return record;
  const { adapters } = runSession;
  const from = await adapters.projectRoot();
  if (from === workspace.root) return record;
  const { reported, copied: before } = record ?? NO_RECORD;
  const outputs = adapters.outputs(workspace.root);
  const { copied, written, problems } = await copyIgnoredFiles({ from, workspace, outputs, patterns: copy, before });
  if (written.length > 0) await emitNote(runSession, `Copied from ${from}: ${written.join(", ")}`);
  const news = problems.filter((problem) => !reported.includes(problem));
  for (const problem of news) await emitNote(runSession, problem);
  if (written.length === 0 && news.length === 0) return record;
  const next = { ...(record ?? { ...NO_RECORD, before: listEntries(workspace.root) }), copied, reported: problems };
  writeRecord(file, next);
  return next;
}

async function runCommands(
  execution: StageExecution,
  workspace: Workspace,
  { commands, file, record }: RecordFile & { readonly commands: readonly string[] },
): Promise<string | null> {
  const { runSession } = execution;
  const { root } = workspace;
  const missing = (record?.made ?? []).filter((path) => fileKind(join(root, path)) === "absent");
  const why = whySetUp({ record, facts: readFacts(root, commands), missing });
  if (why === null) return null;
  const earlier = new Set(record?.made);
  // What an unfinished set-up made half is in no list, so its own `before` still counts.
  const before = record?.facts === null ? record.before : listEntries(root).filter((path) => !earlier.has(path));
  const kept = { ...(record ?? NO_RECORD), before };
  // Without this record, a process that resumes after a kill would take half-made directories for the repository's own.
  writeRecord(file, { ...kept, facts: null });
  runSession.tell({ kind: "step_started", step: STEP, title: "setting up the worktree" });
  for (const command of commands) {
    const failure = await runCommand(execution, root, command);
    if (failure !== null) return failure;
  }
  const had = new Set(before);
  const made = listEntries(root).filter((path) => !had.has(path));
  const shown = await hideDependencies(execution, workspace, made);
  // A set-up may write its own lockfile, so the facts are read again.
  writeRecord(file, { ...kept, facts: readFacts(root, commands), made });
  const again = why.length === 0 ? "" : ` again (${why.join("; ")})`;
  await emitNote(runSession, `Set up the worktree${again}: ${commands.join(" && ")}`);
  if (shown.length > 0)
    await emitNote(
      runSession,
      `Set-up made ${shown.join(", ")}, which git does not ignore: commits of this run would contain it. Add it to .gitignore.`,
    );
  runSession.tell({ kind: "step_finished", step: STEP, replayed: false });
  return null;
}

const STEP = "set-up";
const RECORD_FILE = "set-up.json";
const TIMEOUT_MS = 30 * 60_000;

async function runCommand(execution: StageExecution, root: string, command: string): Promise<string | null> {
  const { runSession } = execution;
  const { adapters, run, attempt, halt } = runSession;
  const log = adapters.logs.open({ run: run.id, stageAttempt: attempt.number, step: STEP });
  log.append(`$ ${command}`);
  const result = await adapters.commands.run({
    command,
    cwd: root,
    mark: execution.mark + STEP,
    timeoutMs: TIMEOUT_MS,
    signal: halt.signal,
    onLine: (line) => log.append(line),
    unrecorded: true,
  });
  await log.close();
  // An interrupted command has not failed: the next process runs it again.
  halt.check();
  if (result.kind === "exited" && result.code === 0) return null;
  const reason = `Set-up of the worktree ${commandEnding(result)}: ${command}`;
  await emitNote(runSession, reason, lastLines(result.output));
  return `${reason}. Whole output: holdfast output ${run.id} --step ${STEP}. The command is workspace.setup in the config`;
}

/** Directories of dependencies that no commit should contain. */
const DEPENDENCIES: ReadonlySet<string> = new Set(["node_modules", ".venv"]);

/** Hides directories of dependencies that git does not ignore; returns the other paths that it does not ignore. */
async function hideDependencies(
  { runSession }: StageExecution,
  workspace: Workspace,
  made: readonly string[],
): Promise<readonly string[]> {
  const shown = await workspace.notIgnored(made);
  const isHidden = (path: string): boolean =>
    DEPENDENCIES.has(path.split("/").at(-1) ?? "") && fileKind(join(workspace.root, path)) === "directory";
  const outputs = runSession.adapters.outputs(workspace.root);
  for (const path of shown.filter(isHidden)) await outputs.hide(path);
  return shown.filter((path) => !isHidden(path));
}

export function readFacts(root: string, commands: readonly string[]): SetupFacts {
  const paths = folders(root).flatMap((folder) => {
    const isThere = (name: string): boolean => fileKind(join(root, folder, name)) === "file";
    const found = LOCKFILES.filter(isThere);
    // Without a lockfile here or at the root, the manifest is all that names the dependencies.
    const isLocked = (lock: string): boolean => found.includes(lock) || fileKind(join(root, lock)) === "file";
    const manifests = MANIFESTS.filter(({ name, locks }) => isThere(name) && !locks.some(isLocked));
    return [...found, ...manifests.map(({ name }) => name)].map((name) => join(folder, name));
  });
  const digests = paths.flatMap((path) => {
    const file = readRegularFile({ path: join(root, path), maxBytes: MAX_LOCKFILE_BYTES });
    return file.kind === "read" ? [[path, sha256(file.bytes).slice(0, 16)] as const] : [];
  });
  return { commands, lockfiles: Object.fromEntries(digests), node: process.versions.node };
}

const JS_LOCKS = ["package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"];
const PYTHON_LOCKS = ["uv.lock", "poetry.lock", "Pipfile.lock", "requirements.txt"];
const LOCKFILES: readonly string[] = [
  ...JS_LOCKS,
  ...PYTHON_LOCKS,
  ".gitmodules",
  "Cargo.lock",
  "go.sum",
  "Gemfile.lock",
  "composer.lock",
];
const MANIFESTS: readonly { readonly name: string; readonly locks: readonly string[] }[] = [
  { name: "package.json", locks: JS_LOCKS },
  { name: "pyproject.toml", locks: PYTHON_LOCKS },
  { name: "Cargo.toml", locks: ["Cargo.lock"] },
  { name: "go.mod", locks: ["go.sum"] },
];
const MAX_LOCKFILE_BYTES = 64 * 1024 * 1024;

/** The root ("") and the folders down to two levels below it: where a repository with several packages has its lockfiles. */
function folders(root: string): readonly string[] {
  const found = [""];
  for (let at = 0; at < found.length && found.length < MAX_FOLDERS; at += 1) {
    const folder = found[at] ?? "";
    if (folder.split("/").length === 2) continue;
    found.push(...subfolders(root, folder));
  }
  return found.slice(0, MAX_FOLDERS);
}

const MAX_FOLDERS = 500;

function subfolders(root: string, folder: string): readonly string[] {
  return entriesOf(root, folder)
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith(".") && !SKIPPED.has(entry.name))
    .map(({ name }) => join(folder, name))
    .toSorted();
}

const SKIPPED: ReadonlySet<string> = new Set(["node_modules", "vendor", "target", "venv", "dist", "build"]);

/** Everything at the root and beside a lockfile or manifest. */
function listEntries(root: string): readonly string[] {
  const named = folders(root).filter(
    (folder) => folder === "" || LOCK_OR_MANIFEST.some((name) => fileKind(join(root, folder, name)) === "file"),
  );
  return named.flatMap((folder) => entriesOf(root, folder).map(({ name }) => join(folder, name))).toSorted();
}

const LOCK_OR_MANIFEST = [...LOCKFILES, ...MANIFESTS.map(({ name }) => name)];

function entriesOf(root: string, folder: string): readonly { readonly name: string; isDirectory(): boolean }[] {
  try {
    return readdirSync(join(root, folder), { withFileTypes: true });
  } catch {
    // The folder went away, or cannot be read: it holds nothing that can be compared.
    return [];
  }
}

/** A record that cannot be read counts as none: the set-up runs once more. */
function readRecord(path: string): SetupRecord | null {
  const file = readRegularFile({ path, maxBytes: MAX_LOCKFILE_BYTES });
  return file.kind === "read" ? (parseJsonAs(RECORD_SHAPE, file.bytes.toString("utf8")) ?? null) : null;
}

function writeRecord(path: string, record: SetupRecord): void {
  writeDurable({ path, data: Buffer.from(JSON.stringify(record)), mode: "replace" });
}
