// The local forge: issues, pull requests, checks and merges on a repository of this machine, without a server.

import { spawn } from "node:child_process";
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseYaml } from "@holdfast/platform/yaml";
import * as z from "zod/mini";
import { commandVariables, namedInEnvironment } from "@holdfast/core/agent-environment";
import type { CheckRun, Checks, Forge } from "@holdfast/core/forge";
import { type Clock, systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { gitError } from "@holdfast/platform/git-command";
import { type ProcessIdentity, canSignal, livenessOf, processIdentity } from "@holdfast/platform/identity";
import { subjectNumber } from "./body-text.ts";
import { combineChecks, requireCommit } from "./checks.ts";
import { createIssue, findIssue, readIssue, setLabels } from "./local-issues.ts";
import {
  addComment,
  closePull,
  createPull,
  deleteComment,
  findComment,
  readIssueComments,
  findPull,
  getPull,
  mergePull,
  readReviews,
  setPullLabels,
  updatePull,
} from "./local-pulls.ts";
import {
  type LocalRepository,
  applyChange,
  corruptFile,
  localForgeDirectory,
  openLocalRepository,
  parseFields,
  parseJson,
  readBranches,
  readForgeFile,
  withForgeLock,
} from "./local-repository.ts";

export interface LocalForgeOptions {
  /** A bare repository, or any other on this machine. */
  readonly repository: string;
  /** The directory for issues and pull requests; `holdfast-forge` inside the repository by default. */
  readonly directory?: string;
  readonly clock?: Clock;
  /** Milliseconds that `checks` waits for a CI command before it returns "pending". */
  readonly ciWaitMs?: number;
}

/**
 * Issues, pull requests, checks and merges on a plain repository and files, without a server or an account. A missing
 * repository (an unmounted drive) fails like an unreachable forge and may come back.
 */
export function openLocalForge(options: LocalForgeOptions): Forge {
  const { repository, directory, clock = systemClock, ciWaitMs = 5000 } = options;
  const at = async <T>(work: (local: LocalRepository) => T | Promise<T>): Promise<T> => {
    const local = openLocalRepository({ repository, directory, clock });
    return await wrapForgeErrors(local, () => work(local));
  };
  const forge: Forge = {
    name: "local",
    location: localForgeDirectory({ repository, directory }),
    // Every change is made in this process and ends with it.
    lateMs: 0,
    marked: () => forge,
    getIssue: (number) => at((local) => readIssue(local, number)),
    issueComments: (number) => at((local) => readIssueComments(local, number)),
    createIssue: (issue) => at((local) => createIssue(local, issue)),
    findIssue: (key) => at((local) => findIssue(local, key)),
    setLabels: (on, labels) =>
      at((local) =>
        typeof on === "number" ? setLabels(local, on, labels) : setPullLabels(local, on.pullRequest, labels),
      ),
    findComment: (on, key) => at((local) => findComment(local, subjectNumber(on), key)),
    comment: (on, comment) => at((local) => addComment(local, subjectNumber(on), comment)),
    deleteComment: (on, key) => at((local) => deleteComment(local, subjectNumber(on), key)),
    defaultBranch: () => at((local) => findDefaultBranch(local)),
    findPullRequest: (head) => at((local) => findPull(local, head)),
    getPullRequest: (number) => at((local) => getPull(local, number)),
    createPullRequest: (request) => at((local) => createPull(local, request)),
    updatePullRequest: (number, change) => at((local) => updatePull(local, number, change)),
    closePullRequest: (number) => at((local) => closePull(local, number)),
    mergePullRequest: (number, params) => at((local) => mergePull(local, number, params)),
    checks: (commit) => at((local) => readChecks(local, commit, ciWaitMs)),
    reviews: (number) => at((local) => readReviews(local, number)),
  };
  return forge;
}

async function findDefaultBranch(local: LocalRepository): Promise<string> {
  const named = (await local.git.line({ args: ["symbolic-ref", "HEAD"] })).replace(/^refs\/heads\//, "");
  const names = [named, "main", "master"];
  const tips = await readBranches(local.git, names);
  const present = names.filter((_, at) => tips[at] !== null);
  if (present.includes(named)) return named;
  // A new bare repository names a branch before any push, and the first push may have another name.
  const [only, ...more] = present;
  if (only !== undefined && more.length === 0) return only;
  throw new HoldfastError({
    code: "FORGE_FAILED",
    message: `HEAD of ${local.gitDir} is branch ${named}, which does not exist`,
    hint: `Run \`git -C ${local.gitDir} symbolic-ref HEAD refs/heads/<branch>\`.`,
    retry: "ask",
  });
}

/** Converts errors of the system and of git into a HoldfastError of a forge, with a hint. Others pass unchanged. */
async function wrapForgeErrors<T>(local: LocalRepository, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isOfGit = error instanceof HoldfastError && error.code === "GIT_FAILED";
    if (error instanceof HoldfastError && !isOfGit) throw error;
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    const locking = error instanceof Error && "errcode" in error ? error.errcode : undefined;
    const isDenied = ["EACCES", "EPERM", "EROFS"].some((name) => name === code) || isLockDenied(locking);
    const isFull = code === "ENOSPC" || code === "EDQUOT";
    throw new HoldfastError({
      code: isDenied ? "FORGE_DENIED" : isFull ? "DISK_FULL" : "FORGE_FAILED",
      message: `the forge in ${local.directory} failed: ${error instanceof Error ? error.message : String(error)}`,
      hint: isDenied
        ? "Check the owner and permissions of the folder."
        : isOfGit
          ? `Run \`git -C ${local.gitDir} fsck\` if the repository may be damaged.`
          : "Check the folder and the disk, then try again.",
      retry: isDenied ? "ask" : "later",
      cause: error,
    });
  }
}

/** SQLite's error codes READONLY and CANTOPEN, for a lock file that cannot be written or opened. */
function isLockDenied(errcode: unknown): boolean {
  return errcode === 8 || errcode === 14;
}

/**
 * Returns the recorded checks of the commit, from any source. If there are none, it runs the configured command once.
 */
async function readChecks(local: LocalRepository, commit: string, waitMs: number): Promise<Checks> {
  requireCommit(commit);
  const recorded = readRecorded(local, commit);
  if (recorded !== undefined) return combineChecks(recorded);
  const { ci, ciTimeoutMinutes } = readForgeSettings(local);
  if (ci === undefined || !(await hasCommit(local, commit))) return combineChecks([]);
  const timeoutMs = (ciTimeoutMinutes ?? DEFAULT_TIMEOUT_MINUTES) * 60_000;
  await withForgeLock(local, async () => {
    if (readRecorded(local, commit) === undefined) startCi(local, { commit, command: ci, timeoutMs });
  });
  const state = await waitForCi(local, { commit, waitMs, timeoutMs });
  if (state?.kind === "ended") return withForgeLock(local, async () => record(local, commit, state));
  return combineChecks(readRecorded(local, commit) ?? [runOf("pending", "")]);
}

const DEFAULT_TIMEOUT_MINUTES = 60;

const RUN = z.object({
  name: z.string().check(z.minLength(1)),
  state: z.enum(["pending", "passed", "failed", "skipped"]),
  url: z._default(z.nullable(z.string()), null),
  summary: z._default(z.string(), ""),
});
const RECORDED = z.object({ runs: z.array(RUN) });

function readRecorded(local: LocalRepository, commit: string): readonly CheckRun[] | undefined {
  const path = pathOf(commit);
  const file = readForgeFile(local, path);
  return file === undefined ? undefined : parseJson({ local, path, text: file.text, schema: RECORDED }).runs;
}

function record(local: LocalRepository, commit: string, state: Extract<CiState, { readonly kind: "ended" }>): Checks {
  const recorded = readRecorded(local, commit);
  const runs = recorded ?? [runOf(state.code === 0 ? "passed" : "failed", state.output)];
  if (recorded === undefined) {
    const text = `${JSON.stringify({ runs }, null, 2)}\n`;
    applyChange(local, {
      path: pathOf(commit),
      text,
      mode: "replace",
      what: "checks_recorded",
      number: null,
      key: commit,
    });
  }
  removeCi(local, commit);
  return combineChecks(runs);
}

function runOf(state: CheckRun["state"], summary: string): CheckRun {
  return { name: "ci", state, url: null, summary };
}

async function hasCommit(local: LocalRepository, commit: string): Promise<boolean> {
  const args = ["cat-file", "-e", `${commit}^{commit}`];
  const found = await local.git.result({ args });
  if (found.kind === "exited" && (found.code === 0 || found.stderr.includes("Not a valid object name")))
    return found.code === 0;
  throw gitError(args, found);
}

function pathOf(commit: string): string {
  return `checks/${commit}.json`;
}

/**
 * State of the configured command for one commit. The command runs in a detached process that writes its result into a
 * directory and survives its caller. So a commit is checked once, however often it is queried.
 */
type CiState =
  | { readonly kind: "running" }
  | { readonly kind: "ended"; readonly code: number; readonly output: string };

/** Starts the command unless it runs or has ended. Call it only while holding the forge lock. */
function startCi(
  local: LocalRepository,
  params: { readonly commit: string; readonly command: string; readonly timeoutMs: number },
): void {
  const folder = folderOf(local, params.commit);
  if (readCi(local, params.commit, params.timeoutMs) !== undefined) return;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const child = spawn("/bin/sh", ["-c", SCRIPT], {
    cwd: folder,
    detached: true,
    stdio: "ignore",
    env: {
      ...plainEnvironment(),
      REPOSITORY: local.gitDir,
      COMMIT: params.commit,
      COMMAND: params.command,
      CI: "true",
    },
  });
  child.on("error", () => undefined);
  child.unref();
  const runner = { ...processIdentity(child.pid ?? 0), startedAt: Date.now() };
  writeFileSync(join(folder, "runner.json"), JSON.stringify(runner));
}

/**
 * Waits for the end of the command, at most `waitMs`. undefined if it died, or another process already recorded its
 * result.
 */
async function waitForCi(
  local: LocalRepository,
  params: { readonly commit: string; readonly waitMs: number; readonly timeoutMs: number },
): Promise<CiState | undefined> {
  for (let waited = 0; ; waited += PAUSE_MS) {
    const state = readCi(local, params.commit, params.timeoutMs);
    if (state?.kind !== "running" || waited >= params.waitMs) return state;
    await setTimeout(PAUSE_MS);
  }
}

function removeCi(local: LocalRepository, commit: string): void {
  rmSync(folderOf(local, commit), { recursive: true, force: true });
}

const PAUSE_MS = 50;
const SUMMARY_BYTES = 8 * 1024;

// Uses a clone instead of a worktree, so that cleaning up only means deleting a directory.
const SCRIPT = `(
  git -c core.hooksPath=/dev/null clone --quiet --shared --no-checkout "$REPOSITORY" checkout &&
  git -C checkout -c core.hooksPath=/dev/null -c advice.detachedHead=false checkout --quiet --detach "$COMMIT" &&
  cd checkout && exec /bin/sh -c "$COMMAND"
) >output 2>&1 </dev/null
echo "$?" >status.part && mv status.part status`;

/** undefined if the command never started, or died without a result. */
function readCi(local: LocalRepository, commit: string, timeoutMs: number): CiState | undefined {
  const folder = folderOf(local, commit);
  const status = readText(join(folder, "status"));
  if (status !== undefined) return { kind: "ended", code: Number.parseInt(status, 10), output: readTail(folder) };
  const runner = parseRunner(readText(join(folder, "runner.json")));
  if (runner === undefined || livenessOf(runner.process, processIdentity()) === "dead") {
    // The command may have ended between the two reads.
    const late = readText(join(folder, "status"));
    return late === undefined
      ? undefined
      : { kind: "ended", code: Number.parseInt(late, 10), output: readTail(folder) };
  }
  if (Date.now() - runner.startedAt < timeoutMs) return { kind: "running" };
  if (canSignal(runner.process, processIdentity())) endGroup(runner.process.pid);
  return { kind: "ended", code: 124, output: `${readTail(folder)}\nIt did not end in ${timeoutMs / 60_000} minutes.` };
}

interface Runner {
  readonly process: ProcessIdentity;
  readonly startedAt: number;
}

function parseRunner(text: string | undefined): Runner | undefined {
  try {
    const { startedAt, ...owner }: Partial<Record<string, unknown>> = JSON.parse(text ?? "");
    const { host, pid } = owner;
    if (typeof host !== "string" || typeof pid !== "number" || pid < 2 || typeof startedAt !== "number")
      return undefined;
    const textOf = (name: string): string | null => (typeof owner[name] === "string" ? owner[name] : null);
    return { process: { host, pid, started: textOf("started"), boot: textOf("boot") }, startedAt };
  } catch {
    return undefined;
  }
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The process group is gone already.
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function readTail(folder: string): string {
  try {
    const fd = openSync(join(folder, "output"), "r");
    try {
      const { size } = fstatSync(fd);
      const bytes = Buffer.alloc(Math.min(size, SUMMARY_BYTES));
      const read = readSync(fd, bytes, 0, bytes.length, size - bytes.length);
      return bytes.subarray(0, read).toString("utf8");
    } finally {
      closeSync(fd);
    }
  } catch {
    return "";
  }
}

/** Without the run's marks, because this process belongs to the forge and must outlive the run. */
function plainEnvironment(): NodeJS.ProcessEnv {
  return commandVariables({ variables: process.env, named: namedInEnvironment(process.env) ?? [] });
}

function folderOf(local: LocalRepository, commit: string): string {
  return join(local.directory, "ci", commit);
}

const SETTINGS = z.strictObject({
  /** Shell command that checks a commit, run in a checkout of it. */
  ci: z.optional(z.string().check(z.minLength(1))),
  ciTimeoutMinutes: z.optional(z.number().check(z.positive())),
});

/** Reads `forge.yaml` on every call, because users change it during runs. */
function readForgeSettings(local: LocalRepository): z.infer<typeof SETTINGS> {
  const file = readForgeFile(local, FILE);
  if (file === undefined) return {};
  const yaml = parseYaml(file.text);
  if (!yaml.ok) throw corruptFile(local, FILE, yaml.faults[0]?.message ?? "");
  return parseFields({ local, path: FILE, value: yaml.value ?? {}, schema: SETTINGS });
}

const FILE = "forge.yaml";
