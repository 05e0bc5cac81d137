import type { Clock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import type { Outputs } from "@holdfast/platform/outputs";
import type { Agent } from "./agent.ts";
import type { PriceTable } from "./budget.ts";
import type { CheckpointSwitches, Planes, Trigger } from "./checkpoint.ts";
import type { Commands } from "./commands.ts";
import type { ErrorPolicy } from "./error-policy.ts";
import type { Forge } from "./forge.ts";
import type { JsonObject } from "./json.ts";
import type { LeaseOwner, OwnerLiveness } from "./lease.ts";
import type { FoundSecret } from "./mask.ts";
import type { Player } from "./player.ts";
import type { Tape } from "./recorded-calls.ts";
import type { RetentionPolicy } from "./retention.ts";
import type { Run } from "./run.ts";
import type { Signals } from "./signal-files.ts";
import type { Store } from "./store.ts";
import type { Branches, SnapshotParams, SnapshotRef, Workspace, Workspaces, WorktreeInfo } from "./workspace.ts";

/** Everything the engine works with, handed in by the app. */
export interface CoreAdapters {
  readonly store: Store;
  /** null outside a git repository. */
  readonly workspaces: Workspaces | null;
  readonly clock: Clock;
  /** A few random characters from [a-z0-9], for names. */
  readonly random: () => string;
  readonly retention: RetentionPolicy;
  readonly maxUntrackedBytes: number | undefined;
  readonly includeIgnored: boolean;
  /** Is this the repository's own store? Another one may hold runs of the same names: their refs are not ours to sweep. */
  readonly ownsRefs: boolean;
  /** Free space of the file system of this path. Absent: it cannot be measured here. */
  readonly freeBytes?: (path: string) => Promise<number>;
  /** Is the owner of this lease still there? */
  readonly liveness: (owner: LeaseOwner) => OwnerLiveness;
  /** Is it stopped by a signal, so that it gives no sign of life until it is let go on? Absent: nobody can tell. */
  readonly suspended?: (owner: LeaseOwner) => boolean;
  /** How long the first write waits for a run that another live process holds. */
  readonly leaseWaitMs: number;
  /** Where others ask the holder of a run's lease for a checkpoint; null: this store has no such place. */
  readonly requests: Signals | null;
  /** Where new worktrees go; undefined: the workspace's own default. */
  readonly worktreePath: ((run: string) => string) | undefined;
  /** What an agent of this name can do with its sessions; null: no such agent. Absent: nobody knows agents here. */
  readonly sessionsOf?: (agent: string) => Promise<SessionAgent | null>;
}

export type SessionAgent = Pick<Agent, "name" | "capabilities" | "sessions">;

/** What every snapshot and look is taken with. */
export function snapshotParams(
  parts: CoreAdapters,
): Pick<SnapshotParams, "at" | "maxUntrackedBytes" | "includeIgnored"> {
  const { clock, maxUntrackedBytes, includeIgnored } = parts;
  const at = new Date(clock.now()).toISOString();
  return { at, includeIgnored, ...(maxUntrackedBytes === undefined ? {} : { maxUntrackedBytes }) };
}

/** What a workflow works with, beyond what checkpoints need. */
export interface Adapters extends CoreAdapters {
  /** By the part before the colon; USAGE with the known names for any other. */
  readonly agent: (provider: string) => Agent;
  /** An agent that gives no sign of life for this long hangs; null: it may be silent for ever. */
  readonly agentIdleMs: number | null;
  /** Also a checkpoint whenever the run has gone on for so long without one; null: only where stages take them. */
  readonly checkpointEveryMs: number | null;
  readonly checkpoints: CheckpointSwitches;
  /** What is done about failed agent calls. */
  readonly errorPolicy: ErrorPolicy;
  /** What tokens cost where an agent tells no money. */
  readonly prices: PriceTable;
  /** What follows a change in the user's main checkout during an agent call; absent: it is not watched. */
  readonly mainCheckout?: "ask" | "report";
  /**
   * Why this agent may not be called in this worktree: the user has not consented to what it would execute there. null: it may. The run then
   * waits for the user. Absent: every call may be made.
   */
  readonly refuseCall?: (call: { readonly agent: string; readonly worktree: string }) => Promise<string | null>;
  /** null: no forge is configured or could be told from the remote. */
  readonly forge: Forge | null;
  readonly branches: Branches;
  readonly commands: Commands;
  readonly syntax: SyntaxGate;
  readonly outputs: (root: string) => Outputs;
  /** Where an agent call's raw output goes, for `holdfast logs`; lines of one call, appended. */
  readonly agentLog: (params: AgentCallKey) => AgentLog;
  /** Where a call's result waits until the journal has it, so that a process that dies in between has not paid for nothing. */
  readonly agentAnswer: (params: AgentCallKey) => ResultFile;
  /**
   * A run as the document that older tools of the impl workflow read, whole with the fields of the one that it was imported from. Handed in
   * because formats are none of a workflow's business; the same writer that `holdfast export` has.
   */
  readonly implDocument: (params: ImplDocumentParams) => string;
  /**
   * Which checkpoints a crunch run takes and shows, as `.claude/checkpoint-config.yaml` says at this moment. FORMAT_INVALID names the line that cannot
   * be meant.
   */
  readonly crunchTriggers: () => Promise<
    Readonly<Record<Trigger, { readonly taken: boolean; readonly shown: boolean }>>
  >;
  /** Of a run that is recorded: what it asks of the outside is noted there. Of one run each. */
  readonly tape?: Tape;
  /** Of a replay: steps are answered from the record, and nothing outside is touched. */
  readonly player?: Player;
  /** Hides secrets, those of the environment included. Absent: by their shape alone. */
  readonly masking?: { mask(text: string): string; find(text: string): readonly FoundSecret[] };
  /** For tests: after each commit, load the run from the store and compare it with the state in memory. Absent: no. */
  readonly checksState?: boolean;
  /** Waits, or rejects with the signal's reason. Injected so that tests need not wait. */
  readonly wait: (milliseconds: number, signal: AbortSignal) => Promise<void>;
}

export interface ImplDocumentParams {
  readonly run: Pick<Run, "workflow" | "work">;
  readonly planes: Pick<Planes, "position" | "inputs" | "extensions"> & { readonly values: JsonObject };
  readonly worktree: string;
  /** A run that simplifies is of version 2, also before it comes to that. */
  readonly simplifies: boolean;
  /** ISO 8601 UTC. */
  readonly at: string;
}

export interface AgentCallKey {
  readonly run: string;
  readonly visit: number;
  readonly step: string;
}

export interface ResultFile {
  /** Durable when it returns. A text that cannot be written is left out: it costs another call at worst. */
  write(text: string): void;
  read(): string | null;
  remove(): void;
}

interface AgentLog {
  readonly path: string;
  append(line: string): void;
  close(): Promise<void>;
}

/** Does every file parse? By file ending, with the tools at hand. */
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
  /** No tool for this kind of file, or the file is gone. Said, never hidden. */
  | { readonly kind: "skipped"; readonly path: string; readonly why: string };

/**
 * Begins the mark of every process of a run. Runs of two repositories may have one name (issue-1), and a host has the
 * processes of both: without the store's own id, ending ours would end theirs.
 */
export function runMark({ store }: Pick<CoreAdapters, "store">, run: string): string {
  return `${store.id}/${run}`;
}

/** Label of a run that captures a worktree of the user's: which one. */
export const WORKTREE = "worktree";

/** Of a fork that was asked to have no worktree: its saves hold no files. */
export const NO_WORKTREE = "none";

/** The main worktree moves with its repository, so it is not remembered by its path. */
const MAIN = "main";

export function worktreeLabel(path: string, worktrees: readonly WorktreeInfo[]): string {
  return worktrees[0]?.path === path ? MAIN : path;
}

function findLabelled(worktrees: readonly WorktreeInfo[], labels: JsonObject): WorktreeInfo | undefined {
  const label = labels[WORKTREE];
  return label === MAIN ? worktrees[0] : worktrees.find((tree) => tree.path === label);
}

/** The worktree made for this run, or the one it was started in; undefined when neither is there. */
export async function findRunWorkspace(parts: CoreAdapters, run: Run): Promise<Workspace | undefined> {
  const { workspaces } = parts;
  if (workspaces === null) return undefined;
  const own = await workspaces.find(run.id);
  if (own !== undefined) return own;
  const tree = findLabelled(await workspaces.list(), run.labels);
  return tree?.exists === true ? await workspaces.open(tree.path) : undefined;
}

/** A folder from which the repository can be asked: a worktree, wherever it stands, or the repository itself when it is bare. */
export async function findAnyWorktree(workspaces: Workspaces, first: string | null = null): Promise<string | null> {
  if (first !== null) return first;
  const tree = (await workspaces.list()).find(({ exists }) => exists);
  return tree?.path ?? (workspaces.bare ? workspaces.commonDir : null);
}

/**
 * Refs of checkpoints that the store does not know and a crash cannot explain, oldest first. A run is made before anything is pinned
 * for it, and a save that was killed has pinned at most the checkpoint after the newest. So any other ref says that the store is an older
 * copy of itself. Only the repository's own store can be judged by its refs.
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

/** STORE_CUT before anything is done for a run of which the repository knows more than the store: it would be done again. */
export async function rejectRolledBackStore(
  parts: Pick<CoreAdapters, "store" | "workspaces" | "ownsRefs">,
  run: string,
): Promise<void> {
  const newer = await findNewerRefs(parts, run);
  const [first] = newer;
  if (first === undefined) return;
  throw new HoldfastError({
    code: "STORE_CUT",
    message: `The store ${parts.store.location} is older than the repository: ${first.ref}${newer.length > 1 ? ` and ${newer.length - 1} more refs name checkpoints` : " names a checkpoint"} of run ${run} that it does not know`,
    hint: `Bring back the newer store. To accept the loss and continue with what is there: git update-ref -d ${newer.map(({ ref }) => ref).join(" && git update-ref -d ")}`,
    data: { location: parts.store.location, run, refs: newer.map(({ ref }) => ref) },
  });
}
