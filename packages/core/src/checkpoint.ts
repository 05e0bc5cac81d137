// The checkpoint: its planes (position, context, files, conversation, effects, inputs, config), its summary, and the strict parser of planes
// that a run, a format or a run file brings.
import { newBudget } from "./budget.ts";
import { graphShape } from "./graph-state.ts";
import {
  type Digest,
  type JsonObject,
  type Shape,
  count,
  dictionary,
  finite,
  flag,
  json,
  jsonObject,
  list,
  nullable,
  object,
  oneOf,
  optional,
  parseShape,
  text,
} from "./json.ts";
import {
  type Amounts,
  type Budget,
  NO_ATTEMPT,
  type Position,
  type RunningStep,
  type StageAttempt,
  callErrorsShape,
  tokensShape,
} from "./position.ts";

/** `<run>@<sequence>`. It is unique in a store and derivable, so no index is needed to find it. */
export type CheckpointId = `${string}@${number}`;

export interface CheckpointParent {
  readonly id: CheckpointId;
  readonly digest: Digest;
}

/** The planes that a checkpoint saves and restores atomically. All of them are JSON. */
export interface Planes<V extends object = JsonObject> {
  readonly position: Position;
  readonly context: Context<V>;
  readonly files: FilesPlane | null;
  readonly conversation: ConversationPlane | null;
  /** Journal entry number up to which effects are settled, and the effects in flight. */
  readonly effects: EffectsMark;
  readonly inputs: InputsPlane;
  readonly config: ExecutionConfig;
  /** Stored verbatim: team, messages, knowledge, reflection, and other fields of an imported document. */
  readonly extensions: JsonObject;
  /** Absent in checkpoints that no execution took, and in those of older versions. */
  readonly toolchain?: Toolchain;
}

/** The planes of a run that has done nothing yet. A library user's first save is merged over them. */
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
      stageAttempt: NO_ATTEMPT,
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

/** What `list` shows. Reading it stays cheap, however long the history is. */
export interface CheckpointSummary {
  readonly id: CheckpointId;
  readonly run: string;
  readonly sequence: number;
  /** Entry number of this checkpoint in its run's journal. */
  readonly entry: number;
  readonly parent: CheckpointParent | null;
  readonly trigger: Trigger;
  /** The user's name for it ("before the big refactor"), or null. */
  readonly name: string | null;
  /** ISO 8601, UTC. For display only: the sequence defines the order. */
  readonly createdAt: string;
  readonly stage: string;
  readonly iteration: number;
  readonly score: number | null;
  readonly tree: string | null;
  readonly tags: readonly string[];
  /** Bytes of the state as canonical JSON, and uncompressed bytes that this save added to the store. */
  readonly size: { readonly logical: number; readonly added: number };
  readonly digest: Digest;
  /** Quarantined as damaged: it is kept, but no run resumes from it. */
  readonly quarantined: boolean;
}

/** `V` is the type of its values. */
export interface Checkpoint<V extends object = JsonObject> extends CheckpointSummary {
  readonly planes: Planes<V>;
}

export function summaryOf({ planes: _planes, ...summary }: Checkpoint): CheckpointSummary {
  return summary;
}

/**
 * A path as git prints it. Names that are not valid UTF-8, contain control characters, or begin with a double quote
 * are C-quoted in double quotes, as git does. So any byte string survives JSON.
 */
export type GitPath = string;

type ArtifactStatus = "created" | "modified" | "deleted" | "unchanged";

export interface FilesPlane {
  /** Tree id of the whole workspace: tracked files, untracked files and changes by shell commands. */
  readonly tree: string;
  /** The git object of the snapshot, a tag of the tree. `ref` names it. */
  readonly snapshot: string;
  readonly ref: string;
  readonly worktree: string;
  /** null in a repository without commits. */
  readonly head: string | null;
  /** Full name (refs/heads/x). null: HEAD is detached. */
  readonly branch: string | null;
  readonly base: string | null;
  /** Differences to HEAD. The list is capped; `artifactCount` is the true number. */
  readonly artifacts: readonly {
    readonly path: GitPath;
    readonly digest: string | null;
    readonly status: ArtifactStatus;
  }[];
  readonly artifactCount: number;
  readonly skipped: readonly Skipped[];
  /** Submodules and nested repositories: listed, but not captured. */
  readonly nested: readonly { readonly path: GitPath; readonly head: string | null }[];
  /** The user's index as a blob, and the git operation in progress (merge, rebase, …). Only a worktree that is created again gets this index. */
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
  /** Copy of the conversation with secrets masked. `digest` and `bytes` refer to its UTF-8 encoding. */
  readonly transcript: { readonly digest: Digest; readonly bytes: number; readonly text: string } | null;
  readonly lastMessage: string | null;
  /**
   * The run was restored to this conversation ("restore") or forked with it ("fork"), and no agent has been called
   * since. The agent's own record may be ahead of it, and a fork's session still belongs to its parent.
   */
  readonly rewound?: "restore" | "fork";
}

interface EffectsMark {
  readonly entry: number;
  readonly pending: readonly string[];
}

export interface IssueSnapshot {
  readonly number: number;
  readonly title: string;
  readonly body: string;
  readonly labels: readonly string[];
  /** Names of the users at the forge. Absent: there are none. */
  readonly assignees?: readonly string[];
  readonly state: "open" | "closed";
  readonly updatedAt: string;
  /** The newest comments, oldest first. Absent: they were not read. */
  readonly comments?: readonly IssueComment[];
}

export type IssueComment = {
  readonly author: string;
  readonly body: string;
  /** ISO 8601. null: unknown. */
  readonly at: string | null;
};

export interface InputsPlane {
  readonly issue: IssueSnapshot | null;
  readonly task: string | null;
  readonly base: string | null;
  readonly plan: { readonly path: string; readonly digest: Digest } | null;
}

/** What the work of a run depended on outside of git. */
export interface Toolchain {
  /** Digests by path, as the last set-up or check for one saw them. */
  readonly lockfiles: Readonly<Record<string, string>>;
  /** Digest of the set-up commands; null: none are configured. */
  readonly setup: string | null;
  readonly node: string;
  readonly git: string | null;
  /** Versions by name of the agent. */
  readonly agents: Readonly<Record<string, string>>;
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

/** The name of checkpoints that a resume takes. */
export const RESUMED = "resumed";

/** Why a checkpoint was taken: all triggers of the four seed systems, and Holdfast's own. */
export const TRIGGERS = [
  "manual",
  "automatic",
  "stage", // a stage ended: phase_transition, phase_boundary, phase_start
  "iteration",
  "batch_complete",
  "agent_complete",
  "artifact_complete",
  "conflict_start",
  "conflict_resolved",
  "before_risky", // pre_risky_op
  "before_external", // before_external_call
  "error_recovery",
  "interrupt", // user_interrupt
  "session_end",
  "timer",
  "before_restore", // saves what a restore would overwrite
  "restore",
  "fork",
  "import",
] as const;

export type Trigger = (typeof TRIGGERS)[number];

/**
 * Optional checkpoints. Durability requires all others (end of a stage or iteration, files of a failure, files that a
 * restore overwrites), so they cannot be switched off.
 */
export interface CheckpointSwitches {
  /** Taken when all files that a step must deliver exist. Off: the save happens with trigger agent_complete or automatic. */
  readonly artifactComplete: boolean;
  readonly beforeExternal: boolean;
  readonly beforeRisky: boolean;
}

export const ALL_CHECKPOINTS: CheckpointSwitches = {
  artifactComplete: true,
  beforeExternal: true,
  beforeRisky: true,
};

/** How much of a run is recorded, and whether a rerun may diverge from the recording. See docs/reproducibility.md. */
export const EXECUTION_MODES = ["default", "logged", "seeded", "strict"] as const;
export type ExecutionMode = (typeof EXECUTION_MODES)[number];

/** Values and token usage of a run, as a checkpoint stores them. */
export interface Context<V extends object = JsonObject> {
  readonly values: V;
  readonly tokens: Readonly<Record<string, number>>;
}

/** Shape of an issue, as a run stores it in its inputs and in its values. */
export const commentsShape: Shape<readonly IssueComment[]> = list(
  object<IssueComment>({ author: text, body: text, at: nullable(text) }),
);
export const issueShape: Shape<IssueSnapshot> = object<IssueSnapshot>({
  number: count,
  title: text,
  body: text,
  labels: list(text),
  assignees: optional(list(text)),
  state: oneOf({ open: true, closed: true }),
  updatedAt: text,
  comments: optional(commentsShape),
});

export const amountsShape: Shape<Amounts> = object<Amounts>({
  tokens: count,
  microUsd: count,
  milliseconds: count,
  unpriced: optional(count),
  uncounted: optional(count),
});

const budget: Shape<Budget> = object<Budget>({
  spent: amountsShape,
  reserved: amountsShape,
  held: optional(amountsShape),
  limit: object<Budget["limit"]>({
    tokens: nullable(count),
    microUsd: nullable(count),
    milliseconds: nullable(count),
  }),
});

const runningStep: Shape<RunningStep> = object<RunningStep>({
  files: flag,
  estimate: nullable(amountsShape),
  base: count,
  counted: optional(tokensShape),
  sent: optional(text),
  settled: optional(flag),
});

export const positionShape: Shape<Position> = object<Position>({
  workflow: text,
  definition: nullable(text),
  stage: text,
  iteration: count,
  attempts: dictionary(count),
  streaks: dictionary(count),
  score: nullable(finite),
  best: nullable(object<NonNullable<Position["best"]>>({ run: optional(text), sequence: count, score: finite })),
  graph: nullable(graphShape),
  budget,
  feedback: nullable(text),
  reason: nullable(text),
  stageAttempt: object<StageAttempt>({
    number: count,
    steps: dictionary(json),
    failures: dictionary(count),
    running: optional(dictionary(runningStep)),
    lost: optional(dictionary(runningStep)),
    sessions: optional(dictionary(nullable(text))),
    graph: optional(flag),
    unreduced: optional(list(json)),
    settled: optional(object<NonNullable<StageAttempt["settled"]>>({ of: count, at: count })),
    sideWorktrees: optional(dictionary(text)),
    errors: optional(dictionary(callErrorsShape)),
  }),
  fence: optional(text),
  yolo: optional(flag),
});

/** STORE_CORRUPT with the path of what is wrong. Unknown fields are kept. */
export function parsePlanes(value: unknown, what = "Checkpoint"): Planes {
  return parseShape({ shape: planes, value, what });
}

export function parsePosition(value: unknown, what = "Position"): Position {
  return parseShape({ shape: positionShape, value, what });
}

const context: Shape<Context> = object<Context>({ values: jsonObject, tokens: dictionary(count) });

const files: Shape<FilesPlane> = object<FilesPlane>({
  tree: text,
  snapshot: text,
  ref: text,
  worktree: text,
  head: nullable(text),
  branch: nullable(text),
  base: nullable(text),
  artifacts: list(
    object<FilesPlane["artifacts"][number]>({
      path: text,
      digest: nullable(text),
      status: oneOf({ created: true, modified: true, deleted: true, unchanged: true }),
    }),
  ),
  artifactCount: count,
  skipped: list(
    object<FilesPlane["skipped"][number]>({
      path: text,
      reason: oneOf({ too_large: true, special_file: true, unreadable: true, nested_repository: true }),
      bytes: nullable(count),
    }),
  ),
  nested: list(object<FilesPlane["nested"][number]>({ path: text, head: nullable(text) })),
  index: nullable(text),
  operation: nullable(text),
});

const conversation: Shape<ConversationPlane> = object<ConversationPlane>({
  agent: text,
  session: nullable(text),
  transcript: nullable(object<NonNullable<ConversationPlane["transcript"]>>({ digest: text, bytes: count, text })),
  lastMessage: nullable(text),
  rewound: optional(oneOf({ restore: true, fork: true })),
});

const effects: Shape<Planes["effects"]> = object<Planes["effects"]>({ entry: count, pending: list(text) });

const inputs: Shape<InputsPlane> = object<InputsPlane>({
  issue: nullable(issueShape),
  task: nullable(text),
  base: nullable(text),
  plan: nullable(object<NonNullable<InputsPlane["plan"]>>({ path: text, digest: text })),
});

const config: Shape<ExecutionConfig> = object<ExecutionConfig>({
  agent: nullable(text),
  model: nullable(text),
  temperature: nullable(finite),
  seed: nullable(finite),
  mode: oneOf({ strict: true, seeded: true, logged: true, default: true }),
  tools: list(text),
  inputs: jsonObject,
});

const toolchainShape: Shape<Toolchain> = object<Toolchain>({
  lockfiles: dictionary(text),
  setup: nullable(text),
  node: text,
  git: nullable(text),
  agents: dictionary(text),
});

const planes: Shape<Planes> = object<Planes>({
  position: positionShape,
  context,
  files: nullable(files),
  conversation: nullable(conversation),
  effects,
  inputs,
  config,
  extensions: jsonObject,
  toolchain: optional(toolchainShape),
});
