import type { CommandResult, Commands } from "../ports/command.ts";
import { childEnvironment } from "./child-environment.ts";
import { exitStatus, runMarked, type MarkedExit } from "./marked-process.ts";
import { createTail } from "./output-tail.ts";
import { endTree } from "./process-tree.ts";
import { shellCommand } from "./shell-command.ts";

/** The commands of this host. */
export const systemCommands: Commands = {
  async run(params) {
    const tail = createTail(OUTPUT_CHARACTERS);
    const exit = await runMarked({
      ...shellCommand(params.command),
      cwd: params.cwd,
      env: childEnvironment({ base: process.env, mark: params.mark, env: params.env ?? {} }),
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
  },
  endMarked: (mark) => endTree({ mark }),
};

const OUTPUT_CHARACTERS = 64 * 1024;

const KIND_OF: Readonly<Record<MarkedExit["kind"], CommandResult["kind"]>> = {
  exited: "exited",
  signalled: "exited",
  timed_out: "timed_out",
  idle: "timed_out",
  interrupted: "interrupted",
  not_started: "not_started",
};
