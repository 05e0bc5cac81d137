/** Opens Holdfast: the store, the workspaces of the repository, and the service that executes runs. */
import { join, resolve as resolvePath } from "node:path";
import type { Adapters, CoreAdapters } from "@holdfast/core/adapters";
import type { AgentArgs } from "@holdfast/core/agent";
import { NO_LOGS } from "@holdfast/core/agent-log";
import { createAgentLogFiles } from "@holdfast/core/agent-log";
import { namedInEnvironment } from "@holdfast/core/agent-environment";
import type { PriceTable } from "@holdfast/core/budget";
import { ALL_CHECKPOINTS, type CheckpointSwitches } from "@holdfast/core/checkpoint";
import { createCopiedFilesReader, isCopyPattern } from "@holdfast/core/copy-files";
import { type ErrorPolicy, defaultErrorPolicy } from "@holdfast/core/error-policy";
import { learnLater } from "@holdfast/core/known-secrets";
import { createMasking } from "@holdfast/core/mask";
import { type OptionKind, checkOptions } from "@holdfast/core/options";
import { hideRemoved, listHalfRemoved } from "@holdfast/core/run-statuses";
import { type RetentionPolicy, storeRetention } from "@holdfast/core/retention";
import type { Store } from "@holdfast/core/store";
import { openMemoryStore } from "@holdfast/core/store-memory";
import { ownerLiveness } from "@holdfast/core/store-sql/leases";
import { mainWorktreeRoot } from "@holdfast/core/workspace";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { type Clock, systemClock } from "@holdfast/platform/clock";
import { usageError } from "@holdfast/platform/error";
import { isSuspended, randomName } from "@holdfast/platform/identity";
import { freeBytes } from "@holdfast/platform/subprocess";
import { isStoreUrl } from "@holdfast/postgres/store-url";
import { DEFAULT_SLOTS, OWN_FILES, type SlotSettings } from "@holdfast/workflows/built-in";
import { DEFAULT_LAYOUT, type LayoutSettings } from "@holdfast/workflows/plugin";
import { namedActor, withActor } from "./actor.ts";
import { maskAdapters } from "./adapters.ts";
import type { ForgeChoice } from "./find-forge.ts";
import { Holdfast } from "./holdfast.ts";
import { ImportExport } from "./interop/import-export.ts";
import { type DatabaseWait, openOwnStore, pretendedDirectory, repositoryOrNull, storePlace } from "./open-store.ts";
import { RunFiles } from "./run-files.ts";
import { RunService } from "./run-service.ts";

/** Opens the store of this repository (or the given one) and the repository's workspaces, if there is a repository. */
export async function openHoldfast(params: OpenParams = {}): Promise<Holdfast> {
  checkOpenParams("open", params);
  const cwd = resolvePath(params.cwd ?? ".");
  const workspaces = await repositoryOrNull(openGitWorkspaces(cwd, OWN_FILES, { readOnly: params.readOnly ?? false }));
  try {
    const place = storePlace(params, workspaces);
    const owns = workspaces !== null && place === join(workspaces.commonDir, "holdfast");
    const {
      store: opened,
      directory,
      shared,
    } = params.pretend === true
      ? { store: openMemoryStore({ clock: systemClock }), directory: pretendedDirectory(place), shared: false }
      : await openOwnStore(
          place,
          { create: params.create ?? true, readOnly: params.readOnly ?? false, onWait: params.onWait },
          owns ? workspaces : null,
        );
    const isWritten = params.readOnly !== true && params.pretend !== true;
    const files =
      params.filesRemote === undefined || workspaces === null || params.pretend === true
        ? null
        : new RunFiles({
            remote: await workspaces.filesRemote(params.filesRemote, opened.id),
            isShared: isStoreUrl(place),
          });
    const sending = files !== null && isWritten ? files.sendWithSaves(opened) : opened;
    const store = withActor(hideRemoved(sending), namedActor(process.env));
    const clock = isStoreUrl(place) && params.pretend !== true ? await clockOf(opened) : systemClock;
    const root = params.worktrees;
    const adapters: CoreAdapters = {
      store,
      halfRemoved: () => listHalfRemoved(opened),
      storeDirectory: params.pretend === true ? null : directory,
      logs: params.pretend === true ? NO_LOGS : createAgentLogFiles(join(directory, "logs")),
      workspaces: workspaces !== null && files !== null && isWritten ? files.fetchMissing(workspaces) : workspaces,
      clock,
      random: randomName,
      retention: params.retention ?? storeRetention,
      maxUntrackedBytes: params.maxUntrackedBytes,
      includeIgnored: params.includeIgnored ?? false,
      ownsRefs: owns,
      freeBytes,
      ...(params.maxStoreBytes === undefined ? {} : { maxStoreBytes: params.maxStoreBytes }),
      liveness: (owner) => ownerLiveness(owner, { directory: params.pretend === true ? null : directory, shared }),
      suspended: isSuspended,
      leaseWaitMs: params.leaseWaitMs ?? 0,
      worktreePath: root === undefined ? undefined : (run) => join(root, run),
      sessionsOf: async (agent) => {
        // Loaded on demand: only the restore of a conversation needs it, and it loads all agents.
        const { createAgentRegistry } = await import("@holdfast/agents/registry");
        try {
          return createAgentRegistry({ clock, directory: cwd }).agent(agent);
        } catch {
          return null;
        }
      },
    };
    const {
      forge = { kind: "auto", path: null },
      prices = {},
      assumedTokens,
      agentArgs = {},
      agentEnv = namedInEnvironment(process.env) ?? [],
      loops = DEFAULT_SLOTS,
      mainCheckout = "ask",
      setup = [],
      copy = [],
    } = params;
    const { agentIdleMs = AGENT_IDLE_MS, checkpointEveryMs = CHECKPOINT_EVERY_MS } = params;
    const { checkpoints = ALL_CHECKPOINTS, errorPolicy = defaultErrorPolicy, approve = [] } = params;
    const { loopLayout = DEFAULT_LAYOUT, adapters: decorate } = params;
    const checkout = copy.length === 0 ? cwd : await mainWorktreeRoot(workspaces, cwd);
    learnLater(await createCopiedFilesReader(checkout, copy));
    const masking = createMasking();
    const formats = new ImportExport(adapters, { cwd, settings: loopLayout, limit: loops.max, masking });
    const kept = {
      checkpoints,
      approve,
      errorPolicy,
      agentIdleMs,
      checkpointEveryMs,
      prices,
      assumedTokens,
      agentArgs,
      agentEnv,
      mainCheckout,
      setup,
      copy,
      loops,
      loopLayout,
    };
    const masked = (given: Adapters): Adapters => maskAdapters(decorate?.(given) ?? given, masking);
    const work = new RunService(adapters, { directory: cwd, announces: directory, forge, decorate: masked, ...kept });
    return new Holdfast({ cwd, adapters, formats, work, files });
  } catch (error) {
    await workspaces?.close();
    throw error;
  }
}

/** Machines that share a store compare times that others wrote, such as the end of a wait. So all of them use the clock of the store. */
async function clockOf(store: Store): Promise<Clock> {
  const ahead = systemClock.now() - (await store.now());
  return { now: () => systemClock.now() - ahead };
}

const AGENT_IDLE_MS = 30 * 60_000;
const CHECKPOINT_EVERY_MS = 10 * 60_000;

/** Throws USAGE for an unknown option, which would be ignored silently, and for a value of the wrong kind. */
export function checkOpenParams(call: string, params: OpenParams): void {
  checkOptions(call, params, OPEN_OPTIONS);
  const outside = params.copy?.find((pattern) => !isCopyPattern(pattern));
  if (outside !== undefined)
    throw usageError(
      `${JSON.stringify(outside)} cannot be copied into a worktree`,
      "Name files or patterns below the main checkout, such as .env.",
    );
}

export interface OpenParams {
  /** Default: the current directory. */
  readonly cwd?: string;
  /** A directory, or the postgres:// URL of a database; default HOLDFAST_STORE, else `<git common dir>/holdfast`. */
  readonly store?: string;
  /** If there is no store yet: true (default) creates it, false throws STORE_ABSENT. */
  readonly create?: boolean;
  /**
   * Opens the store for reading only: no file in its directory changes, and every write throws STORE_READ_ONLY. Default
   * false.
   */
  readonly readOnly?: boolean;
  /** Uses a store in memory instead of a real one, for dry runs. */
  readonly pretend?: boolean;
  readonly retention?: RetentionPolicy;
  /**
   * From this size of the database and of Holdfast's git objects on, runs wait for space. They report from 80 % of it
   * on. Default: no limit.
   */
  readonly maxStoreBytes?: number;
  readonly maxUntrackedBytes?: number;
  readonly includeIgnored?: boolean;
  /**
   * What happens when the main checkout changes during an agent call: "ask" (default) makes the run wait for your
   * answer, "report" only reports it.
   */
  readonly mainCheckout?: "ask" | "report";
  /**
   * Shell commands that make the fresh worktree of a run usable, such as `npm ci`. They run before the first agent call, and again when a
   * lockfile changes. Default: none.
   */
  readonly setup?: readonly string[];
  /**
   * Files that git ignores, such as `.env`, as paths or patterns. They are copied from the main checkout into the worktrees of runs.
   * Secrets that they assign to variables are masked. Default: none.
   */
  readonly copy?: readonly string[];
  /**
   * The name or URL of a git remote that gets the files of runs, so that another machine with the same store can continue them. Files that
   * are missing here are fetched from it. Default: none.
   */
  readonly filesRemote?: string;
  /** How long a write waits for a run that another live process holds. Default 0: LEASE_HELD at once. */
  readonly leaseWaitMs?: number;
  /** Called when calls wait for the store's database and it has not answered for five seconds: once until it answers. */
  readonly onWait?: (wait: DatabaseWait) => void;
  /** Directory under which forks and runs get their worktrees. */
  readonly worktrees?: string;
  /** The forge of issues and pull requests; default: detected from the remote. */
  readonly forge?: ForgeChoice;
  /** An agent that prints nothing for this long counts as hung and is ended; null: never. Default 30 minutes. */
  readonly agentIdleMs?: number | null;
  /**
   * Takes an additional checkpoint when a run has worked this long without one; null: only stages take checkpoints.
   * Default 10 minutes.
   */
  readonly checkpointEveryMs?: number | null;
  /** Which optional checkpoints runs take besides the required ones. Default: all. */
  readonly checkpoints?: CheckpointSwitches;
  /** Kinds of effects, such as `push` and `pull_request`, that wait for your approval. Default: none. */
  readonly approve?: readonly string[];
  /** How failed agent calls are handled. Default: retry with delays, then wait. */
  readonly errorPolicy?: ErrorPolicy;
  /** US dollars per million tokens by `provider:model`. They take precedence over the built-in prices. */
  readonly prices?: PriceTable;
  /** Tokens that a call of unknown usage counts as (`budget.assumedTokens`). */
  readonly assumedTokens?: number;
  /** Additional arguments for the agents' programs, by agent, such as `{ codex: ["--sandbox", "read-only"] }`. */
  readonly agentArgs?: AgentArgs;
  /**
   * Environment variables, by name or as `PREFIX_*`, that agents and gates get in addition to the default ones. Forge
   * and cloud tokens are not passed unless they are named here. Default: HOLDFAST_AGENT_ENV, names separated by commas.
   */
  readonly agentEnv?: readonly string[];
  /**
   * Where runs write files for other tools (`.aiwg`, `.claude/crunch`), and how many of a loop are kept. Default: beside
   * the store or where such files are already, and as many as the format publishes.
   */
  readonly loopLayout?: LayoutSettings;
  /** How many runs of which workflows may work at once. Default: 4 of ralph. */
  readonly loops?: SlotSettings;
  /**
   * Replaces adapters, for your own agent, forge or clock: receives the adapters that runs use and returns those to
   * use.
   */
  readonly adapters?: (adapters: Adapters) => Adapters;
}

const OPEN_OPTIONS = {
  cwd: "path",
  store: "path",
  create: "flag",
  readOnly: "flag",
  pretend: "flag",
  retention: "object",
  maxStoreBytes: "amount",
  maxUntrackedBytes: "amount",
  includeIgnored: "flag",
  mainCheckout: ["ask", "report"],
  setup: "texts",
  copy: "texts",
  filesRemote: "text",
  leaseWaitMs: "amount",
  onWait: "function",
  worktrees: "path",
  forge: "object",
  agentIdleMs: "amountOrNull",
  checkpointEveryMs: "amountOrNull",
  checkpoints: "object",
  approve: "texts",
  errorPolicy: "object",
  prices: "object",
  assumedTokens: "amount",
  agentArgs: "object",
  agentEnv: "texts",
  loopLayout: "object",
  loops: "object",
  adapters: "function",
} satisfies Readonly<Record<keyof OpenParams, OptionKind>>;
