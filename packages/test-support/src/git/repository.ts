// Real git repositories in temporary folders for tests, and checks that Holdfast leaves the user's state unchanged.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import type { FilesPlane } from "@holdfast/core/checkpoint";
import type { Branch } from "@holdfast/core/branch";
import type { RestoreResult, SnapshotParams, Workspace, Workspaces } from "@holdfast/core/workspace";
import { createGitBranches } from "@holdfast/git/branches";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { scratchDirectory } from "../scratch-directory.ts";

/** A real repository in a temporary folder, for suites of any code that uses git. */
export interface TestRepository {
  readonly root: string;
  /** Plain git as a user would run it, with its own home directory. Returns its output. */
  git(...args: readonly string[]): string;
  write(path: string, content: string | Uint8Array): void;
  read(path: string): string;
  remove(path: string): void;
  path(path: string): string;
  dispose(): void;
}

export function createTestRepository(options: { readonly init?: readonly string[] } = {}): TestRepository {
  const base = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-workspace-")));
  const root = join(base, "repo");
  mkdirSync(root);
  const repository = testRepositoryAt(root, () => rmSync(base, { recursive: true, force: true }));
  repository.git("init", "-q", "-b", "main", ...(options.init ?? []));
  return repository;
}

export function testRepositoryAt(root: string, dispose: () => void = () => undefined): TestRepository {
  const path = (name: string): string => join(root, name);
  return {
    root,
    git: (...args) =>
      execFileSync("git", [...IDENTITY, ...args], {
        cwd: root,
        env: userEnvironment(root),
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      }),
    write(name, content) {
      mkdirSync(dirname(path(name)), { recursive: true });
      writeFileSync(path(name), content);
    },
    read: (name) => readFileSync(path(name), "utf8"),
    remove: (name) => rmSync(path(name), { recursive: true }),
    path,
    dispose,
  };
}

/**
 * Everything of the user's that Holdfast promises not to touch, as one value: index bytes, HEAD, refs outside refs/holdfast/, reflogs,
 * stash, config, hooks, info files, locks. It must be equal before and after.
 */
export function userState(gitDir: string): Readonly<Record<string, string>> {
  const state: Record<string, string> = {};
  const stageAttempt = (folder: string, name: string): void => {
    for (const entry of readdirSync(join(folder, name), { withFileTypes: true })) {
      const path = join(name, entry.name);
      if (OURS.some((own) => path === own || path.startsWith(`${own}/`)) || isWorktreeOfOurs(folder, path)) continue;
      if (entry.isDirectory()) stageAttempt(folder, path);
      else state[path] = fingerprint(join(folder, path));
    }
  };
  stageAttempt(gitDir, "");
  return state;
}

/** Every file below a folder with type, permissions and content; `.git` is left out. */
export function readWorktree(root: string): Readonly<Record<string, string>> {
  const state: Record<string, string> = {};
  const stageAttempt = (folder: Buffer, name: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true, encoding: "buffer" })) {
      const raw = entry.name.toString("latin1");
      if (raw === ".git") continue;
      const path = Buffer.concat([folder, Buffer.from("/"), entry.name]);
      const label = name === "" ? raw : `${name}/${raw}`;
      if (entry.isDirectory()) stageAttempt(path, label);
      else state[label] = fingerprint(path);
    }
  };
  stageAttempt(Buffer.from(root), "");
  return state;
}

const IDENTITY = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "protocol.file.allow=always"];
const OURS = ["objects", "refs/holdfast", "logs/refs/holdfast", "holdfast-workspace", "holdfast-run"];

function isWorktreeOfOurs(gitDir: string, path: string): boolean {
  return /^worktrees\/[^/]+\/(?:holdfast-[^/]+)$/.test(path) || existsSync(join(gitDir, path, "holdfast-run"));
}

function fingerprint(path: string | Buffer): string {
  const stat = lstatSync(path);
  if (stat.isSymbolicLink()) return `link ${readlinkSync(path, { encoding: "buffer" }).toString("latin1")}`;
  if (!stat.isFile()) return "special";
  return `${(stat.mode & 0o777).toString(8)} ${createHash("sha256").update(readFileSync(path)).digest("hex")}`;
}

function userEnvironment(root: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  return {
    ...Object.fromEntries(kept),
    HOME: dirname(root),
    XDG_CONFIG_HOME: join(dirname(root), "config"),
    GIT_CONFIG_NOSYSTEM: "1",
  };
}

interface StartedWorkspace extends WorkspaceSession {
  readonly repo: TestRepository;
}

/** An empty repository that is removed when the test ends. */
export function startRepository(init: readonly string[] = []): TestRepository {
  const repository = createTestRepository({ init });
  onTestFinished(() => repository.dispose());
  return repository;
}

const FILES = { "a.txt": "one\n", "dir/b.txt": "two\n" };

export function startCommitted(files: Readonly<Record<string, string>> = FILES): TestRepository {
  const repository = startRepository();
  for (const [name, content] of Object.entries(files)) repository.write(name, content);
  repository.git("add", "-A");
  repository.git("commit", "-qm", "first", "--allow-empty");
  return repository;
}

export async function startSession(repository: TestRepository): Promise<WorkspaceSession> {
  return openWorkspaceSession({ repository, open: openGitWorkspaces });
}

/** A repository with one commit of these files, and a session on it. */
export async function startWorkspace(files?: Readonly<Record<string, string>>): Promise<StartedWorkspace> {
  const repo = startCommitted(files);
  return { ...(await startSession(repo)), repo };
}

/** One workspace under test. Every action is checked to leave the user's state unchanged, byte for byte. */
export interface WorkspaceSession {
  readonly workspaces: Workspaces;
  readonly workspace: Workspace;
  snapshot(params?: Partial<SnapshotParams>): Promise<FilesPlane>;
  /** Takes a snapshot, plans and applies. Returns the snapshot from before, which undoes the restore. */
  restore(to: FilesPlane, paths?: readonly string[]): Promise<RestoreResult & { readonly undo: FilesPlane }>;
  /** Fails when anything of the user's differs after `act`. */
  guard<T>(act: () => Promise<T>): Promise<T>;
}

export async function openWorkspaceSession(params: {
  readonly repository: TestRepository;
  readonly open: (path: string) => Promise<Workspaces>;
  readonly run?: string;
  readonly gitDir?: string;
}): Promise<WorkspaceSession> {
  const { repository, open, run = "test-run" } = params;
  const gitDir = params.gitDir ?? join(repository.root, ".git");
  const workspaces = await open(repository.root);
  const workspace = await workspaces.open(repository.root);
  let sequence = 0;

  const guard = async <T>(act: () => Promise<T>): Promise<T> => {
    const before = userState(gitDir);
    const [outcome] = await Promise.allSettled([act()]);
    const after = userState(gitDir);
    const names = [...Object.keys(before), ...Object.keys(after)].filter((name) => before[name] !== after[name]);
    if (names.length > 0) throw new Error(`touched in ${gitDir}: ${[...new Set(names)].join(", ")}`);
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  };
  const snapshot = (extra: Partial<SnapshotParams> = {}): Promise<FilesPlane> =>
    guard(() =>
      workspace.snapshot({ run, sequence: ++sequence, message: "test", at: "2026-01-02T03:04:05Z", ...extra }),
    );
  return {
    workspaces,
    workspace,
    guard,
    snapshot,
    async restore(to, paths) {
      const undo = await snapshot();
      const plan = await guard(() =>
        workspace.planRestore({ from: undo, to, ...(paths === undefined ? {} : { paths }) }),
      );
      return { ...(await guard(() => workspace.applyRestore(plan))), undo };
    },
  };
}

/** Mode and path of everything in a snapshot. */
export function listTree(repo: TestRepository, plane: FilesPlane): string[] {
  const lines = repo.git("-c", "core.quotePath=false", "ls-tree", "-r", plane.tree).trim().split("\n");
  return lines.filter((line) => line !== "").map((line) => line.replace(/^(\d+) \w+ \w+\t/, "$1 "));
}

export function contentOf(repo: TestRepository, plane: FilesPlane, path: string): string {
  return repo.git("show", `${plane.tree}:${path}`);
}

/** A user's repository, its bare remote, and a run's worktree with its branch: all real, all in one folder. */
export interface BranchScene {
  readonly user: TestRepository;
  readonly tree: TestRepository;
  readonly bare: TestRepository;
  readonly branch: Branch;
  /** Moves main on the remote, as another user would. */
  moveBase(files: Readonly<Record<string, string>>): string;
  /** Opens the branch as a resumed process would. */
  reopen(options?: { readonly remote?: string }): Promise<Branch>;
  tip(): string;
  dispose(): void;
}

export async function createBranchScene(
  files: Readonly<Record<string, string>> = { "a.txt": "one\n", "b.txt": "b\n", ".gitignore": "*.log\n" },
): Promise<BranchScene> {
  const user = createTestRepository();
  for (const [path, text] of Object.entries(files)) user.write(path, text);
  user.git("config", "user.name", "Ada");
  user.git("config", "user.email", "ada@example.invalid");
  user.git("add", "-A");
  user.git("commit", "-qm", "first");
  const bareRoot = join(user.root, "..", "bare.git");
  user.git("clone", "-q", "--bare", ".", bareRoot);
  user.git("remote", "add", "origin", bareRoot);
  const workspaces = await openGitWorkspaces(user.root);
  const { root } = await workspaces.create({ run: "issue-42" });
  const tree = testRepositoryAt(root);
  const bare = testRepositoryAt(bareRoot);
  const reopen = (options = {}): Promise<Branch> => createGitBranches(options).of(root);
  return {
    user,
    tree,
    bare,
    branch: await reopen(),
    moveBase(changes) {
      for (const [path, text] of Object.entries(changes)) user.write(path, text);
      user.git("add", "-A");
      user.git("commit", "-qm", "base moved");
      user.git("push", "-q", "origin", "main");
      return user.git("rev-parse", "HEAD").trim();
    },
    reopen,
    tip: () => tree.git("rev-parse", "refs/heads/holdfast/issue-42").trim(),
    dispose: () => user.dispose(),
  };
}

/** For the rest of the test, records every git process that this process or a child starts, and runs it as usual. */
export function countGit(options: { readonly version?: string } = {}): { readonly calls: () => readonly string[] } {
  const path = process.env["PATH"] ?? "";
  const bin = join(scratchDirectory(onTestFinished), "bin");
  const log = join(bin, "log");
  mkdirSync(bin);
  const lines = [
    "#!/bin/sh",
    `echo "$*" >> '${log}'`,
    ...(options.version === undefined
      ? []
      : [`if [ "$*" = --version ]; then echo git version ${options.version}; exit; fi`]),
    `PATH='${path}' exec git "$@"`,
  ];
  writeFileSync(join(bin, "git"), `${lines.join("\n")}\n`, { mode: 0o755 });
  process.env["PATH"] = `${bin}${delimiter}${path}`;
  onTestFinished(() => void (process.env["PATH"] = path));
  return { calls: () => (existsSync(log) ? readFileSync(log, "utf8").trimEnd().split("\n") : []) };
}
