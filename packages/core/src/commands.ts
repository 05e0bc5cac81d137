// Runs shell commands that the user configured (gates, checks, CI), and terminates processes by their mark.
import {
  type MarkedExit,
  childEnvironment,
  createLineSplitter,
  createOutputTail,
  exitStatus,
  runMarked,
} from "@holdfast/platform/marked-process";
import type { FolderProcess } from "@holdfast/platform/folder-processes";
import { findUnmarked, terminateTree } from "@holdfast/platform/process-tree";
import { shellCommand } from "@holdfast/platform/subprocess";
import { commandVariables } from "./agent-environment.ts";

/** Creates the command runner of this host. `env` lists credentials that the user passes to agents and commands (`agents.env`). */
export function createCommands({ env: named }: { readonly env: readonly string[] }): Commands {
  return { run: (params) => run(params, named), endMarked: (mark) => terminateTree({ mark }), findUnmarked };
}

/** Passes no credentials. */
export const systemCommands: Commands = createCommands({ env: [] });

async function run(params: Parameters<Commands["run"]>[0], named: readonly string[]): Promise<CommandResult> {
  const tail = createOutputTail(OUTPUT_CHARACTERS);
  const { onLine } = params;
  const lines = onLine === undefined ? null : createLineSplitter({ onLine });
  const exit = await runMarked({
    ...shellCommand(params.command),
    cwd: params.cwd,
    env: childEnvironment({
      base: commandVariables({ variables: process.env, named }),
      mark: params.mark,
      env: params.env ?? {},
    }),
    mark: params.mark,
    input: "",
    timeoutMs: params.timeoutMs,
    idleMs: null,
    signal: params.signal,
    onOutput: (_, text) => {
      tail.add(text);
      lines?.add(text);
    },
  });
  lines?.end();
  const said = [tail.text(), exit.reason, exit.survivors].filter((text) => text !== null && text !== "");
  const kind = KIND_OF[exit.kind];
  return {
    kind,
    code: kind === "exited" ? exitStatus(exit) : null,
    output: said.join("\n"),
    milliseconds: exit.milliseconds,
  };
}

const OUTPUT_CHARACTERS = 64 * 1024;

const KIND_OF: Readonly<Record<MarkedExit["kind"], CommandResult["kind"]>> = {
  exited: "exited",
  signalled: "exited",
  timed_out: "timed_out",
  idle: "timed_out",
  interrupted: "interrupted",
  not_started: "not_started",
};

/** Commands that a user configured (a gate, CI), and processes that have a run's mark. */
export interface Commands {
  /**
   * Runs the command through the shell in its own process group, with the mark in its environment. A failing command
   * never rejects the promise.
   */
  run(params: {
    readonly command: string;
    readonly cwd: string;
    readonly mark: string;
    readonly timeoutMs: number | null;
    readonly signal: AbortSignal;
    readonly env?: Readonly<Record<string, string>>;
    /** Gets each line of the output, also those that the result has no room for. */
    readonly onLine?: (line: string) => void;
    /** The command belongs to no step, so the recording of a run leaves it out. */
    readonly unrecorded?: true;
  }): Promise<CommandResult>;
  /**
   * Terminates every process on this host whose mark equals `mark` or begins with it and a slash, and waits until they
   * are gone. It asks first, waits briefly, then kills. It never touches this process or its ancestors. `supported` is
   * false where the processes of the system cannot be listed (neither /proc nor `ps`); callers report that.
   */
  endMarked(mark: string): Promise<EndedProcesses>;
  /**
   * Lists the processes whose working directory is in the folder and that `endMarked` would not end. A user may have
   * started them. null: the system does not report them.
   */
  findUnmarked(params: { readonly mark: string; readonly folder: string }): readonly FolderProcess[] | null;
}

interface EndedProcesses {
  readonly ended: number;
  readonly supported: boolean;
}

/** What to report to the user where Holdfast could not look for processes of a run; null: it looked. */
export function unseenText({ supported }: EndedProcesses): string | null {
  return supported
    ? null
    : "This system did not list its processes. One that an earlier Holdfast process started may still change files: look for it with `ps` and end it.";
}

export interface CommandResult {
  readonly kind: "exited" | "timed_out" | "interrupted" | "not_started";
  readonly code: number | null;
  /** The end of stdout and stderr, in order of arrival. */
  readonly output: string;
  readonly milliseconds: number;
}

/** How a command ended, as the predicate of a sentence. */
export function commandEnding(result: Pick<CommandResult, "kind" | "code">): string {
  switch (result.kind) {
    case "exited":
      return result.code === null ? "was killed" : `failed with exit ${result.code}`;
    case "timed_out":
      return "took too long";
    case "interrupted":
      return "was interrupted";
    case "not_started":
      return "could not be started";
  }
}

const SHOWN_LINES = 15;
const LINE_CHARACTERS = 300;

/** The end of an output for the screen: its last lines that are not blank, long ones cut. */
export function lastLines(output: string): readonly string[] {
  const lines = output.split(/\r\n|[\r\n]/).filter((line) => line.trim() !== "");
  return lines
    .slice(-SHOWN_LINES)
    .map((line) => (line.length > LINE_CHARACTERS ? `${line.slice(0, LINE_CHARACTERS).toWellFormed()}…` : line));
}
