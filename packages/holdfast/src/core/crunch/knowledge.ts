import type { Phase } from "./phase.ts";

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

export const KNOWLEDGE_TYPES = [
  "decision",
  "resolution",
  "pattern",
  "feedback",
  "incident",
  "remediation_pattern",
] as const;
export type KnowledgeType = (typeof KNOWLEDGE_TYPES)[number];

export type KnowledgeSource = {
  readonly type: "issue" | "review" | "manual" | "accumulated";
  readonly ref: string;
  readonly phase: Phase | null;
};

export type KnowledgeEntry = {
  /** KE-{type}-{YYYYMMDD}-{hash} */
  readonly id: string;
  readonly type: KnowledgeType;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** 1 when it was written; less the more it is reckoned to be out of date. */
  readonly decay: number;
  readonly tags: readonly string[];
  readonly source: KnowledgeSource;
  readonly content: string;
  readonly relationships: {
    readonly issues: readonly number[];
    readonly entries: readonly string[];
    readonly supersedes: readonly string[];
    readonly supersededBy: string | null;
  };
};

/** Something worth keeping that is not kept yet. Its name says which one of the run it is. */
export type PendingCapture = {
  readonly name: string;
  readonly type: KnowledgeType;
  readonly content: string;
  readonly tags: readonly string[];
  readonly source: KnowledgeSource;
  readonly issue: number;
};

export type Injection = { readonly phase: Phase; readonly entries: readonly string[]; readonly at: string };

/** What a run knows: what it was told, what it kept, and what it has yet to keep. */
export type KnowledgeBook = {
  /** Every entry that the run has met, told or kept. */
  readonly entries: readonly KnowledgeEntry[];
  readonly injected: readonly Injection[];
  /** What became of each capture, by its name: an entry made, or the one that said the same already. */
  readonly captured: readonly { readonly name: string; readonly entry: string; readonly made: boolean }[];
  readonly pending: readonly PendingCapture[];
};

export const emptyKnowledge: KnowledgeBook = { entries: [], injected: [], captured: [], pending: [] };
