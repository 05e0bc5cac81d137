import type { RunState } from "../run/run.ts";

/** All that a rollback is chosen from: read from the journal once, and judged without looking anywhere else. */
export interface RollbackFacts {
  readonly run: string;
  readonly state: RunState;
  /** Every checkpoint that is not dropped, in any order. */
  readonly candidates: readonly RollbackCandidate[];
  /** On the line that the run stands on, oldest first; those of a line that a restore left are not here. */
  readonly checks: readonly CheckResult[];
  readonly scores: readonly ScoreResult[];
  readonly effects: readonly EffectFact[];
  readonly trouble: Trouble;
}

export interface RollbackCandidate {
  readonly sequence: number;
  /** Place in the journal: effects are before or after it. */
  readonly entry: number;
  readonly stage: string;
  readonly iteration: number;
  readonly tree: string | null;
  /** null: whole. */
  readonly damage: Damage | null;
  /** Steps that were changing files when it was taken. */
  readonly half: readonly string[];
  /** A restore went back past it, or replaced files of it. */
  readonly leftBehind: boolean;
  /** The run had ended, or stood in the stage that ends it. */
  readonly ended: boolean;
  /** Against the checkpoint before it; null: nobody has looked. */
  readonly changed: FileCounts | null;
}

export interface Damage {
  readonly kind: "quarantined" | "damaged";
  readonly problem: string;
}

export interface FileCounts {
  readonly added: number;
  readonly modified: number;
  readonly removed: number;
}

/** What a gate said, and of which files. */
export interface CheckResult {
  readonly name: string;
  readonly entry: number;
  /** The checkpoint that holds the files it judged; it may be dropped by now. */
  readonly sequence: number;
  /** Equal for equal files. */
  readonly files: string;
  readonly pass: boolean;
  readonly reason: string;
}

export interface ScoreResult {
  readonly entry: number;
  readonly sequence: number;
  readonly files: string;
  readonly score: number;
}

export interface EffectFact {
  readonly key: string;
  readonly kind: string;
  readonly target: string;
  /** Where it was settled, or intended as long as nobody knows whether it happened. */
  readonly entry: number;
  /** null: looked up and adopted on the way forward. Else why that cannot be. */
  readonly unsafe: string | null;
}

/** What stands last in the journal of things that went wrong. */
export type Trouble =
  | { readonly kind: "none" }
  /** A provider, a network, a budget, a disk: no state of the files is to blame. */
  | { readonly kind: "outside"; readonly reason: string }
  | { readonly kind: "failed"; readonly reason: string };

/** What "the same files" means; a checkpoint without files is like no other. */
export function filesKey(checkpoint: { readonly tree: string | null; readonly sequence: number }): string {
  return checkpoint.tree ?? `#${checkpoint.sequence}`;
}
