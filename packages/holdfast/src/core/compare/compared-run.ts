import type { Amounts } from "../position/position.ts";
import type { Work } from "../run/run.ts";
import type { CheckTrail } from "./check-trails.ts";
import type { EffectSeen } from "./read-history.ts";
import type { LineagePoint } from "./lineage.ts";
import type { Measure } from "./read-measures.ts";

/** What one side of a comparison is like: a run as it stands, or as it stood at a checkpoint. Facts only; nothing is weighed. */
export interface ComparedRun {
  /** `RUN@n`; the bare run where nothing was saved. */
  readonly id: string;
  readonly run: string;
  /** null: nothing was saved. */
  readonly sequence: number | null;
  readonly workflow: string;
  readonly work: Work;
  /** How the run is now, also where an older checkpoint of it is compared. */
  readonly condition: { readonly kind: string; readonly reason: string | null };
  readonly stage: string | null;
  readonly iteration: number;
  readonly attempts: Readonly<Record<string, number>>;
  /** Agent calls, and steps that failed, in this run's own journal. */
  readonly calls: number;
  readonly failures: number;
  readonly checks: readonly CheckTrail[];
  readonly score: number | null;
  /** The scores of the run in their order; those of lines that a restore left are not here. */
  readonly scoreTrail: readonly number[];
  /** By dimension, newest of each. */
  readonly scores: readonly Measure[];
  readonly metrics: readonly Measure[];
  /** All that was spent, by the runs that it was forked from too. */
  readonly spent: Amounts;
  /** Since the fork; null for a run that is none. */
  readonly ownSpent: Amounts | null;
  /** Milliseconds: in which somebody worked on it, before a fork too; and of this run alone from its first entry to its last. */
  readonly time: { readonly work: number; readonly wall: number };
  readonly effects: readonly EffectSeen[];
  readonly pullRequest: { readonly number: number; readonly url: string } | null;
  /** Itself first, then what it was forked from. */
  readonly lineage: readonly LineagePoint[];
  readonly branch: string | null;
  readonly worktree: string | null;
  readonly tree: string | null;
  /** Files that differ from the last commit. */
  readonly uncommitted: number;
  readonly tags: readonly string[];
  /** What is wrong with its journal, or with that of a run that it was forked from: what is told of it here may be wrong too. */
  readonly damage: readonly string[];
}

/** What changed between two trees; null where one side has no files, or they are not in this repository. */
export interface CodeChange {
  readonly files: number;
  readonly added: number;
  readonly removed: number;
  readonly changed: readonly FileLines[];
}

export interface FileLines {
  readonly path: string;
  readonly status: string;
  /** The name it had before, of one that was renamed. */
  readonly from: string | null;
  /** null: binary. */
  readonly added: number | null;
  readonly removed: number | null;
}
