import { existsSync } from "node:fs";
import { devNull } from "node:os";
import { HoldfastError } from "../../core/error.ts";
import { GIT_FLOOR } from "../../core/git-floor.ts";
import { DEFUSED, scrubbedEnvironment } from "../../system/git-defence.ts";
import { placeGone } from "./failure-border.ts";
import {
  runProcess,
  startProcess,
  type ProcessExit,
  type ProcessResult,
  type RunningProcess,
} from "../../system/subprocess.ts";

/**
 * The only way to call git. A repository is untrusted text: its config may name programs for hooks, filters, diffs, pagers,
 * monitors and transports. Each is defused here, for every call, whether or not that call could reach it.
 */
export function createGit(place: GitPlace): Git {
  const env = { ...scrubbedEnvironment(process.env), ...placeEnvironment(place) };
  const spawnParams = (call: GitCall) => {
    refuseNul(call.args);
    return {
      command: "git",
      args: [...DEFUSED, ...call.args],
      cwd: place.cwd,
      env: call.env === undefined ? env : { ...env, ...call.env },
      timeoutMs: TIMEOUT_MS,
    };
  };
  const result = async (call: GitCall): Promise<ProcessResult> =>
    runProcess({ ...spawnParams(call), input: call.input, maxOutputBytes: call.maxOutputBytes });
  return {
    result,
    async output(call) {
      const done = await result(call);
      if (done.kind === "not_started" && place.cwd !== undefined && !existsSync(place.cwd))
        throw placeGone(place.cwd, done.cause);
      if (done.kind !== "exited" || done.code !== 0) throw gitFailure(call.args, done);
      return done.stdout;
    },
    async line(call) {
      return (await this.output(call)).toString("utf8").replace(/\n$/, "");
    },
    start: (call) => startProcess(spawnParams(call)),
  };
}

export interface Git {
  /** Standard output of a call that must succeed. */
  output(call: GitCall): Promise<Buffer>;
  /** The same as text without its last newline. */
  line(call: GitCall): Promise<string>;
  /** For calls whose exit code is an answer. */
  result(call: GitCall): Promise<ProcessResult>;
  start(call: GitCall): RunningProcess;
}

interface GitCall {
  readonly args: readonly string[];
  readonly input?: Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  readonly maxOutputBytes?: number;
}

interface GitPlace {
  readonly cwd?: string;
  readonly gitDir?: string;
  readonly workTree?: string;
  /** Set for our private git directory: then no config of the user or the machine is read either. */
  readonly objectDirectory?: string;
  readonly indexFile?: string;
}

/** The system ends an argument at a NUL byte; it could only come from a name that the caller made up. */
function refuseNul(args: readonly string[]): void {
  const bad = args.find((arg) => arg.includes("\0"));
  if (bad === undefined) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(bad)} holds a NUL byte, which no name in git can`,
  });
}

export function gitFailure(args: readonly string[], exit: ProcessExit): HoldfastError {
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
      message: `git could not be started: ${exit.stderr}`,
      hint: `Install git ${GIT_FLOOR} or newer and make sure that it is on PATH.`,
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

function placeEnvironment(place: GitPlace): NodeJS.ProcessEnv {
  return {
    ...(place.gitDir === undefined ? {} : { GIT_DIR: place.gitDir }),
    ...(place.workTree === undefined ? {} : { GIT_WORK_TREE: place.workTree }),
    ...(place.indexFile === undefined ? {} : { GIT_INDEX_FILE: place.indexFile }),
    ...(place.objectDirectory === undefined
      ? {}
      : {
          GIT_OBJECT_DIRECTORY: place.objectDirectory,
          GIT_CONFIG_NOSYSTEM: "1",
          GIT_CONFIG_GLOBAL: devNull,
          GIT_ATTR_NOSYSTEM: "1",
        }),
  };
}
