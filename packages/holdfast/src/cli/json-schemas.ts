/**
 * The schemas of `--json`: one per command. A stream prints one document per line, and every line matches the schema of
 * its command. What the engine or a workflow defines (planes, plans, settings) is an object without further rules.
 */
import { z } from "zod";

const { strictObject, nullable, array, union, literal, string, boolean, number } = z;
const count = z.int().nonnegative();
const time = z.iso.datetime();
const anyObject = z.record(string(), z.unknown());
const anyList = array(z.unknown());
const texts = array(string());

const work = union([
  strictObject({ kind: literal("issue"), number: count }),
  strictObject({ kind: literal("task"), text: string() }),
  strictObject({ kind: literal("none") }),
]);

const holder = strictObject({
  label: string(),
  pid: count,
  host: string(),
  epoch: count,
  takenAt: time,
  heartbeatAt: time,
});
const question = z.object({ name: string(), question: string(), options: texts });
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
  strictObject({ kind: literal("queued"), holder, position: nullable(count) }),
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

const run = strictObject({
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

const details = run.extend({
  resumable: boolean(),
  priority: number(),
  since: nullable(time),
  scores: array(strictObject({ iteration: count, score: number() })),
  best: nullable(strictObject({ sequence: count, score: number() })),
  budget: nullable(strictObject({ limit: anyObject, reserved: anyObject, spent: anyObject })),
  graph: nullable(anyObject),
  loop: nullable(anyObject),
  step: nullable(string()),
  denied: texts,
  last: nullable(strictObject({ at: time, text: string() })),
  worktree: nullable(string()),
  branch: nullable(string()),
  issue: nullable(strictObject({ number: count, title: string() })),
  pullRequest: nullable(strictObject({ number: count, url: string() })),
  damaged: array(count),
});

const checkpoint = strictObject({
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

/** A progress event of a run, or a line that `resume` adds: its kind decides about the other fields. */
const event = z.object({ kind: string(), run: string(), at: time });
const result = strictObject({
  kind: literal("result"),
  run: details,
  result: z.discriminatedUnion("kind", [
    strictObject({ kind: z.enum(["done", "failed", "aborted", "paused"]), reason: string() }),
    strictObject({ kind: literal("waiting"), for: waitsFor, reason: string(), until: nullable(time) }),
    strictObject({ kind: literal("interrupted") }),
    strictObject({ kind: literal("ask"), findings: anyList }),
  ]),
  earlier: boolean(),
});
const plan = strictObject({ kind: literal("plan"), plan: anyObject });
const detached = strictObject({
  kind: literal("detached"),
  run: string(),
  pid: count,
  log: string(),
  queued: boolean(),
});
const execution = [event, result, detached] as const;

const tag = strictObject({ name: string(), run: string(), sequence: count });
const loss = strictObject({ path: string(), why: string() });
const exported = strictObject({
  from: string(),
  to: string(),
  path: nullable(string()),
  written: texts,
  removed: texts,
  losses: array(loss),
  remarks: anyList.optional(),
  document: nullable(string()),
});
const setupFile = strictObject({ path: string(), written: boolean(), text: string() });

/** By the name of the command. */
export const JSON_SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  run: union([plan, ...execution]),
  resume: union([
    strictObject({
      kind: literal("plan"),
      run,
      plan: anyObject,
      findings: anyList,
      notes: texts,
      verdict: string(),
      uses: nullable(anyObject),
      rollback: anyObject.optional(),
    }),
    strictObject({ kind: literal("withdrawn"), run, signal: literal("pause") }),
    strictObject({ kind: literal("priority"), run, priority: number() }),
    ...execution,
  ]),
  stop: strictObject({
    run: nullable(run),
    requested: z.enum(["stop", "pause", "abort"]),
    result: z.enum(["done", "pending", "withdrawn", "not_running", "ended", "other_host", "not_started"]),
  }),
  approve: strictObject({ run, question, answer: nullable(string()), by: nullable(string()) }),
  status: union([
    strictObject({ kind: literal("status").optional(), run: union([details, run]) }),
    strictObject({
      kind: literal("status").optional(),
      at: time,
      runs: array(union([details, run])),
      slots: strictObject({ limit: nullable(count), used: count }),
    }),
  ]),
  output: union([
    strictObject({
      run,
      calls: array(
        strictObject({ path: string(), attempt: count, step: string(), bytes: count, modifiedAt: time, lines: texts }),
      ),
    }),
    strictObject({ kind: literal("line"), attempt: count, step: string(), line: string() }),
  ]),
  checkpoint: union([
    strictObject({
      checkpoint,
      started: boolean(),
      skipped: anyList,
      nested: anyList,
      unfinishedRestore: nullable(string()),
      savedBy: nullable(strictObject({ label: string(), pid: count, host: string() })),
      gc: nullable(anyObject),
    }),
    strictObject({
      plan: nullable(anyObject),
      changes: anyList,
      started: boolean(),
      run: string(),
      asks: nullable(anyObject),
      skipped: anyList,
      nested: anyList,
      dryRun: literal(true),
    }),
  ]),
  list: union([strictObject({ runs: array(run) }), strictObject({ run, checkpoints: array(checkpoint) })]),
  show: union([
    strictObject({ run, worktree: nullable(string()), checkpoints: array(checkpoint), dropped: count }),
    strictObject({ checkpoint: checkpoint.extend({ planes: anyObject }) }),
    strictObject({ of: string(), graph: nullable(anyObject), edges: anyList }),
  ]),
  events: union([
    strictObject({ run, entries: array(z.object({ run: string(), entry: count, kind: string(), at: time })) }),
    z.object({ run: string(), entry: count, kind: string(), at: time }),
  ]),
  diff: strictObject({
    from: string(),
    to: nullable(string()),
    worktree: nullable(string()),
    files: array(strictObject({ path: string(), status: string(), from: nullable(string()) })),
    text: string(),
    values: anyList,
    notCompared: anyList,
  }),
  restore: strictObject({
    plan: nullable(anyObject),
    lost: anyList,
    rollback: anyObject.optional(),
    dryRun: boolean(),
    report: nullable(anyObject).optional(),
  }),
  fork: union([
    strictObject({ run, worktree: nullable(string()), replay: anyObject.optional() }),
    strictObject({
      plan: strictObject({ from: string(), as: nullable(string()), worktree: boolean() }),
      dryRun: literal(true),
    }),
  ]),
  tag: union([
    strictObject({ tags: array(tag) }),
    strictObject({ tag, action: z.enum(["added", "moved", "deleted"]), dryRun: boolean() }),
  ]),
  rm: z.object({ removed: anyList, dryRun: boolean() }),
  compare: strictObject({
    runs: array(z.object({ id: string(), run: string(), sequence: nullable(count), workflow: string(), work, status })),
    pairs: anyList,
    best: array(strictObject({ dimension: string(), ids: texts })),
    diffs: anyList,
    choice: nullable(anyObject),
  }),
  "cherry-pick": strictObject({ plan: anyObject, dryRun: boolean(), report: nullable(anyObject).optional() }),
  replay: strictObject({
    run: string(),
    verdict: z.enum(["identical", "diverged", "damaged"]),
    divergence: nullable(anyObject),
    problems: anyList,
    from: count,
    to: nullable(count),
    iteration: count,
    steps: count,
    agents: count,
    compared: count,
    filled: count,
    outcome: z.enum(["active", "waiting", "paused", "done", "failed", "aborted"]),
  }),
  rerun: union([plan, ...execution, z.object({ kind: literal("comparison"), of: string(), run: string() })]),
  "format export": exported,
  "format convert": exported,
  "format validate": strictObject({
    files: array(
      strictObject({
        file: string(),
        format: nullable(string()),
        ok: boolean(),
        code: nullable(string()),
        message: nullable(string()),
        checkpoints: count,
        remarks: anyList,
      }),
    ),
  }),
  "format import": strictObject({
    kind: literal("imported").optional(),
    run: string(),
    format: string(),
    workflow: string(),
    work,
    worktree: nullable(string()),
    checkpoints: anyList,
    remarks: anyList,
    broken: anyList,
    before: z.enum(["none", "part", "whole", "own"]),
    changed: boolean().optional(),
  }),
  "format mirror": strictObject({
    kind: literal("mirrored"),
    run: string(),
    sequence: count,
    to: string(),
    root: string(),
    written: texts,
    removed: texts,
    losses: array(loss),
  }),
  /** The schema itself is JSON Schema. */
  "format schema": union([strictObject({ schemas: texts }), z.looseObject({ $schema: string() })]),
  setup: union([
    setupFile,
    setupFile.extend({
      changed: boolean(),
      agent: z.unknown(),
      gate: z.unknown(),
      forge: z.unknown(),
      agents: array(z.object({ name: string() })),
    }),
  ]),
  config: union([
    strictObject({ path: nullable(string()), settings: anyList, untrusted: anyList }),
    strictObject({ path: nullable(string()), ok: boolean(), problems: anyList }),
    strictObject({ path: nullable(string()) }),
    strictObject({ directory: string(), files: anyList }),
  ]),
  agents: union([
    z.object({ agents: array(z.object({ name: string(), installed: boolean() })) }),
    z.object({ agent: string() }),
  ]),
  trust: union([
    strictObject({ repository: string(), digest: string(), settings: anyList, granted: count }),
    strictObject({ repositories: anyList }),
    z.object({ repository: string(), revoked: z.unknown() }),
  ]),
  doctor: strictObject({
    ok: boolean(),
    checks: array(strictObject({ name: string(), level: string(), detail: string(), fix: nullable(string()) })),
    usage: anyList,
  }),
  verify: strictObject({ ok: boolean(), summary: anyObject, problems: anyList, repaired: anyList }),
  gc: strictObject({ plan: anyObject, loops: anyList, dryRun: boolean(), report: anyObject.optional() }),
  completion: strictObject({ shell: string(), script: string() }),
  demo: strictObject({
    seed: count,
    ok: boolean(),
    points: count,
    kills: anyList,
    timeline: anyList,
    proof: array(strictObject({ claim: string(), ok: boolean(), detail: string() })),
    tree: nullable(string()),
    directory: nullable(string()),
  }),
  help: strictObject({
    commands: array(z.object({ name: string(), summary: string(), json: string(), schema: z.unknown().optional() })),
  }),
};

/** null: the command has no schema. */
export function jsonSchemaOf(command: string): unknown {
  const schema = JSON_SCHEMAS[command];
  return schema === undefined ? null : z.toJSONSchema(schema);
}
