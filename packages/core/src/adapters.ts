// The adapters that the engine depends on: store, clock, workspaces, agents, forge and commands, injected by the
// application. The functions here find a run's worktree and detect a store that is older than its repository.
import { basename, dirname, join } from "node:path";
import type { Clock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import type { Outputs } from "@holdfast/platform/outputs";
import type { Agent } from "./agent.ts";
import type { AgentLogs } from "./agent-log.ts";
import type { PriceTable } from "./budget.ts";
import type { CheckpointSwitches, Toolchain } from "./checkpoint.ts";
import type { Commands } from "./commands.ts";
import type { ErrorPolicy } from "./error-policy.ts";
import type { Forge } from "./forge.ts";
import type { JsonObject } from "./json.ts";
import type { LeaseOwner, OwnerLiveness } from "./lease.ts";
import type { FoundSecret } from "./mask.ts";
import type { CallRecorder } from "./recorded-calls.ts";
import type { RetentionPolicy } from "./retention.ts";
import type { Run } from "./run.ts";
import type { Store } from "./store.ts";
import { readPrograms } from "./toolchain.ts";
import type { Branches } from "./branch.ts";
import type { SnapshotParams, SnapshotRef, Workspace, Workspaces, WorktreeInfo } from "./workspace.ts";

/** A run whose removal was interrupted. The same command completes it. */
export interface HalfRemovedRun {
  readonly run: string;
  readonly removedAt: string;
  readonly by: string;
}

/** Adapters that checkpoints, restore, fork and gc need. The application injects them. */
export interface CoreAdapters {
  readonly store: Store;
  /** Runs whose removal was interrupted. The store does not list them. Absent: there are none. */
  readonly halfRemoved?: () => Promise<readonly HalfRemovedRun[]>;
  /** Where processes keep files beside the store. null: the store has no directory. */
  readonly storeDirectory: string | null;
  readonly logs: AgentLogs;
  /** null outside a git repository. */
  readonly workspaces: Workspaces | null;
  readonly clock: Clock;
  /** A few random characters from [a-z0-9], for names. */
  readonly random: () => string;
  readonly retention: RetentionPolicy;
  readonly maxUntrackedBytes: number | undefined;
  readonly includeIgnored: boolean;
  /** True for the repository's own store. Another store may hold runs with the same names, so its gc must not delete these refs. */
  readonly ownsRefs: boolean;
  /** Free bytes of the file system that holds this path. Absent: free space cannot be measured. */
  readonly freeBytes?: (path: string) => Promise<number>;
  /** From this size of the database and of Holdfast's git objects on, runs wait. Absent: no limit. */
  readonly maxStoreBytes?: number;
  /** Reports whether the process that owns a lease is alive. */
  readonly liveness: (owner: LeaseOwner) => OwnerLiveness;
  /** Reports whether a stop signal (SIGSTOP) suspends the owner, which then sends no heartbeat. Absent: this cannot be detected. */
  readonly suspended?: (owner: LeaseOwner) => boolean;
  /** Milliseconds that the first write waits for a lease that another live process holds. */
  readonly leaseWaitMs: number;
  /** Path for a new worktree. undefined: the workspace's default. */
  readonly worktreePath: ((run: string) => string) | undefined;
  /** Session capabilities of the agent with this name. null: the agent is unknown. Absent: no agents are configured. */
  readonly sessionsOf?: (agent: string) => Promise<SessionAgent | null>;
}

export type SessionAgent = Pick<Agent, "name" | "capabilities" | "sessions">;

/** Parameters that every snapshot and preview of a worktree uses. */
export function snapshotParams(
  adapters: CoreAdapters,
): Pick<SnapshotParams, "at" | "maxUntrackedBytes" | "includeIgnored"> {
  const { clock, maxUntrackedBytes, includeIgnored } = adapters;
  const at = new Date(clock.now()).toISOString();
  return { at, includeIgnored, ...(maxUntrackedBytes === undefined ? {} : { maxUntrackedBytes }) };
}

/** Adapters that a workflow needs beyond those for checkpoints. */
export interface Adapters extends CoreAdapters {
  /** Finds an agent by the part of `provider:model` before the colon. An unknown name throws USAGE, which lists the known ones. */
  readonly agent: (provider: string) => Agent;
  /** Milliseconds without output after which an agent counts as hung. null: no limit. */
  readonly agentIdleMs: number | null;
  /** Interval in milliseconds for additional checkpoints. null: only stages take checkpoints. */
  readonly checkpointEveryMs: number | null;
  readonly checkpoints: CheckpointSwitches;
  /** Kinds of effects that wait for the user's approval. Absent: none. */
  readonly approve?: readonly string[];
  /** Decides what follows a failed agent call. */
  readonly errorPolicy: ErrorPolicy;
  /** Token prices for agents that do not report their cost. */
  readonly prices: PriceTable;
  /** Tokens that a call of unknown usage counts as, before the run has a larger one. Absent: ASSUMED_TOKENS. */
  readonly assumedTokens?: number;
  /** Reaction to a change in the user's main checkout during an agent call. Absent: the engine does not watch the checkout. */
  readonly mainCheckout?: "ask" | "report";
  /**
   * Returns why this agent may not run in this worktree: the user has not consented to what it would execute there. The
   * run then waits for the user. null: the call is allowed. Absent: every call is allowed.
   */
  readonly refuseCall?: (call: { readonly agent: string; readonly worktree: string }) => Promise<string | null>;
  /** What makes a fresh worktree usable. Absent: a run uses its worktrees as git makes them. */
  readonly worktreeSetup?: WorktreeSetup;
  /** Versions of the agents that this process has checked, by name. Absent: none are known. */
  readonly agentVersions?: () => Readonly<Record<string, string>>;
  /** null: no forge is configured, and none could be detected from the remote. */
  readonly forge: Forge | null;
  readonly branches: Branches;
  readonly commands: Commands;
  readonly syntax: SyntaxGate;
  readonly outputs: (root: string) => Outputs;
  /** The main worktree, where users and other tools keep their configuration. Also during a replay. */
  readonly projectRoot: () => Promise<string>;
  /** Recorder of one run's calls to agents, commands and the forge. Absent: the run is not recorded. */
  readonly recorder?: CallRecorder;
  /** Masks secrets, including values from the environment. Absent: only secrets with a known format are masked. */
  readonly masking?: { mask(text: string): string; find(text: string): readonly FoundSecret[] };
  /** For tests: after each commit, load the run from the store and compare it with the state in memory. Absent: false. */
  readonly checksState?: boolean;
  /** Waits, or rejects with the signal's reason. Injected so that tests do not wait. */
  readonly wait: (milliseconds: number, signal: AbortSignal) => Promise<void>;
}

/** The programs that a run uses now, in the form in which checkpoints record them. Starts no process. */
export function currentPrograms(
  { worktreeSetup, agentVersions }: Pick<Adapters, "worktreeSetup" | "agentVersions">,
  before?: Toolchain,
): Toolchain {
  return readPrograms({ commands: worktreeSetup?.commands ?? [], agents: agentVersions?.() ?? {} }, before);
}

/** What the user configured for fresh worktrees (`workspace` in the config). */
export interface WorktreeSetup {
  /** Shell commands, run in this order. */
  readonly commands: readonly string[];
  /** Files and patterns that are copied from the main checkout. */
  readonly copy: readonly string[];
}

/** Checks that files parse. The file extension selects the parser, and only installed tools are used. */
export interface SyntaxGate {
  check(params: {
    readonly root: string;
    readonly paths: readonly string[];
    readonly signal: AbortSignal;
  }): Promise<readonly SyntaxVerdict[]>;
}

export type SyntaxVerdict =
  | { readonly kind: "parsed"; readonly path: string; readonly by: string }
  | {
      readonly kind: "failed";
      readonly path: string;
      readonly by: string;
      readonly line: number | null;
      readonly message: string;
    }
  /** No tool exists for this file type, or the file was deleted. The result is reported, never dropped. */
  | { readonly kind: "skipped"; readonly path: string; readonly why: string };

/**
 * Prefix of the mark of every process of a run. It contains the store's id, because runs of two repositories may have
 * the same name (issue-1). Without the id, terminating our processes would terminate theirs.
 */
export function runMark({ store }: Pick<CoreAdapters, "store">, run: string): string {
  return `${store.id}/${run}`;
}

/** Label of a run that captures one of the user's worktrees. Its value is the worktree's path, or MAIN. */
export const WORKTREE = "worktree";

/** Label value of a fork that was created without a worktree. A resume creates one. */
export const NO_WORKTREE = "none";

/** Label value for the main worktree. Its path is not stored, because it moves with the repository. */
const MAIN = "main";

export function worktreeLabel(path: string, worktrees: readonly WorktreeInfo[]): string {
  return worktrees[0]?.path === path ? MAIN : path;
}

function findLabelled(worktrees: readonly WorktreeInfo[], labels: JsonObject): WorktreeInfo | undefined {
  const label = labels[WORKTREE];
  return label === MAIN ? worktrees[0] : worktrees.find((tree) => tree.path === label);
}

/** Finds the worktree created for this run, or the one that it started in. undefined: neither exists. */
export async function findRunWorkspace(adapters: CoreAdapters, run: Run): Promise<Workspace | undefined> {
  const { workspaces } = adapters;
  if (workspaces === null) return undefined;
  const own = await workspaces.find(run.id);
  if (own !== undefined) return own;
  const tree = findLabelled(await workspaces.list(), run.labels);
  return tree?.exists === true ? await workspaces.open(tree.path) : undefined;
}

/** Where the worktree of a run is created: where the settings say, else beside the main worktree. "" without a repository. */
export function newWorktreePath(
  { workspaces, worktreePath }: Pick<CoreAdapters, "workspaces" | "worktreePath">,
  [main]: readonly { readonly path: string }[],
  run: string,
): string {
  if (worktreePath !== undefined) return worktreePath(run);
  if (workspaces === null) return "";
  if (main === undefined || workspaces.bare) return join(workspaces.commonDir, "trees", run);
  return join(dirname(main.path), `${basename(main.path)}-worktrees`, run);
}

/**
 * Where the worktree of an existing run is created again: where git still has an entry of it, else where that of a new run would be. The path
 * in a checkpoint may be one of another machine.
 */
export async function lostWorktreePath(
  adapters: Pick<CoreAdapters, "workspaces" | "worktreePath">,
  run: string,
): Promise<string> {
  const trees = (await adapters.workspaces?.list()) ?? [];
  const own = trees.find((tree) => tree.run === run && !tree.sideWorktree);
  return own?.path ?? newWorktreePath(adapters, trees, run);
}

/** Returns a directory in which git can query the repository: any existing worktree, or the repository itself when it is bare. */
export async function findAnyWorktree(workspaces: Workspaces, first: string | null = null): Promise<string | null> {
  if (first !== null) return first;
  const tree = (await workspaces.list()).find(({ exists }) => exists);
  return tree?.path ?? (workspaces.bare ? workspaces.commonDir : null);
}

/**
 * Finds refs of checkpoints that the store does not know and that a crash cannot explain, oldest first. A run exists
 * before anything is pinned for it, and a killed save pins at most the checkpoint after the newest. Any other ref
 * proves that the store is an older copy of itself. Only the repository's own store can be checked by its refs.
 */
export async function findNewerRefs(
  { store, workspaces, ownsRefs }: Pick<CoreAdapters, "store" | "workspaces" | "ownsRefs">,
  run: string,
  known?: readonly SnapshotRef[],
): Promise<readonly SnapshotRef[]> {
  if (workspaces === null || !ownsRefs) return [];
  const refs = (known ?? (await workspaces.refs(run))).filter((ref) => ref.run === run);
  if (refs.length === 0) return [];
  const exists = (await store.getRun(run)) !== undefined;
  const [newest] = exists ? await store.listCheckpoints({ run, limit: 1 }) : [];
  const last = exists ? (newest?.sequence ?? 0) + 1 : 0;
  return refs.filter(({ sequence }) => sequence > last).toSorted((a, b) => a.sequence - b.sequence);
}

/** Throws STORE_CUT when the repository has newer checkpoints of the run than the store. Continuing would repeat finished work. */
export async function rejectRolledBackStore(
  adapters: Pick<CoreAdapters, "store" | "workspaces" | "ownsRefs">,
  run: string,
): Promise<void> {
  const newer = await findNewerRefs(adapters, run);
  const [first] = newer;
  if (first === undefined) return;
  throw new HoldfastError({
    code: "STORE_CUT",
    message: `The store ${adapters.store.location} is older than the repository: ${first.ref}${newer.length > 1 ? ` and ${newer.length - 1} more refs name checkpoints` : " names a checkpoint"} of run ${run} that it does not know`,
    hint: `Bring back the newer store. To accept the loss and continue with what is there: git update-ref -d ${newer.map(({ ref }) => ref).join(" && git update-ref -d ")}`,
    data: { location: adapters.store.location, run, refs: newer.map(({ ref }) => ref) },
  });
}
