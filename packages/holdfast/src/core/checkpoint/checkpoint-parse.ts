import type { ConversationPlane, EffectsMark, ExecutionConfig, FilesPlane, InputsPlane, Planes } from "./checkpoint.ts";
import type { Context } from "../context/context.ts";
import type { Graph } from "../graph/graph.ts";
import { graphShape } from "../graph/graph-shape.ts";
import { issueShape } from "./issue-shape.ts";
import type { Amounts, Budget, Position } from "../position/position.ts";
import {
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
} from "../shape.ts";
import type { Shape } from "../shape.ts";
import { callErrorsShape } from "../error-policy/call-errors-shape.ts";
import type { RecordTokens, RunningStep, Visit } from "../position/visit.ts";

/** Turns JSON read from a store into planes, or throws STORE_CORRUPT with the path. Fields that we do not know are kept. */
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

const amounts: Shape<Amounts> = object<Amounts>({
  tokens: count,
  microUsd: count,
  milliseconds: count,
  unpriced: optional(count),
  uncounted: optional(count),
});

const budget: Shape<Budget> = object<Budget>({
  spent: amounts,
  reserved: amounts,
  held: optional(amounts),
  limit: object<Budget["limit"]>({
    tokens: nullable(count),
    microUsd: nullable(count),
    milliseconds: nullable(count),
  }),
});

const runningStep: Shape<RunningStep> = object<RunningStep>({
  files: flag,
  estimate: nullable(amounts),
  base: count,
  counted: optional(object<RecordTokens>({ input: count, output: count })),
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
  best: nullable(object<NonNullable<Position["best"]>>({ sequence: count, score: finite })),
  graph: nullable(graphShape),
  budget,
  feedback: nullable(text),
  reason: nullable(text),
  visit: object<Visit>({
    number: count,
    steps: dictionary(json),
    failures: dictionary(count),
    running: optional(dictionary(runningStep)),
    lost: optional(dictionary(runningStep)),
    sessions: optional(dictionary(nullable(text))),
    graph: optional(flag),
    unreduced: optional(list(json)),
    settled: optional(object<NonNullable<Visit["settled"]>>({ of: count, at: count })),
    asides: optional(dictionary(text)),
    errors: optional(dictionary(callErrorsShape)),
  }),
  fence: optional(text),
  yolo: optional(flag),
});

const context: Shape<Context> = object<Context>({ values: jsonObject, tokens: dictionary(count) });

const files: Shape<FilesPlane> = object<FilesPlane>({
  tree: text,
  commit: text,
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

const effects: Shape<EffectsMark> = object<EffectsMark>({ entry: count, pending: list(text) });

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
});
