import {
  type MarkedExit,
  childEnvironment,
  createOutputTail,
  exitStatus,
  runMarked,
} from "@holdfast/platform/marked-process";
import { terminateTree } from "@holdfast/platform/process-tree";
import { shellCommand } from "@holdfast/platform/subprocess";
import { commandVariables } from "./agent-environment.ts";

/** The commands of this host. `env`: credentials that the user passes to agents and commands (`agents.env`). */
export function createCommands({ env: named }: { readonly env: readonly string[] }): Commands {
  return { run: (params) => run(params, named), endMarked: (mark) => terminateTree({ mark }) };
}

/** Without credentials. */
export const systemCommands: Commands = createCommands({ env: [] });

async function run(params: Parameters<Commands["run"]>[0], named: readonly string[]): Promise<CommandResult> {
  const tail = createOutputTail(OUTPUT_CHARACTERS);
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
    onOutput: (_, text) => tail.add(text),
  });
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

/** Commands that a user named (a gate, CI) and processes that carry a run's mark. */
export interface Commands {
  /** Through the shell, in its own process group, with the mark in its environment. Never rejects for what the command did. */
  run(params: {
    readonly command: string;
    readonly cwd: string;
    readonly mark: string;
    readonly timeoutMs: number | null;
    readonly signal: AbortSignal;
    readonly env?: Readonly<Record<string, string>>;
  }): Promise<CommandResult>;
  /**
   * Ends every process on this host that carries the mark, or one that begins with it and a slash, and sees them gone: asks, waits a moment, forces.
   * Our own process and its ancestors are never touched. Where the system cannot tell (no /proc), `supported` is false.
   */
  endMarked(mark: string): Promise<{ readonly ended: number; readonly supported: boolean }>;
}

export interface CommandResult {
  readonly kind: "exited" | "timed_out" | "interrupted" | "not_started";
  readonly code: number | null;
  /** stdout and stderr in the order of arrival, the last part of it. */
  readonly output: string;
  readonly milliseconds: number;
}
