import { commandVariables } from "../core/agent/agent-environment.ts";
import type { CommandResult, Commands } from "../ports/command.ts";
import { childEnvironment } from "./child-environment.ts";
import { exitStatus, runMarked, type MarkedExit } from "./marked-process.ts";
import { createTail } from "./output-tail.ts";
import { endTree } from "./process-tree.ts";
import { shellCommand } from "./shell-command.ts";

/** The commands of this host. `env`: credentials that the user passes to agents and commands (`agents.env`). */
export function createCommands({ env: named }: { readonly env: readonly string[] }): Commands {
  return { run: (params) => run(params, named), endMarked: (mark) => endTree({ mark }) };
}

/** Without credentials. */
export const systemCommands: Commands = createCommands({ env: [] });

async function run(params: Parameters<Commands["run"]>[0], named: readonly string[]): Promise<CommandResult> {
  const tail = createTail(OUTPUT_CHARACTERS);
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
