import { describe, test } from "vitest";
import type { Agent } from "../../ports/agent.ts";
import { agentContract, type AgentHarness } from "../agent-contract.ts";
import { sampleBySeed } from "../sample-by-seed.ts";

/** The contract with a real program; what cannot be asked of it is skipped aloud. */
export function keepContract(params: {
  readonly title: string;
  readonly agent: Agent;
  /** Why the program is not there; null: it is. */
  readonly gone: string | null;
  /** Cases that say nothing of this agent, and why. */
  readonly apart: Readonly<Record<string, string>>;
  readonly harnessOf: (later: (undo: () => void | Promise<void>) => void) => Promise<AgentHarness>;
  /** Cases that read or change our own environment: they run by themselves. */
  readonly alone: RegExp;
  readonly timeout?: number;
  /** So many cases, another choice with each seed: for a program that is slow to start. Default all. */
  readonly sample?: number;
}): void {
  const { agent, gone, apart, alone, timeout } = params;
  describe(params.title, () => {
    for (const { name: promise, skip, run } of sampleBySeed(agentContract, params.sample ?? agentContract.length)) {
      const why = gone ?? apart[promise] ?? skip?.(agent) ?? null;
      const options = { concurrent: !alone.test(promise), ...(timeout === undefined ? {} : { timeout }) };
      test.skipIf(why !== null)(why === null ? promise : `${promise} (${why})`, options, async (context) => {
        await run(await params.harnessOf(context.onTestFinished));
      });
    }
  });
}

/** A probe asks about this process's own environment, and one case changes it. */
export const READS_OUR_ENVIRONMENT: RegExp = /^(?:the child has the allowed part|a probe answers)/;
