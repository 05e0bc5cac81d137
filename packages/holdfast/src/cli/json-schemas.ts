/**
 * The schemas of `--json`: one per command. A stream prints one document per line, and every line matches the schema of
 * its command. An unknown or a missing key fails. Only what a workflow or another tool defines (context values,
 * settings, labels, recorded results) is an object without further rules.
 */
import { z } from "zod";
import { ADMIN_SCHEMAS } from "./json-schemas-admin.ts";
import {
  count,
  time,
  anyObject,
  anyList,
  texts,
  objects,
  holder,
  question,
  run,
  amounts,
  graph,
  queueEntry,
  shownRun,
  unpushed,
  checkpoint,
  finding,
  result,
  uses,
  plan,
  resumePlan,
  rollback,
  execution,
  tag,
  skipped,
  nested,
  filesPlan,
  restored,
  effectState,
  undoPreview,
  undoReport,
  tombstone,
  halfRemoved,
  removedRun,
  gcReport,
  entry,
  code,
  point,
  historyStep,
  side,
  firstDivergence,
} from "./json-shapes.ts";

const { strictObject, nullable, array, union, literal, string, boolean, number } = z;

const toolchain = strictObject({
  lockfiles: z.record(string(), string()),
  setup: nullable(string()),
  node: string(),
  git: nullable(string()),
  agents: z.record(string(), string()),
});
/** One changed value; a side without the value lacks its key. */
const valueChange = strictObject({ path: string(), from: z.unknown().optional(), to: z.unknown().optional() });
const sentFiles = strictObject({
  remote: string(),
  runs: objects({
    run: string(),
    result: z.enum(["pushed", "fetched", "same", "absent", "refused", "secrets"]),
    snapshots: count,
    why: nullable(string()),
  }),
});
const workerRepository = strictObject({ root: string(), store: nullable(string()) });
const workerDecision = {
  kind: z.enum(["start", "wait", "skip"]),
  repository: string(),
  run: string(),
  why: string(),
};

const workerLine = <S extends z.ZodRawShape>(shape: S) =>
  strictObject({ at: time, level: z.enum(["info", "warn", "error"]), ...shape });

const submission = strictObject({
  queue: string(),
  repository: string(),
  priority: z.int(),
  needs: array(string()),
  host: nullable(string()),
  at: nullable(time),
});

/** By the name of the command. */
export const JSON_SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  ...ADMIN_SCHEMAS,
  run: union([plan, ...execution]),
  resume: union([
    strictObject({
      kind: literal("plan"),
      run,
      plan: resumePlan,
      findings: array(finding),
      notes: texts,
      verdict: string(),
      uses,
      rollback: rollback.optional(),
    }),
    strictObject({ kind: literal("withdrawn"), run, signal: literal("pause") }),
    strictObject({ kind: literal("priority"), run, priority: number() }),
    strictObject({ kind: literal("rollback"), run: string(), at: time, rollback }),
    ...execution,
  ]),
  stop: strictObject({
    run: nullable(run),
    requested: z.enum(["stop", "pause", "abort"]),
    result: z.enum(["done", "pending", "withdrawn", "not_running", "ended", "other_host", "not_started"]),
  }),
  take: strictObject({
    run,
    plan: strictObject({
      holder,
      process: z.enum(["other_host", "suspended", "silent", "answers"]),
      silentMs: count,
      saved: nullable(string()),
      files: nullable(
        strictObject({
          missing: array(count),
          here: nullable(string()),
          remote: nullable(string()),
          problem: nullable(string()),
        }),
      ),
      question: nullable(string()),
      effects: array(string()),
      orphan: nullable(string()),
    }),
    dryRun: boolean(),
    taken: nullable(
      strictObject({
        epoch: count,
        process: z.enum(["ended", "killed", "other_host"]),
        orphan: nullable(string()),
      }),
    ),
  }),
  approve: strictObject({ run, question, answer: nullable(string()), by: nullable(string()) }),
  status: union([
    strictObject({ kind: literal("status").optional(), run: union([shownRun, run]), page: string().optional() }),
    strictObject({
      kind: literal("status").optional(),
      at: time,
      runs: array(union([shownRun, run])),
      slots: strictObject({ limit: nullable(count), used: count }),
    }),
  ]),
  output: union([
    strictObject({
      run,
      calls: objects({ path: string(), attempt: count, step: string(), bytes: count, modifiedAt: time, lines: texts }),
    }),
    strictObject({ kind: literal("line"), attempt: count, step: string(), line: string() }),
  ]),
  checkpoint: union([
    strictObject({
      checkpoint,
      started: boolean(),
      skipped,
      nested,
      unfinishedRestore: nullable(string()),
      savedBy: nullable(strictObject({ label: string(), pid: count, host: string() })),
      gc: nullable(gcReport),
    }),
    strictObject({
      plan: nullable(anyObject),
      changes: anyList,
      started: boolean(),
      run: string(),
      asks: nullable(anyObject),
      skipped,
      nested,
      dryRun: literal(true),
    }),
  ]),
  list: union([
    strictObject({ runs: array(run), halfRemoved: array(halfRemoved).optional() }),
    strictObject({
      runs: array(run.extend({ repository: string() })),
      problems: objects({
        repository: string(),
        problem: strictObject({
          code: string(),
          message: string(),
          hint: nullable(string()),
          command: nullable(string()),
        }),
      }),
    }),
    strictObject({ run, checkpoints: array(checkpoint) }),
  ]),
  ui: strictObject({
    kind: z.enum(["serving", "running"]),
    url: string(),
    origin: string(),
    port: number(),
    pid: number(),
    readOnly: boolean(),
  }),
  show: union([
    strictObject({
      run,
      worktree: nullable(string()),
      checkpoints: array(checkpoint),
      dropped: count,
      effects: objects({ key: string(), kind: string(), target: string(), state: effectState }),
    }),
    strictObject({ checkpoint: checkpoint.extend({ planes: z.looseObject({ toolchain: toolchain.optional() }) }) }),
    strictObject({ of: string(), graph, edges: array(anyObject) }),
  ]),
  events: union([strictObject({ run, entries: array(entry) }), entry]),
  find: strictObject({
    target: union([
      strictObject({ kind: literal("commit"), name: string() }),
      strictObject({ kind: literal("pull_request"), number: count, url: nullable(string()) }),
    ]),
    commit: nullable(string()),
    runs: objects({
      id: string(),
      run: nullable(run),
      by: array(z.enum(["receipt", "journal", "pin", "trailer"])),
      confirmed: boolean(),
    }),
  }),
  diff: strictObject({
    from: string(),
    to: nullable(string()),
    worktree: nullable(string()),
    files: objects({ path: string(), status: string(), from: nullable(string()) }),
    text: string(),
    values: array(valueChange),
    notCompared: anyList,
  }),
  restore: strictObject({
    plan: nullable(
      strictObject({
        run: string(),
        target: checkpoint,
        files: nullable(filesPlan),
        paths: nullable(texts),
        only: nullable(z.enum(["files", "conversation", "state"])),
      }),
    ),
    lost: anyList,
    toolchain: texts,
    rebuilds: string().optional(),
    setup: nullable(strictObject({ outcome: z.enum(["done", "failed", "skipped"]), text: string() })).optional(),
    rollback: rollback.optional(),
    dryRun: boolean(),
    effects: array(undoPreview).optional(),
    undone: objects({ key: string(), outcome: z.enum(["undone", "kept"]), why: nullable(string()) }).optional(),
    report: nullable(
      restored.extend({ steps: objects({ step: string(), outcome: string(), text: string() }) }),
    ).optional(),
  }),
  undo: union([
    strictObject({ run: string(), effects: array(undoPreview) }),
    strictObject({ run: string(), effect: undoPreview, dryRun: boolean(), report: nullable(undoReport) }),
  ]),
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
  rm: union([
    strictObject({ removed: array(tombstone), freedBytes: count, dryRun: literal(false) }),
    strictObject({ removed: anyList, dryRun: literal(true) }),
    strictObject({ runs: array(removedRun), freedBytes: count, dryRun: literal(false) }),
    strictObject({ runs: array(removedRun), dryRun: literal(true) }),
  ]),
  compare: strictObject({
    runs: array(side),
    pairs: objects({
      a: string(),
      b: string(),
      code,
      values: nullable(array(valueChange)),
      diverged: strictObject({
        common: nullable(point),
        beginning: z.enum(["none", "checkpoint", "alike"]),
        first: nullable(
          strictObject({
            shared: count,
            kind: z.enum(["step", "result", "length"]),
            a: historyStep,
            b: historyStep,
          }),
        ),
      }),
    }),
    best: objects({ dimension: string(), ids: texts }),
    diffs: objects({ from: string(), to: string(), text: string() }),
    choice: nullable(strictObject({ id: string(), tag: string(), untagged: texts })),
    page: string().optional(),
  }),
  "cherry-pick": strictObject({
    plan: strictObject({
      run: string(),
      source: checkpoint,
      asked: texts,
      files: filesPlan,
      edited: texts,
      outward: objects({ path: string(), target: string() }),
      begun: nullable(checkpoint),
    }),
    dryRun: boolean(),
    report: nullable(restored).optional(),
  }),
  replay: strictObject({
    run: string(),
    verdict: z.enum(["identical", "diverged", "damaged"]),
    divergence: nullable(
      strictObject({
        where: strictObject({
          stage: string(),
          iteration: count,
          stageAttempt: count,
          step: nullable(string()),
          checkpoint: nullable(count),
          entry: nullable(count),
        }),
        what: string(),
        field: string(),
        expected: z.unknown(),
        actual: z.unknown(),
      }),
    ),
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
  rerun: union([
    plan,
    ...execution,
    strictObject({
      kind: literal("comparison"),
      of: string(),
      run: string(),
      outcome: result.shape.result,
      compared: strictObject({ same: count, step: firstDivergence, files: firstDivergence, verdict: firstDivergence }),
      spent: strictObject({ a: amounts, b: amounts }),
      ended: strictObject({ a: string(), b: string() }),
    }),
  ]),
  service: union([
    strictObject({
      action: literal("install"),
      dryRun: boolean(),
      service: z.enum(["systemd", "launchd"]),
      file: string(),
      text: string(),
      changed: boolean(),
      enabled: boolean(),
      problem: nullable(string()),
      commands: array(texts),
      repository: workerRepository,
    }),
    strictObject({
      action: literal("status"),
      service: z.enum(["systemd", "launchd"]),
      file: string(),
      installed: z.enum(["absent", "current", "outdated"]),
      enabled: nullable(boolean()),
      worker: nullable(count),
      linger: nullable(boolean()),
      repositories: array(workerRepository.extend({ problem: nullable(string()) })),
      runs: objects({ ...workerDecision, until: nullable(time), status: string() }),
    }),
    strictObject({
      action: literal("remove"),
      service: z.enum(["systemd", "launchd"]),
      file: string(),
      removed: boolean(),
      problem: nullable(string()),
      commands: array(texts),
      repositories: texts,
    }),
  ]),
  "store push": sentFiles,
  "store fetch": sentFiles,
  store: strictObject({
    from: string(),
    to: string(),
    dryRun: boolean(),
    runs: objects({
      run: string(),
      entries: count,
      checkpoints: count,
      result: z.enum(["copied", "extended", "same"]).optional(),
      head: string().optional(),
    }),
    held: objects({ run: string(), why: string() }),
  }),
  worker: union([
    workerLine({ kind: literal("repository"), repository: string(), problem: nullable(string()) }),
    workerLine({ ...workerDecision, until: nullable(time).optional() }),
    workerLine({ kind: literal("ended"), repository: string(), run: string(), exit: nullable(string()) }),
    workerLine({
      kind: literal("joined"),
      worker: string(),
      dispatch: string(),
      slots: count,
      labels: array(string()),
    }),
    workerLine({ kind: literal("problem"), problem: string() }),
    workerLine({ kind: literal("draining"), runs: count }),
    workerLine({ kind: literal("left") }),
    workerLine({ kind: literal("health"), url: string() }),
  ]),
  submit: union([
    plan,
    result,
    strictObject({ kind: literal("plan"), run, submission, known: boolean() }),
    strictObject({ kind: literal("submitted"), run, submission, dispatch: string(), known: boolean(), unpushed }),
  ]),
  queue: union([
    strictObject({
      dispatch: nullable(string()),
      entries: array(queueEntry),
    }),
    strictObject({ cancelled: string(), known: boolean() }),
  ]),
  workers: strictObject({
    dispatch: nullable(string()),
    workers: objects({
      id: string(),
      host: string(),
      labels: array(string()),
      slots: count,
      busy: count,
      version: string(),
      draining: boolean(),
      heartbeatAgeMs: z.number(),
    }),
  }),
};

/** null: the command has no schema. */
export function jsonSchemaOf(command: string): unknown {
  const schema = JSON_SCHEMAS[command];
  return schema === undefined ? null : z.toJSONSchema(schema);
}
