import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LONGEST_TIMER_MS } from "../core/longest-timer.ts";
import { DEFAULT_PRICES } from "../agents/default-prices.ts";
import { createAgentRegistry } from "../agents/registry.ts";
import type { AgentArgs } from "../core/agent/agent-args.ts";
import type { CheckpointSwitches } from "../core/checkpoint/checkpoint-switches.ts";
import type { ErrorPolicy } from "../core/error-policy/policy.ts";
import type { PriceTable } from "../core/position/price.ts";
import type { Parts } from "../engine/parts.ts";
import type { WorkParts } from "../engine/work-parts.ts";
import { createSyntaxGate } from "../gates/syntax-gate.ts";
import type { Forge } from "../ports/forge.ts";
import { openAgentLog, openAnswerFile } from "../system/agent-log.ts";
import { createCommands } from "../system/commands.ts";
import { createOutputs } from "../system/outputs.ts";
import { createGitBranches } from "../workspaces/branch/git-branches.ts";
import { implDocument } from "./foreign/impl-document.ts";

/** Everything that workflows work with, on this machine. */
export function buildParts(params: PartsOptions & { readonly parts: Parts; readonly forge: Forge | null }): WorkParts {
  const { parts } = params;
  const registry = createAgentRegistry({
    clock: parts.clock,
    directory: params.directory,
    args: params.agentArgs,
    env: params.agentEnv,
  });
  const logs = join(parts.store.location, "logs");
  return {
    ...parts,
    agent: (provider) => registry.agent(provider),
    agentIdleMs: params.agentIdleMs,
    checkpointEveryMs: params.checkpointEveryMs,
    checkpoints: params.checkpoints,
    errorPolicy: params.errorPolicy,
    prices: { ...DEFAULT_PRICES, ...params.prices },
    mainCheckout: params.mainCheckout,
    forge: params.forge,
    branches: createGitBranches(),
    commands: createCommands({ env: params.agentEnv }),
    syntax: createSyntaxGate(),
    outputs: createOutputs,
    implDocument,
    crunchTriggers: async () => {
      // With a parser for YAML, which would cost every start of a program.
      const { readCrunchTriggers } = await import("./foreign/read-crunch-triggers.ts");
      return await readCrunchTriggers(parts.workspaces, params.directory);
    },
    agentLog: (call) => openAgentLog({ ...call, directory: logs }),
    agentAnswer: (call) => openAnswerFile({ ...call, directory: logs }),
    wait: async (milliseconds, signal) => {
      for (let left = milliseconds; left > 0; left -= LONGEST_TIMER_MS) {
        await sleep(Math.min(left, LONGEST_TIMER_MS), undefined, { signal }).catch((error: unknown) => {
          signal.throwIfAborted();
          throw error;
        });
      }
    },
  };
}

/** What whoever opens Holdfast settles about the work of its runs. */
export interface PartsOptions {
  /** Where relative paths of scripts and commands begin. */
  readonly directory: string;
  readonly agentIdleMs: number | null;
  readonly checkpointEveryMs: number | null;
  readonly checkpoints: CheckpointSwitches;
  readonly errorPolicy: ErrorPolicy;
  readonly prices: PriceTable;
  readonly mainCheckout: "ask" | "report";
  readonly agentArgs: AgentArgs;
  /** Variables of the environment that reach agents and commands besides those that always do. */
  readonly agentEnv: readonly string[];
}
