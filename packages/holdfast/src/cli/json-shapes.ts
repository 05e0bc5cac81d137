/** The objects that the `--json` output of several commands contains. An unknown or a missing key fails. */
import { FINDING_KINDS, VERDICTS } from "@holdfast/core/findings";
import { z } from "zod";
import { NODE_CONDITIONS } from "../graph-view.ts";

const { strictObject, nullable, array, union, literal, string, boolean, number } = z;
export const count = z.int().nonnegative();
export const time = z.iso.datetime();
export const anyObject = z.record(string(), z.unknown());
export const anyList = array(z.unknown());
export const texts = array(string());
/** A list of objects with these keys. */
export const objects = <S extends z.ZodRawShape>(shape: S) => array(strictObject(shape));

export const work = union([
  strictObject({ kind: literal("issue"), number: count }),
  strictObject({ kind: literal("task"), text: string() }),
  strictObject({ kind: literal("none") }),
]);

export const holder = strictObject({
  label: string(),
  pid: count,
  host: string(),
  epoch: count,
  takenAt: time,
  heartbeatAt: time,
});
export const question = strictObject({
  name: string(),
  question: string(),
  options: texts,
  recheck: boolean().optional(),
});
/** Files of a run that the remote of `files.remote` lacks. */
export const unpushed = nullable(strictObject({ remote: string(), snapshots: count, problem: nullable(string()) }));
const waitsFor = z.enum(["you", "quota", "provider", "forge", "budget", "ci", "disk", "session"]);

const status = z.discriminatedUnion("kind", [
  strictObject({
    kind: literal("running"),
    holder,
    starting: boolean(),
    finishing: boolean(),
    stopping: nullable(z.enum(["pause", "abort"])),
    silentSince: nullable(time),
    suspended: boolean(),
    hostKnown: boolean(),
  }),
  strictObject({ kind: literal("queued"), holder: nullable(holder), position: nullable(count) }),
  strictObject({
    kind: literal("waiting"),
    for: waitsFor,
    reason: string(),
    until: nullable(time),
    due: boolean(),
    question: nullable(question),
  }),
  strictObject({ kind: literal("paused"), reason: nullable(string()), started: boolean() }),
  strictObject({ kind: literal("crashed"), certain: boolean(), holder }),
  strictObject({ kind: literal("saved"), holder: nullable(holder) }),
  strictObject({ kind: literal("done"), at: time }),
  strictObject({ kind: literal("failed"), at: time, reason: string(), limit: boolean() }),
  strictObject({ kind: literal("aborted"), at: nullable(time), reason: string() }),
]);

const parent = nullable(strictObject({ id: string(), digest: string() }));

export const run = strictObject({
  /** null: a process prepares the run, and its id is not known yet. */
  id: nullable(string()),
  workflow: string(),
  work,
  status,
  stage: nullable(string()),
  iteration: count,
  checkpoints: count,
  latest: nullable(strictObject({ sequence: count, createdAt: time, stage: string(), iteration: count })),
  createdAt: time,
  forkedFrom: parent,
  labels: anyObject,
  entries: count,
  unfinishedRestore: nullable(string()),
});

const limits = strictObject({
  tokens: nullable(count).optional(),
  microUsd: nullable(count).optional(),
  milliseconds: nullable(count).optional(),
});
/** An unknown number of tokens or cost is null. */
export const amounts = strictObject({
  tokens: nullable(count),
  microUsd: nullable(count),
  milliseconds: count,
  unpriced: count.optional(),
  uncounted: count.optional(),
});
const elapsed = nullable(strictObject({ milliseconds: number(), kind: z.enum(["whole", "so_far", "at_least"]) }));
export const graph = strictObject({
  id: string(),
  batches: array(texts),
  nodes: objects({
    id: string(),
    agent: string(),
    action: string(),
    priority: z.enum(["critical", "high", "normal", "low"]),
    batch: count,
    state: z.enum(NODE_CONDITIONS),
    attempts: count,
    startedAt: nullable(time),
    endedAt: nullable(time),
    elapsed,
    critical: boolean(),
    waitsFor: texts,
    reason: nullable(string()),
  }),
  counts: z.record(z.enum(NODE_CONDITIONS), count),
  criticalPath: strictObject({ nodes: texts, milliseconds: number() }),
  elapsed,
  resumePoint: nullable(string()),
  approvals: objects({ from: string(), to: string(), by: string() }),
  problems: texts,
});

const details = run.extend({
  resumable: boolean(),
  priority: number(),
  submitted: boolean(),
  since: nullable(time),
  scores: objects({ iteration: count, score: number() }),
  best: nullable(strictObject({ run: string().optional(), sequence: count, score: number() })),
  budget: nullable(strictObject({ limit: limits, reserved: amounts, spent: amounts })),
  graph: nullable(graph),
  loop: nullable(anyObject),
  step: nullable(string()),
  denied: texts,
  continues: nullable(z.enum(["process", "worker"])),
  restored: nullable(count),
  restart: nullable(count),
  raise: nullable(string()),
  last: nullable(strictObject({ at: time, text: string() })),
  worktree: nullable(string()),
  branch: nullable(string()),
  issue: nullable(strictObject({ number: count, title: string() })),
  pullRequest: nullable(strictObject({ number: count, undone: boolean(), url: string() })),
  damaged: array(count),
  unpushed,
});

/** What the queue has about a submitted run. */
export const queueEntry = strictObject({
  run: string(),
  store: string(),
  queue: string(),
  repository: string(),
  priority: number(),
  needs: texts,
  state: z.enum(["waiting", "active"]),
  wakeAt: nullable(count),
  worker: nullable(string()),
  why: nullable(string()),
  failures: nullable(count),
});

/** A run as `status` shows it. */
export const shownRun = details.extend({ queued: nullable(queueEntry) });

export const checkpoint = strictObject({
  id: string(),
  run: string(),
  sequence: count,
  entry: count,
  parent,
  trigger: string(),
  name: nullable(string()),
  createdAt: time,
  stage: string(),
  iteration: count,
  score: nullable(number()),
  tree: nullable(string()),
  tags: texts,
  size: strictObject({ logical: count, added: count }),
  digest: string(),
  quarantined: boolean(),
});

export const finding = strictObject({
  kind: z.enum(FINDING_KINDS),
  summary: string(),
  expected: z.unknown(),
  actual: z.unknown(),
  diff: string().optional(),
  conflict: literal(true).optional(),
});
const progress = <Kind extends string, Shape extends z.ZodRawShape>(kind: Kind, shape: Shape) =>
  strictObject({ run: string(), at: time, kind: literal(kind), ...shape });
/** The progress events of a run. */
const events = [
  progress("started", { stage: string(), iteration: count, resumed: boolean() }),
  progress("findings", { findings: array(finding) }),
  progress("stage_entered", { stage: string(), iteration: count, stageAttempt: count }),
  progress("stage_ended", {
    stage: string(),
    event: string(),
    reason: string(),
    next: string(),
    iteration: count,
    score: nullable(number()),
  }),
  progress("step_started", { step: string(), title: string().optional() }),
  progress("step_finished", { step: string(), replayed: boolean(), title: string().optional() }),
  progress("step_failed", {
    step: string(),
    reason: string(),
    retryAt: nullable(time),
    verdict: strictObject({ rule: string(), action: string(), why: string() }).optional(),
  }),
  progress("agent", { step: string(), event: z.looseObject({ kind: string() }) }),
  progress("effect", { key: string(), what: z.enum(["intended", "acted", "adopted", "failed", "unknown"]) }),
  progress("graph_moved", { events: array(z.looseObject({ kind: string() })) }),
  progress("checkpoint", { checkpoint }),
  progress("budget", { text: string() }),
  progress("note", { text: string(), output: array(string()).optional() }),
  progress("waiting", { for: waitsFor, reason: string(), until: nullable(time) }),
  progress("paused", { reason: string() }),
  progress("ended", { outcome: z.enum(["done", "failed", "aborted"]), reason: string() }),
] as const;
export const result = strictObject({
  kind: literal("result"),
  run: details,
  result: z.discriminatedUnion("kind", [
    strictObject({ kind: z.enum(["done", "failed", "aborted", "paused"]), reason: string() }),
    strictObject({ kind: literal("waiting"), for: waitsFor, reason: string(), until: nullable(time) }),
    strictObject({ kind: literal("interrupted") }),
    strictObject({ kind: literal("ask"), findings: array(finding) }),
  ]),
  earlier: boolean(),
  page: string().optional(),
});
/** What a run uses of this machine. */
export const uses = strictObject({
  agents: objects({ role: string(), agent: string(), argv: texts, env: texts }),
  setup: nullable(string()),
  copy: texts,
  gate: nullable(string()),
  checks: texts,
  hooks: string(),
  yolo: boolean(),
  store: string(),
  worktrees: string(),
  mirror: nullable(string()),
  aiwg: nullable(string()),
  forge: string(),
  untrusted: texts,
});
export const plan = strictObject({
  kind: literal("plan"),
  plan: strictObject({
    id: string(),
    earlier: nullable(anyObject),
    work,
    shape: anyObject,
    config: anyObject,
    inputs: anyObject,
    limit: limits,
    labels: anyObject,
    place: nullable(
      strictObject({
        branch: string(),
        worktree: string(),
        base: nullable(strictObject({ branch: nullable(string()), commit: string() })),
      }),
    ),
    issue: nullable(anyObject),
    preflight: objects({
      check: string(),
      level: literal("notice"),
      code: nullable(string()),
      message: string(),
      hint: nullable(string()),
    }),
    forge: nullable(strictObject({ name: string(), location: string() })),
    filesIssue: boolean().optional(),
    uses: uses.optional(),
  }),
});
const judgements = objects({ finding, verdict: z.enum(VERDICTS), decision: string() });
const actions = array(z.looseObject({ kind: string(), why: string() }));
export const resumePlan = z.discriminatedUnion("kind", [
  strictObject({ kind: z.enum(["resume", "warn"]), judgements, actions }),
  strictObject({ kind: literal("ask"), judgements, actions, why: string(), hint: string() }),
  strictObject({ kind: literal("refuse"), judgements, why: string(), hint: string() }),
  strictObject({ kind: literal("done"), judgements, actions, why: string() }),
]);
const effectFact = strictObject({
  key: string(),
  kind: string(),
  target: string(),
  entry: count,
  unsafe: nullable(string()),
});
export const rollback = strictObject({
  kind: z.enum(["back", "stay", "none"]),
  chosen: nullable(count),
  why: string(),
  cause: strictObject({ kind: string(), why: string() }),
  rejected: objects({ sequence: count, kind: string(), why: string() }),
  adopted: array(effectFact).optional(),
  accepted: array(effectFact).optional(),
  effects: array(effectFact).optional(),
});
const detached = strictObject({
  kind: literal("detached"),
  run: string(),
  pid: count,
  log: string(),
  queued: boolean(),
  page: string().optional(),
});
export const execution = [...events, result, detached] as const;

export const tag = strictObject({ name: string(), run: string(), sequence: count });
export const skipped = objects({ path: string(), reason: string(), bytes: nullable(count) });
export const nested = objects({ path: string(), head: nullable(string()) });
export const filesPlan = strictObject({
  root: string(),
  fromTree: string(),
  targetTree: string(),
  toTree: string(),
  paths: nullable(texts),
  changes: objects({
    kind: z.enum(["write", "create", "remove", "respell", "mode"]),
    path: string(),
    mode: string().optional(),
    from: string().optional(),
  }),
  untouched: skipped,
  blocked: texts,
  exposed: texts,
  capture: strictObject({ maxUntrackedBytes: count, includeIgnored: boolean() }).optional(),
});
export const restored = strictObject({ undo: nullable(checkpoint), checkpoint, written: count, removed: count });
export const effectState = z.enum(["intended", "unknown", "done", "failed", "undoing", "undone"]);
export const undoPreview = strictObject({
  key: string(),
  kind: string(),
  target: string(),
  state: effectState,
  at: time,
  entry: count,
  what: nullable(string()),
  can: boolean(),
  why: nullable(string()),
  hint: nullable(string()),
});
export const undoReport = strictObject({
  key: string(),
  kind: string(),
  target: string(),
  what: string(),
  adopted: boolean(),
  receipt: anyObject,
});
export const tombstone = strictObject({
  run: string(),
  sequence: count,
  entry: count,
  digest: string(),
  trigger: string(),
  createdAt: time,
  droppedAt: time,
  why: string(),
});
export const sweep = strictObject({ chunks: count, freedBytes: count });
export const halfRemoved = strictObject({ run: string(), removedAt: time, by: string() });
export const removedRun = strictObject({
  run: string(),
  state: string(),
  worktree: nullable(string()),
  branch: nullable(string()),
  ignored: texts,
  checkpoints: count,
  effects: objects({ kind: string(), target: string(), receipt: z.unknown() }),
  reasons: texts,
  forks: texts,
  removed: boolean(),
});
export const gcReport = strictObject({ dropped: array(tombstone), sideWorktrees: texts, unpinned: texts, sweep });
export const entry = strictObject({
  run: string(),
  entry: count,
  kind: string(),
  at: time,
  epoch: count,
  body: anyObject,
  digest: string(),
  hash: string(),
});
export const code = nullable(
  strictObject({
    files: count,
    added: count,
    removed: count,
    changed: objects({
      path: string(),
      status: string(),
      from: nullable(string()),
      added: nullable(count),
      removed: nullable(count),
    }),
  }),
);
export const point = strictObject({ run: string(), sequence: count });
const measures = objects({ name: string(), value: number() });
export const historyStep = nullable(strictObject({ run: string(), entry: count, name: string(), digest: string() }));
/** One of the compared runs. */
export const side = strictObject({
  id: string(),
  run: string(),
  sequence: nullable(count),
  workflow: string(),
  work,
  status,
  stage: nullable(string()),
  iteration: count,
  attempts: z.record(string(), count),
  calls: count,
  failures: count,
  checks: objects({
    name: string(),
    trail: array(boolean()),
    last: strictObject({ pass: boolean(), reason: string() }),
  }),
  score: nullable(number()),
  scoreTrail: array(number()),
  scores: measures,
  metrics: measures,
  spent: amounts,
  ownSpent: nullable(amounts),
  time: strictObject({ work: number(), wall: number() }),
  effects: objects({
    kind: string(),
    target: string(),
    state: z.enum(["intended", "done", "failed", "unknown", "undone"]),
    adopted: boolean(),
    number: nullable(count),
  }),
  pullRequest: nullable(strictObject({ number: count, url: string() })),
  lineage: array(point),
  branch: nullable(string()),
  worktree: nullable(string()),
  tree: nullable(string()),
  uncommitted: count,
  tags: texts,
  damage: texts,
  base: nullable(strictObject({ kind: string(), name: string(), tree: string() })),
  code,
});
const outcome = nullable(
  strictObject({
    entry: count,
    stageAttempt: count,
    stage: string(),
    iteration: count,
    step: nullable(string()),
    kind: z.enum(["stage", "agent", "check"]),
    came: anyObject,
    tree: nullable(string()),
  }),
);
export const firstDivergence = nullable(
  strictObject({ a: outcome, b: outcome, field: string(), expected: z.unknown(), actual: z.unknown() }),
);
