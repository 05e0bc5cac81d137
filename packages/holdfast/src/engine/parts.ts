import type { LeaseOwner, OwnerLiveness } from "../core/lease/lease.ts";
import type { RetentionPolicy } from "../core/retention/retention.ts";
import type { Agent } from "../ports/agent.ts";
import type { Clock } from "../ports/clock.ts";
import type { Requests } from "../ports/requests.ts";
import type { Store } from "../ports/store.ts";
import type { SnapshotParams, Workspaces } from "../ports/workspace.ts";

/** Everything the engine works with, handed in by the app. */
export interface Parts {
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
  readonly requests: Requests | null;
  /** Where new worktrees go; undefined: the workspace's own default. */
  readonly worktreePath: ((run: string) => string) | undefined;
  /** What an agent of this name can do with its sessions; null: no such agent. Absent: nobody knows agents here. */
  readonly sessionsOf?: (agent: string) => Promise<SessionAgent | null>;
}

export type SessionAgent = Pick<Agent, "name" | "capabilities" | "sessions">;

/** What every snapshot and look is taken with. */
export function lookParams(parts: Parts): Pick<SnapshotParams, "at" | "maxUntrackedBytes" | "includeIgnored"> {
  const { clock, maxUntrackedBytes, includeIgnored } = parts;
  const at = new Date(clock.now()).toISOString();
  return { at, includeIgnored, ...(maxUntrackedBytes === undefined ? {} : { maxUntrackedBytes }) };
}
