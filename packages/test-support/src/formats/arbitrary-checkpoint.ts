// Random checkpoints for property tests of formats.

import * as fc from "fast-check";
import {
  type ConversationPlane,
  type ExecutionConfig,
  type FilesPlane,
  type InputsPlane,
  type Planes,
  TRIGGERS,
  emptyPlanes,
} from "@holdfast/core/checkpoint";
import type { Json, JsonObject } from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import type { Work } from "@holdfast/core/run";
import type { ExternalCheckpoint } from "@holdfast/formats/format";

/** Any Holdfast checkpoint, including everything that an external format may be unable to represent. */
export function arbitraryCheckpoint(): fc.Arbitrary<ExternalCheckpoint> {
  return fc
    .record({
      id: fc.option(word),
      createdAt: fc.option(time),
      trigger: fc.constantFrom(...TRIGGERS),
      workflow: fc.constantFrom("impl", "graph", "none"),
      work,
      planes,
    })
    .map((one) => ({
      ...one,
      planes: { ...one.planes, position: { ...one.planes.position, workflow: one.workflow } },
      original: null,
    }));
}

export const time: fc.Arbitrary<string> = fc
  .date({ min: new Date("2000-01-01T00:00:00Z"), max: new Date("2099-12-31T00:00:00Z"), noInvalidDate: true })
  .map((date) => date.toISOString());
export const word: fc.Arbitrary<string> = fc.stringMatching(/^[a-z][a-z0-9-]{0,12}$/);
const prose = fc.string({ unit: "grapheme", maxLength: 20 });
const score = fc.integer({ min: 0, max: 100 });
const count = fc.nat(1000);
const digest = fc.constant("0".repeat(64));
const oddKey = fc.oneof(word, fc.constantFrom("", "7", "constructor", "~/", "ключ"));
/** Planes may have this key too, which documents never have. */
const planeKey = fc.oneof({ weight: 8, arbitrary: oddKey }, { weight: 1, arbitrary: fc.constant("__proto__") });

/** Unknown fields, with names and values that often cause defects. */
export function unknownFields(): fc.Arbitrary<JsonObject> {
  return fc.dictionary(
    fc.oneof(
      oddKey.map((key) => `x ${key}`),
      fc.constantFrom("constructor", "toJSON", "7", ""),
    ),
    smallJson(),
    { maxKeys: 2, noNullPrototype: true },
  );
}

export function smallJson(key = oddKey): fc.Arbitrary<Json> {
  return fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      prose,
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e15, max: 1e15 }).map((one) => (one === 0 ? 0 : one)),
      fc.boolean(),
      fc.constant(null),
      fc.constantFrom("null", "~", "yes", "0x1f", "2025-01-15", ": x", "a: b", '":', "- a", "#", "&a", "*a", "1e3"),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(key, tie("value"), { maxKeys: 3, noNullPrototype: true }),
    ),
  })).value;
}

const work: fc.Arbitrary<Work> = fc.oneof(
  fc.record({ kind: fc.constant("issue" as const), number: fc.integer({ min: 1, max: 9999 }) }),
  fc.record({ kind: fc.constant("task" as const), text: prose }),
  fc.constant({ kind: "none" } as const),
);

const amounts = fc.record({ tokens: count, microUsd: count, milliseconds: count });
const STAGES = ["setup", "impl", "review", "simplify", "pr", "ci", "rebase", "fatal", "done", "enrich", "docs", "odd"];

const position: fc.Arbitrary<Position> = fc.record({
  workflow: fc.constant("none"),
  definition: fc.option(digest),
  stage: fc.constantFrom(...STAGES),
  iteration: fc.nat(20),
  attempts: fc.dictionary(word, count, { maxKeys: 2, noNullPrototype: true }),
  streaks: fc.dictionary(word, count, { maxKeys: 2, noNullPrototype: true }),
  score: fc.option(fc.oneof(score, fc.constantFrom(-1, 0.5, 101))),
  best: fc.option(fc.record({ sequence: count, score })),
  graph: fc.constant(null),
  budget: fc.record({
    spent: amounts,
    reserved: amounts,
    limit: fc.record({ tokens: fc.option(count), microUsd: fc.option(count), milliseconds: fc.option(count) }),
  }),
  feedback: fc.option(prose),
  reason: fc.option(prose),
  stageAttempt: fc.record({
    number: count,
    steps: fc.dictionary(word, smallJson(), { maxKeys: 2, noNullPrototype: true }),
    failures: fc.dictionary(word, count, { maxKeys: 2, noNullPrototype: true }),
  }),
});

const files: fc.Arbitrary<FilesPlane> = fc.record({
  tree: word,
  snapshot: word,
  ref: word,
  worktree: prose,
  head: fc.option(word),
  branch: fc.option(word),
  base: fc.option(word),
  artifacts: fc.array(
    fc.record({
      path: word,
      digest: fc.option(word),
      status: fc.constantFrom("created", "modified", "deleted", "unchanged"),
    }),
    { maxLength: 3 },
  ),
  artifactCount: count,
  skipped: fc.constant([]),
  nested: fc.constant([]),
  index: fc.option(word),
  operation: fc.option(word),
});

const conversation: fc.Arbitrary<ConversationPlane> = fc.record({
  agent: word,
  session: fc.option(word),
  transcript: fc.option(fc.record({ digest, bytes: count, text: prose })),
  lastMessage: fc.option(prose),
});

const inputs: fc.Arbitrary<InputsPlane> = fc.record({
  issue: fc.option(
    fc.record({
      number: fc.integer({ min: 1, max: 9999 }),
      title: prose,
      body: prose,
      labels: fc.array(word, { maxLength: 2 }),
      state: fc.constantFrom("open", "closed"),
      updatedAt: time,
    }),
  ),
  task: fc.option(prose),
  base: fc.option(word),
  plan: fc.option(fc.record({ path: prose, digest })),
});

const config: fc.Arbitrary<ExecutionConfig> = fc.record({
  agent: fc.option(word),
  model: fc.option(word),
  temperature: fc.option(fc.constantFrom(0, 0.5, 1, 7)),
  seed: fc.option(fc.oneof(count, fc.constant(0.5))),
  mode: fc.constantFrom("strict", "seeded", "logged", "default"),
  tools: fc.array(word, { maxLength: 2 }),
  inputs: fc.dictionary(word, smallJson(), { maxKeys: 2, noNullPrototype: true }),
});

/** Half of them are empty planes except for one or two, so that one loss cannot hide another. */
const planes: fc.Arbitrary<Planes> = fc
  .record({
    position: fc.option(position),
    values: fc.option(fc.dictionary(planeKey, smallJson(planeKey), { maxKeys: 3, noNullPrototype: true })),
    tokens: fc.dictionary(word, count, { maxKeys: 2, noNullPrototype: true }),
    files: fc.option(files),
    conversation: fc.option(conversation),
    effects: fc.option(fc.record({ entry: count, pending: fc.array(word, { maxLength: 2 }) })),
    inputs: fc.option(inputs),
    config: fc.option(config),
    extensions: fc.option(fc.dictionary(planeKey, smallJson(planeKey), { maxKeys: 2, noNullPrototype: true })),
  })
  .map((some) => {
    const empty = emptyPlanes({ stage: "impl" });
    return {
      position: some.position ?? empty.position,
      context: { values: some.values ?? {}, tokens: some.tokens },
      files: some.files,
      conversation: some.conversation,
      effects: some.effects ?? empty.effects,
      inputs: some.inputs ?? empty.inputs,
      config: some.config ?? empty.config,
      extensions: some.extensions ?? {},
    };
  });
