import { join, resolve as resolvePath } from "node:path";
import type { Adapters, CoreAdapters } from "@holdfast/core/adapters";
import type { AgentArgs } from "@holdfast/core/agent";
import { namedInEnvironment } from "@holdfast/core/agent-environment";
import type { PriceTable } from "@holdfast/core/budget";
import { ALL_CHECKPOINTS, type CheckpointSwitches } from "@holdfast/core/checkpoint";
import { type ErrorPolicy, defaultErrorPolicy } from "@holdfast/core/error-policy";
import { createMasking } from "@holdfast/core/mask";
import { checkOptions } from "@holdfast/core/options";
import { type RetentionPolicy, storeRetention } from "@holdfast/core/retention";
import { openSignalFiles } from "@holdfast/core/signal-files";
import { openMemoryStore } from "@holdfast/core/store-memory";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { systemClock } from "@holdfast/platform/clock";
import { isSuspended, livenessOf, processIdentity, randomName } from "@holdfast/platform/identity";
import { freeBytes } from "@holdfast/platform/subprocess";
import {
  DEFAULT_LOOP_LAYOUT,
  DEFAULT_SLOTS,
  type LoopLayoutSettings,
  type SlotSettings,
} from "@holdfast/workflows/ralph/options";
import { maskAdapters } from "./adapters.ts";
import type { ForgeChoice } from "./find-forge.ts";
import { Holdfast } from "./holdfast.ts";
import { ImportExport } from "./interop/import-export.ts";
import { openOwnStore, repositoryOrNull, storeDirectory } from "./open-store.ts";
import { RunService } from "./run-service.ts";

/** Opens the store of this repository (or the one given) and the repository's workspaces, if there is one. */
export async function openHoldfast(params: OpenParams = {}): Promise<Holdfast> {
  checkOpenParams(params);
  const cwd = resolvePath(params.cwd ?? ".");
  const workspaces = await repositoryOrNull(openGitWorkspaces(cwd));
  try {
    const directory = storeDirectory(params, workspaces);
    const owns = workspaces !== null && directory === join(workspaces.commonDir, "holdfast");
    const store =
      params.pretend === true
        ? openMemoryStore({ clock: systemClock })
        : await openOwnStore(
            directory,
            { create: params.create ?? true, readOnly: params.readOnly ?? false },
            owns ? workspaces : null,
          );
    const root = params.worktrees;
    const parts: CoreAdapters = {
      store,
      workspaces,
      clock: systemClock,
      random: randomName,
      retention: params.retention ?? storeRetention,
      maxUntrackedBytes: params.maxUntrackedBytes,
      includeIgnored: params.includeIgnored ?? false,
      ownsRefs: owns,
      freeBytes,
      liveness: (owner) => livenessOf(owner, processIdentity()),
      suspended: isSuspended,
      leaseWaitMs: params.leaseWaitMs ?? 0,
      requests: params.pretend === true ? null : openSignalFiles(store.location),
      worktreePath: root === undefined ? undefined : (run) => join(root, run),
      sessionsOf: async (agent) => {
        // Only a restore of a conversation asks, and all agents come with it.
        const { createAgentRegistry } = await import("@holdfast/agents/registry");
        try {
          return createAgentRegistry({ clock: systemClock, directory: cwd }).agent(agent);
        } catch {
          return null;
        }
      },
    };
    const {
      forge = { kind: "auto", path: null },
      prices = {},
      agentArgs = {},
      agentEnv = namedInEnvironment(process.env) ?? [],
      loops = DEFAULT_SLOTS,
      mainCheckout = "ask",
    } = params;
    const { agentIdleMs = AGENT_IDLE_MS, checkpointEveryMs = CHECKPOINT_EVERY_MS } = params;
    const { checkpoints = ALL_CHECKPOINTS, errorPolicy = defaultErrorPolicy } = params;
    const { loopLayout = DEFAULT_LOOP_LAYOUT, parts: decorate } = params;
    const foreign = new ImportExport(parts, { cwd, loopLayout, maxLoops: loops.max });
    const kept = {
      checkpoints,
      errorPolicy,
      agentIdleMs,
      checkpointEveryMs,
      prices,
      agentArgs,
      agentEnv,
      mainCheckout,
      loops,
      loopLayout,
    };
    const masking = createMasking();
    const masked = (given: Adapters): Adapters => maskAdapters(decorate?.(given) ?? given, masking);
    const work = new RunService(parts, { directory: cwd, forge, decorate: masked, ...kept });
    return new Holdfast({ cwd, parts, foreign, work });
  } catch (error) {
    await workspaces?.close();
    throw error;
  }
}

const AGENT_IDLE_MS = 30 * 60_000;
const CHECKPOINT_EVERY_MS = 10 * 60_000;

/** USAGE for a name that is none of these: a misspelt option would be as if it were not there. */
function checkOpenParams(params: OpenParams): void {
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
  readonly loops?: SlotSettings;
  /** For your own agent, forge or clock: gets the parts that runs work with, and returns those to use. */
  readonly parts?: (parts: Adapters) => Adapters;
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
