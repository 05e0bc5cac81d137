import { newBudget } from "../position/budget.ts";
import type { Context } from "../context/context.ts";
import type { ExecutionMode } from "../run/execution-mode.ts";
import type { Digest, JsonObject } from "../json.ts";
import type { Position } from "../position/position.ts";
import type { Trigger } from "./trigger.ts";
import { NO_VISIT } from "../position/visit.ts";

/** `<run>@<sequence>`, unique in a store and derivable, so no index is needed to find it. */
export type CheckpointId = `${string}@${number}`;

export interface CheckpointParent {
  readonly id: CheckpointId;
  readonly digest: Digest;
}

/** The planes that are saved as one act and restored as one act. All of them are JSON. */
export interface Planes {
  readonly position: Position;
  readonly context: Context;
  readonly files: FilesPlane | null;
  readonly conversation: ConversationPlane | null;
  /** Journal place up to which effects are settled, and those in flight. */
  readonly effects: EffectsMark;
  readonly inputs: InputsPlane;
  readonly config: ExecutionConfig;
  /** Kept verbatim: team, messages, knowledge, reflection, whatever an import brought. */
  readonly extensions: JsonObject;
}

/** The planes of a run that has done nothing yet; also the base that a library user's first save is laid over. */
export function emptyPlanes(params: { readonly workflow?: string; readonly stage?: string } = {}): Planes {
  return {
    position: {
      workflow: params.workflow ?? "none",
      definition: null,
      stage: params.stage ?? "none",
      iteration: 0,
      attempts: {},
      streaks: {},
      score: null,
      best: null,
      graph: null,
      budget: newBudget(),
      feedback: null,
      reason: null,
      visit: NO_VISIT,
    },
    context: { values: {}, tokens: {} },
    files: null,
    conversation: null,
    effects: { entry: 0, pending: [] },
    inputs: { issue: null, task: null, base: null, plan: null },
    config: { agent: null, model: null, temperature: null, seed: null, mode: "default", tools: [], inputs: {} },
    extensions: {},
  };
}

/** What `list` shows; cheap to read at any length of history. */
export interface CheckpointSummary {
  readonly id: CheckpointId;
  readonly run: string;
  readonly sequence: number;
  /** Place of this checkpoint in its run's journal. */
  readonly entry: number;
  readonly parent: CheckpointParent | null;
  readonly trigger: Trigger;
  /** Given by the user ("before the big refactor"), or null. */
  readonly name: string | null;
  /** ISO 8601, UTC. A label only: order comes from the sequence. */
  readonly createdAt: string;
  readonly stage: string;
  readonly iteration: number;
  readonly score: number | null;
  readonly tree: string | null;
  readonly tags: readonly string[];
  /** Bytes of the state as canonical JSON, and bytes that saving it added on disk, before they were compressed. */
  readonly size: { readonly logical: number; readonly added: number };
  readonly digest: Digest;
  /** Set aside as damaged: kept, but nothing resumes from it. */
  readonly quarantined: boolean;
}

export interface Checkpoint extends CheckpointSummary {
  readonly planes: Planes;
}

/**
 * A path as git has it. Names that are not valid UTF-8, hold control characters, or begin with a double quote
 * are C-quoted with surrounding double quotes (git's own quoting), so that any byte string survives JSON.
 */
export type GitPath = string;

export type ArtifactStatus = "created" | "modified" | "deleted" | "unchanged";

export interface FilesPlane {
  /** Tree id of the whole workspace: tracked, untracked and shell-made changes alike. */
  readonly tree: string;
  /** The commit that pins it, under refs/holdfast/<run>/<sequence>. */
  readonly commit: string;
  readonly ref: string;
  readonly worktree: string;
  /** null in a repository without commits. */
  readonly head: string | null;
  /** Full name (refs/heads/x); null when detached. */
  readonly branch: string | null;
  readonly base: string | null;
  /** Against HEAD. Capped; `artifactCount` is the true number. */
  readonly artifacts: readonly {
    readonly path: GitPath;
    readonly digest: string | null;
    readonly status: ArtifactStatus;
  }[];
  readonly artifactCount: number;
  readonly skipped: readonly Skipped[];
  /** Submodules and nested repositories: named, not entered. */
  readonly nested: readonly { readonly path: GitPath; readonly head: string | null }[];
  /** The user's index as a blob, and an operation in progress (merge, rebase, …): shown, never replayed. */
  readonly index: string | null;
  readonly operation: string | null;
}

export interface Skipped {
  readonly path: GitPath;
  readonly reason: "too_large" | "special_file" | "unreadable" | "nested_repository";
  readonly bytes: number | null;
}

export interface ConversationPlane {
  readonly agent: string;
  readonly session: string | null;
  /** A copy of what was said, secrets masked; digest and length are of its UTF-8. */
  readonly transcript: { readonly digest: Digest; readonly bytes: number; readonly text: string } | null;
  readonly lastMessage: string | null;
  /**
   * The run went back to this ("restore") or began with it ("fork"), and no agent has been called since: what the agent itself remembers may be
   * ahead of it, and a fork's session is its parent's too.
   */
  readonly rewound?: "restore" | "fork";
}

export interface EffectsMark {
  readonly entry: number;
  readonly pending: readonly string[];
}

export interface IssueSnapshot {
  readonly number: number;
  readonly title: string;
  readonly body: string;
  readonly labels: readonly string[];
  readonly state: "open" | "closed";
  readonly updatedAt: string;
}

export interface InputsPlane {
  readonly issue: IssueSnapshot | null;
  readonly task: string | null;
  readonly base: string | null;
  readonly plan: { readonly path: string; readonly digest: Digest } | null;
}

export interface ExecutionConfig {
  readonly agent: string | null;
  readonly model: string | null;
  readonly temperature: number | null;
  readonly seed: number | null;
  readonly mode: ExecutionMode;
  readonly tools: readonly string[];
  readonly inputs: JsonObject;
}
