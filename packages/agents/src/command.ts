// The agent `command:`, which runs an arbitrary shell command.

import type { Agent, AgentCapabilities } from "@holdfast/core/agent";
import type { Clock } from "@holdfast/platform/clock";
import { findProgram, shellCommand } from "@holdfast/platform/subprocess";
import { agentEnvironment, commandLabel, ignoreListenerErrors, runAgentProcess } from "./agent-process.ts";
import { UNKNOWN_USAGE, classifyExit, notStarted } from "./failure-cause.ts";

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
        const hint = "Write it after the colon: command:my-agent --flag.";
        return notStarted(null, { cause: "missing", message: "No command is given for the agent", hint });
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
      const failed = classifyExit({ exit, name: commandLabel(task.model), now: params.clock.now(), timeoutMs, idleMs });
      return failed ?? { kind: "completed", text: exit.stdout, session: null, usage: UNKNOWN_USAGE };
    },
    preview(task) {
      const { command, args } = shellCommand(task.model ?? "");
      const env = Object.keys(agentEnvironment({ agent: "command", task, named: params.env }));
      return { argv: [command, ...args], env: env.toSorted() };
    },
    probe() {
      const { command } = shellCommand("");
      const found = command.startsWith("/") ? findProgram(command.slice(1), "/") : findProgram(command);
      return Promise.resolve(
        found === undefined
          ? {
              installed: false,
              version: null,
              problem: `The shell ${command} does not exist`,
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
  reportsTokens: false,
  cost: false,
  structuredOutput: false,
  seed: true,
};
