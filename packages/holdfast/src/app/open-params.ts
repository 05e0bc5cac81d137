import type { AgentArgs } from "../core/agent/agent-args.ts";
import type { CheckpointSwitches } from "../core/checkpoint/checkpoint-switches.ts";
import type { ErrorPolicy } from "../core/error-policy/policy.ts";
import type { LoopLayoutSettings } from "../core/lease/loop-layout.ts";
import type { LoopSettings } from "../core/lease/loop-settings.ts";
import { checkOptions } from "../core/options.ts";
import type { PriceTable } from "../core/position/price.ts";
import type { RetentionPolicy } from "../core/retention/retention.ts";
import type { WorkParts } from "../engine/work-parts.ts";
import type { ForgeChoice } from "./find-forge.ts";

/** USAGE for a name that is none of these: a misspelt option would be as if it were not there. */
export function checkOpenParams(params: OpenParams): void {
  checkOptions("open", params, OPEN_OPTIONS);
}

export interface OpenParams {
  /** Default: the current directory. */
  readonly cwd?: string;
  /** A directory for the store; default HOLDFAST_STORE, else `<git common dir>/holdfast`. */
  readonly store?: string;
  /** When there is no store yet: make it (default), or STORE_ABSENT. */
  readonly create?: boolean;
  /** Open the store for reading only: no file in its directory is changed, and every write is STORE_READ_ONLY. Default false. */
  readonly readOnly?: boolean;
  /** A store in memory instead of a real one: to look at what would be done. */
  readonly pretend?: boolean;
  readonly retention?: RetentionPolicy;
  readonly maxUntrackedBytes?: number;
  readonly includeIgnored?: boolean;
  /** A change in the main checkout during an agent call waits for your answer ("ask", the default), or is only reported. */
  readonly mainCheckout?: "ask" | "report";
  /** How long a write waits for a run that another live process holds. Default 0: LEASE_HELD at once. */
  readonly leaseWaitMs?: number;
  /** Directory under which forks and runs get their worktrees. */
  readonly worktrees?: string;
  /** Where issues and pull requests are; default told from the remote. */
  readonly forge?: ForgeChoice;
  /** An agent that prints nothing for this long hangs and is ended; null: never. Default 30 minutes. */
  readonly agentIdleMs?: number | null;
  /** Also a checkpoint whenever a run has gone on for so long without one; null: only where stages take them. Default 10 minutes. */
  readonly checkpointEveryMs?: number | null;
  /** Which checkpoints runs take on top of those that they cannot do without. Default: all. */
  readonly checkpoints?: CheckpointSwitches;
  /** What is done about failed agent calls. Default: waits, then parks. */
  readonly errorPolicy?: ErrorPolicy;
  /** US dollars for a million tokens by `provider:model`, before those that are built in. */
  readonly prices?: PriceTable;
  /** Further arguments for the makers' programs, by agent, such as `{ codex: ["--sandbox", "read-only"] }`. */
  readonly agentArgs?: AgentArgs;
  /**
   * Variables of the environment, by name or as `PREFIX_*`, that agents and gates get besides those that they always get. Forge and cloud
   * tokens are not passed unless they are named here. Default: HOLDFAST_AGENT_ENV, names separated by commas.
   */
  readonly agentEnv?: readonly string[];
  /** What of loops is also written below `.aiwg`, for other tools, and how much of it stays. Default: all of it, as published. */
  readonly loopLayout?: LoopLayoutSettings;
  /** How many runs of which workflows may be at work at once. Default: 4 of ralph. */
  readonly loops?: LoopSettings;
  /** For your own agent, forge or clock: gets the parts that runs work with, and returns those to use. */
  readonly parts?: (parts: WorkParts) => WorkParts;
}

const OPEN_OPTIONS: readonly (keyof OpenParams)[] = [
  "cwd",
  "store",
  "create",
  "readOnly",
  "pretend",
  "retention",
  "maxUntrackedBytes",
  "includeIgnored",
  "mainCheckout",
  "leaseWaitMs",
  "worktrees",
  "forge",
  "agentIdleMs",
  "checkpointEveryMs",
  "checkpoints",
  "errorPolicy",
  "prices",
  "agentArgs",
  "agentEnv",
  "loopLayout",
  "loops",
  "parts",
];
