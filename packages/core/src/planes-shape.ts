// Parses planes strictly: what a run, a format or a run file writes into a checkpoint has the shape that its type promises.

import {
  type ConversationPlane,
  type Context,
  type ExecutionConfig,
  type FilesPlane,
  type InputsPlane,
  type Planes,
  issueShape,
  positionShape,
} from "./checkpoint.ts";
import { graphShape } from "./graph-state.ts";
import type { Graph } from "./graph.ts";
import {
  type Shape,
  count,
  dictionary,
  finite,
  jsonObject,
  list,
  nullable,
  object,
  oneOf,
  optional,
  parseShape,
  text,
} from "./json.ts";
import type { Position } from "./position.ts";
import { toolchainShape } from "./toolchain.ts";

/** STORE_CORRUPT with the path of what is wrong. Unknown fields are kept. */
export function parsePlanes(value: unknown, what = "Checkpoint"): Planes {
  return parseShape({ shape: planes, value, what });
}

export function parsePosition(value: unknown, what = "Position"): Position {
  return parseShape({ shape: positionShape, value, what });
}

export function parseContext(value: unknown, what = "Context"): Context {
  return parseShape({ shape: context, value, what });
}

export function parseGraph(value: unknown, what = "Graph"): Graph {
  return parseShape({ shape: graphShape, value, what });
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
