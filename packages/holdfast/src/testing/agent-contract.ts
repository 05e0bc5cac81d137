import { endingCases } from "./agent-contract/endings.ts";
import { environmentCases } from "./agent-contract/environment.ts";
import type { AgentCase } from "./agent-contract/harness.ts";
import { outcomeCases } from "./agent-contract/outcomes.ts";

export type { AgentBehaviour, AgentCase, AgentHarness } from "./agent-contract/harness.ts";

/** Every promise of the agent port, one case each, on node:assert and real processes: run them in any test runner. */
export const agentContract: readonly AgentCase[] = [...outcomeCases, ...endingCases, ...environmentCases];
