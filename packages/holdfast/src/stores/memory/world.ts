import type { CheckpointSummary, Planes } from "../../core/checkpoint/checkpoint.ts";
import type { Effect } from "../../core/effect/effect.ts";
import type { JournalEntry } from "../../core/journal/journal.ts";
import type { Digest, Json } from "../../core/json.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Run } from "../../core/run/run.ts";
import type { RunFold } from "../../core/journal/run-fold.ts";
import type { Tombstone } from "../../ports/store.ts";
import { createMemo } from "../../core/values/index.ts";
import type { Memo } from "../../core/values/index.ts";
import { randomId } from "../../system/ids.ts";

/** What the handles of one memory store share. Gone with the process. */
export interface MemoryWorld {
  readonly id: string;
  /** In the order of creation. */
  readonly runs: Map<string, MemoryRun>;
  /** Every entry of every run, in the order of commit. */
  readonly log: JournalEntry[];
  readonly facts: Map<string, string>;
  readonly listeners: Set<() => void>;
  readonly memo: Memo;
  readonly chunks: Map<Digest, number>;
}

export interface MemoryRun {
  readonly run: Run;
  epoch: number;
  lease: Lease | null;
  readonly entries: JournalEntry[];
  fold: RunFold;
  /** By sequence; without tags and quarantine, which are added on the way out. */
  readonly checkpoints: Map<number, MemoryCheckpoint>;
  sequence: number;
  digest: Digest | null;
  readonly tags: Map<string, number>;
  readonly effects: Map<string, Effect>;
  readonly tombstones: Map<number, Tombstone>;
  readonly quarantined: Set<number>;
}

export interface MemoryCheckpoint {
  readonly summary: CheckpointSummary;
  readonly planes: Planes & Json;
  readonly root: Digest;
}

export function createMemoryWorld(): MemoryWorld {
  return {
    id: randomId(),
    runs: new Map(),
    log: [],
    facts: new Map(),
    listeners: new Set(),
    memo: createMemo(),
    chunks: new Map(),
  };
}
