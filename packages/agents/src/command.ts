// The agent `command:`, which runs an arbitrary shell command.

import type { Agent, AgentCapabilities } from "@holdfast/core/agent";
import type { Clock } from "@holdfast/platform/clock";
import { findProgram, shellCommand } from "@holdfast/platform/subprocess";
import { agentEnvironment, ignoreListenerErrors, runAgentProcess } from "./agent-process.ts";
import { UNKNOWN_USAGE, classifyExit } from "./failure-cause.ts";

/**
 * `command:<shell command>`: any program that reads a prompt on standard input, works in its current directory and
 * prints its answer. Exit code 0 is success, and the text is everything it printed.
 */
export function createCommandAgent(params: {
  readonly clock: Clock;
  readonly env?: readonly string[] | undefined;
}): Agent {
  return {
    name: "command",
    capabilities: CAPABILITIES,
    sessions: null,
    async run(task) {
      if (task.model === null || task.model.trim() === "") {
        return {
          kind: "failed",
          cause: "missing",
          message: "No command is given for the agent",
          hint: "Write it after the colon: command:my-agent --flag.",
          until: null,
          session: null,
          usage: UNKNOWN_USAGE,
          instant: true,
        };
      }
      const emit = ignoreListenerErrors(task.onEvent);
      const exit = await runAgentProcess({
        task,
        env: agentEnvironment({ agent: "command", task, named: params.env }),
        ...shellCommand(task.model),
        input: task.prompt,
        onLine: (text) => emit({ kind: "text", text }),
      });
      const { timeoutMs, idleMs } = task;
      const failed = classifyExit({ exit, name: nameOf(task.model), now: params.clock.now(), timeoutMs, idleMs });
      return failed ?? { kind: "completed", text: exit.stdout, session: null, usage: UNKNOWN_USAGE };
    },
    preview(task) {
      const { command, args } = shellCommand(task.model ?? "");
      const env = Object.keys(agentEnvironment({ agent: "command", task, named: params.env }));
      return { argv: [command, ...args], env: env.toSorted() };
    },
    probe() {
      const { command } = shellCommand("");
      const isThere = command.startsWith("/") ? findProgram(command.slice(1), "/") : findProgram(command);
      return Promise.resolve(
        isThere === undefined
          ? {
              installed: false,
              version: null,
              problem: `There is no shell at ${command}`,
              hint: "Install a POSIX shell.",
            }
          : { installed: true, version: null, problem: null, hint: null },
      );
    },
  };
}

const CAPABILITIES: AgentCapabilities = {
  resume: false,
  forkAtMessage: false,
  chooseSession: false,
  usage: false,
  cost: false,
  structuredOutput: false,
  seed: true,
};

function nameOf(command: string): string {
  const line = command.trim().replaceAll(/\s+/g, " ");
  return `\`${line.length > 80 ? `${line.slice(0, 79)}…` : line}\``;
}
