// The only way Holdfast calls git: fixed safe options, a cleaned environment, and the version check.

import { existsSync } from "node:fs";
import { devNull } from "node:os";
import { HoldfastError, workspaceMissing, usageError } from "./error.ts";
import {
  type ProcessExit,
  type ProcessResult,
  type RunningProcess,
  findProgram,
  runProcess,
  startProcess,
} from "./subprocess.ts";

/** Runs git in one place with all configured programs disabled. See SAFE_GIT_ARGS for the reason. */
export function createGit(location: GitLocation): Git {
  const env = { ...safeGitEnvironment(process.env), ...locationEnvironment(location) };
  const settings = (location.settings ?? []).flatMap((setting) => ["-c", setting]);
  const spawnParams = (call: GitCall) => {
    refuseNul(call.args);
    return {
      command: "git",
      args: [...SAFE_GIT_ARGS, ...settings, ...call.args],
      cwd: location.cwd,
      env: call.env === undefined ? env : { ...env, ...call.env },
      timeoutMs: TIMEOUT_MS,
    };
  };
  const result = async (call: GitCall): Promise<ProcessResult> => {
    const done = await runProcess({ ...spawnParams(call), input: call.input, maxOutputBytes: call.maxOutputBytes });
    if (done.kind !== "exited" && done.kind !== "overflowed") throw failure(call, done);
    return done;
  };
  const failure = (call: GitCall, done: ProcessResult): HoldfastError =>
    done.kind === "not_started" && location.cwd !== undefined && !existsSync(location.cwd)
      ? workspaceMissing(location.cwd, done.cause)
      : gitError(call.args, done);
  return {
    result,
    async output(call) {
      const done = await result(call);
      if (done.kind !== "exited" || done.code !== 0) throw failure(call, done);
      return done.stdout;
    },
    async line(call) {
      return (await this.output(call)).toString("utf8").replace(/\n$/, "");
    },
    async find(call) {
      const done = await result(call);
      return done.code === 0 ? done.stdout.toString("utf8").trim() : null;
    },
    start: (call) => startProcess(spawnParams(call)),
  };
}

export interface Git {
  /** Standard output of a call. Throws when git fails. */
  output(call: GitCall): Promise<Buffer>;
  /** Like `output`, as text without the last newline. */
  line(call: GitCall): Promise<string>;
  /** Like `line`; null when git exits with an error. */
  find(call: GitCall): Promise<string | null>;
  /**
   * For calls whose exit code is part of the result. Throws only if git could not be started, was killed or took too long: that proves
   * nothing about the repository.
   */
  result(call: GitCall): Promise<ProcessResult>;
  start(call: GitCall): RunningProcess;
}

interface GitCall {
  readonly args: readonly string[];
  readonly input?: Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  readonly maxOutputBytes?: number;
}

interface GitLocation {
  readonly cwd?: string;
  readonly gitDir?: string;
  readonly workTree?: string;
  /** Set for our private git directory. Git then reads no configuration of the user or the system either. */
  readonly objectDirectory?: string;
  readonly indexFile?: string;
  /** `key=value`, for every call. */
  readonly settings?: readonly string[];
}

/** The system cuts an argument at a NUL byte. Only a name that the caller invented can contain one. */
function refuseNul(args: readonly string[]): void {
  const bad = args.find((arg) => arg.includes("\0"));
  if (bad === undefined) return;
  throw usageError(`${JSON.stringify(bad)} contains a NUL byte, which no name in git can`);
}

export function gitError(args: readonly string[], exit: ProcessExit): HoldfastError {
  const name = `git ${args.find((arg) => /^[a-z][a-z-]*$/.test(arg)) ?? ""}`.trim();
  const reason = exit.stderr.trim().split("\n").slice(-3).join("; ");
  if (exit.kind === "not_started") {
    const isExhausted = /\b(?:EMFILE|ENFILE|EAGAIN|ENOMEM)\b/.test(exit.stderr);
    if (isExhausted) {
      return new HoldfastError({
        code: "IO_FAILED",
        message: `git could not be started: ${exit.stderr}`,
        hint: "The system is out of processes, memory or open files. Close what is not needed and run the command again.",
        retry: "later",
        cause: exit.cause,
      });
    }
    return new HoldfastError({
      code: "GIT_MISSING",
      message:
        findProgram("git") === undefined
          ? "git is not installed, or not on PATH"
          : `git could not be started: ${exit.stderr}`,
      hint: `Install git ${MIN_GIT_VERSION} or newer and make sure that it is on PATH.`,
      cause: exit.cause,
    });
  }
  if (/no space left on device|disk quota exceeded/i.test(exit.stderr)) {
    return new HoldfastError({
      code: "DISK_FULL",
      message: `${name} found the disk full`,
      hint: "Free some space and run the command again; nothing was lost.",
      retry: "later",
      data: { stderr: exit.stderr },
    });
  }
  const dubious = exit.stderr.includes("dubious ownership");
  return new HoldfastError({
    code: "GIT_FAILED",
    message: `${name} failed (${exit.kind === "exited" ? `exit ${exit.code}` : exit.kind}): ${reason}`,
    hint: dubious
      ? "The repository belongs to another user; add it to safe.directory in your own git configuration if you trust it."
      : "Run `git fsck` if the repository may be damaged.",
    data: { args, stderr: exit.stderr, ended: exit.kind },
  });
}

const TIMEOUT_MS = 10 * 60_000;

function locationEnvironment(location: GitLocation): NodeJS.ProcessEnv {
  return {
    ...(location.gitDir === undefined ? {} : { GIT_DIR: location.gitDir }),
    ...(location.workTree === undefined ? {} : { GIT_WORK_TREE: location.workTree }),
    ...(location.indexFile === undefined ? {} : { GIT_INDEX_FILE: location.indexFile }),
    ...(location.objectDirectory === undefined
      ? {}
      : {
          GIT_OBJECT_DIRECTORY: location.objectDirectory,
          GIT_CONFIG_NOSYSTEM: "1",
          GIT_CONFIG_GLOBAL: devNull,
          GIT_ATTR_NOSYSTEM: "1",
        }),
  };
}

const known = new Map<string, string>();

/**
 * Throws GIT_MISSING when git is absent or too old. The version is read once per PATH value. An old git would silently
 * sync nothing.
 */
export async function checkGitVersion(): Promise<void> {
  const path = process.env["PATH"] ?? "";
  const version = known.get(path) ?? (await askVersion());
  known.set(path, version);
  if (!isGitTooOld(version)) return;
  throw new HoldfastError({
    code: "GIT_MISSING",
    message: `${version} is too old`,
    hint: `Install git ${MIN_GIT_VERSION} or newer and make sure that it comes first on PATH.`,
  });
}

/** The version that the last check found, such as "2.47.1"; null: git was not asked yet. */
export function gitVersion(): string | null {
  return /\d+(?:\.\d+)+/.exec(known.get(process.env["PATH"] ?? "") ?? "")?.[0] ?? null;
}

async function askVersion(): Promise<string> {
  const args = ["--version"];
  const asked = await runProcess({ command: "git", args });
  if (asked.kind !== "exited" || asked.code !== 0) throw gitError(args, asked);
  return asked.stdout.toString("utf8").trim();
}

/**
 * The oldest supported git: the first whose `merge-tree` works without a worktree. Versions before 2.36 also cannot
 * sync what they write.
 */
export const MIN_GIT_VERSION = "2.38";

/** Takes the output of `git --version`. A version that cannot be parsed counts as new enough. */
export function isGitTooOld(version: string): boolean {
  const [major, minor] = numbersOf(version);
  const [floorMajor, floorMinor] = numbersOf(MIN_GIT_VERSION);
  return major < floorMajor || (major === floorMajor && minor < floorMinor);
}

function numbersOf(version: string): readonly [number, number] {
  const [, major, minor] = /(\d+)\.(\d+)/.exec(version) ?? [];
  return [Number(major ?? Infinity), Number(minor ?? Infinity)];
}

/**
 * Options for every git call. A repository is untrusted: its config may name programs for hooks, filters, diffs,
 * pagers, monitors and transports. Every call disables them, whether or not it could reach one.
 */
const SAFE_GIT_ARGS: readonly string[] = [
  "--no-pager",
  ...[
    `core.hooksPath=${devNull}`,
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=",
    "core.logAllRefUpdates=false",
    "credential.helper=",
    "diff.external=",
    "interactive.diffFilter=",
    "sequence.editor=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "submodule.recurse=false",
    "protocol.allow=never",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",
    "gc.auto=0",
    "maintenance.auto=false",
    // Indexes are not synced. Holdfast never writes the user's index, and its own is a cache that may be lost in a
    // power cut.
    "core.fsync=all,-index",
    "core.fsyncMethod=batch",
  ].flatMap((setting) => ["-c", setting]),
];

/** Returns the environment without variables that redirect git, make it prompt, or change its language. */
function safeGitEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => !/^(GIT_|SSH_ASKPASS|PAGER$|LESS|EDITOR$|VISUAL$)/i.test(name));
  return {
    ...Object.fromEntries(kept),
    LC_ALL: "C",
    GIT_TERMINAL_PROMPT: "0",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_LITERAL_PATHSPECS: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_ALLOW_PROTOCOL: "none",
  };
}

/** Environment variables that set the same author and committer. */
export function gitIdentity(params: {
  readonly name: string;
  readonly mail: string;
  readonly epochSeconds: number;
}): Readonly<Record<string, string>> {
  const { name, mail } = params;
  const date = `@${params.epochSeconds} +0000`;
  return {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: mail,
    GIT_AUTHOR_DATE: date,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: mail,
    GIT_COMMITTER_DATE: date,
  };
}
