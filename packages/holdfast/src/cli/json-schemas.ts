/**
 * The schemas of `--json`: one per command. A stream prints one document per line, and every line matches the schema of
 * its command. An unknown or a missing key fails. Only what a workflow or another tool defines (context values,
 * settings, labels, recorded results) is an object without further rules.
 */
import { z } from "zod";
import {
  count,
  time,
  anyObject,
  anyList,
  texts,
  work,
  question,
  run,
  amounts,
  graph,
  details,
  checkpoint,
  finding,
  result,
  uses,
  plan,
  resumePlan,
  rollback,
  tag,
  loss,
  remarks,
  execution,
  exported,
  skipped,
  nested,
  filesPlan,
  restored,
  tombstone,
  halfRemoved,
  removedRun,
  undoPreview,
  undoReport,
  effectState,
  sweep,
  usage,
  gcReport,
  entry,
  code,
  point,
  historyStep,
  side,
  firstDivergence,
  probe,
  agentProbe,
  consentItem,
  setupFile,
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
const workerRepository = strictObject({ root: string(), store: nullable(string()) });
const workerDecision = {
  kind: z.enum(["start", "wait", "skip"]),
  repository: string(),
  run: string(),
  why: string(),
};

/** By the name of the command. */
export const JSON_SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  run: union([plan, ...execution]),
  resume: union([
    strictObject({
      kind: literal("plan"),
      run,
      plan: resumePlan,
      findings: array(finding),
      notes: texts,
      verdict: string(),
      uses: nullable(uses),
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
  approve: strictObject({ run, question, answer: nullable(string()), by: nullable(string()) }),
  status: union([
    strictObject({ kind: literal("status").optional(), run: union([details, run]), page: string().optional() }),
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
      problems: array(
        strictObject({
          repository: string(),
          problem: strictObject({
            code: string(),
            message: string(),
            hint: nullable(string()),
            command: nullable(string()),
          }),
        }),
      ),
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
      effects: array(strictObject({ key: string(), kind: string(), target: string(), state: effectState })),
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
    runs: array(
      strictObject({
        id: string(),
        run: nullable(run),
        by: array(z.enum(["receipt", "journal", "pin", "trailer"])),
        confirmed: boolean(),
      }),
    ),
  }),
  diff: strictObject({
    from: string(),
    to: nullable(string()),
    worktree: nullable(string()),
    files: array(strictObject({ path: string(), status: string(), from: nullable(string()) })),
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
    undone: array(
      strictObject({ key: string(), outcome: z.enum(["undone", "kept"]), why: nullable(string()) }),
    ).optional(),
    report: nullable(
      restored.extend({ steps: array(strictObject({ step: string(), outcome: string(), text: string() })) }),
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
    pairs: array(
      strictObject({
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
    ),
    best: array(strictObject({ dimension: string(), ids: texts })),
    diffs: array(strictObject({ from: string(), to: string(), text: string() })),
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
      outward: array(strictObject({ path: string(), target: string() })),
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
  "format export": union([
    exported,
    strictObject({
      run: string(),
      to: literal("run"),
      written: texts,
      bytes: count,
      entries: count,
      checkpoints: count,
      prerequisites: texts,
      secrets: array(strictObject({ where: string(), kind: string() })),
      unsearched: boolean(),
      unsaved: boolean(),
    }),
    strictObject({
      run: string(),
      to: literal("html"),
      written: texts,
      bytes: count,
      document: nullable(string()),
    }),
  ]),
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
        remarks,
      }),
    ),
  }),
  "format import": union([
    strictObject({
      kind: literal("imported").optional(),
      run: string(),
      format: string(),
      workflow: string(),
      work,
      worktree: nullable(string()),
      checkpoints: array(
        strictObject({ sequence: count, id: nullable(string()), createdAt: time, stage: string(), iteration: count }),
      ),
      remarks,
      broken: array(strictObject({ name: string(), code: string(), message: string() })),
      before: z.enum(["none", "part", "whole", "own"]),
      changed: boolean().optional(),
    }),
    strictObject({
      run: string(),
      format: literal("run"),
      from: strictObject({ store: string(), createdAt: time }),
      entries: count,
      checkpoints: count,
      before: z.enum(["none", "whole"]),
      changed: boolean().optional(),
    }),
  ]),
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
      setup: z.unknown(),
      gate: z.unknown(),
      forge: z.unknown(),
      agents: array(agentProbe),
    }),
  ]),
  config: union([
    strictObject({
      path: nullable(string()),
      settings: array(strictObject({ key: string(), value: z.unknown(), origin: z.looseObject({ kind: string() }) })),
      untrusted: array(consentItem),
    }),
    strictObject({ path: nullable(string()), ok: boolean(), problems: anyList }),
    strictObject({ path: nullable(string()) }),
    strictObject({ directory: string(), files: anyList }),
    strictObject({
      directories: strictObject({ user: string(), repository: string() }),
      prompts: array(
        strictObject({
          workflow: string(),
          name: string(),
          from: z.enum(["built-in", "user", "repository", "setting"]),
          path: nullable(string()),
          digest: string(),
          text: string(),
        }),
      ),
    }),
  ]),
  agents: union([
    strictObject({
      agents: array(agentProbe.extend({ minimum: nullable(string()), capabilities: z.record(string(), boolean()) })),
    }),
    strictObject({
      agent: string(),
      probe: nullable(probe),
      prompt: string(),
      timeoutMs: count,
      dryRun: literal(true),
    }),
    z.looseObject({ agent: string(), ok: boolean(), outcome: z.looseObject({ kind: string() }), wrote: boolean() }),
  ]),
  trust: union([
    strictObject({
      repository: string(),
      digest: string(),
      settings: array(consentItem.extend({ trusted: boolean() })),
      granted: count,
    }),
    strictObject({
      repositories: array(
        strictObject({
          repository: string(),
          grants: array(strictObject({ digest: string(), key: string(), at: time })),
        }),
      ),
    }),
    strictObject({ repository: string(), revoked: boolean() }),
  ]),
  doctor: strictObject({
    ok: boolean(),
    checks: array(strictObject({ name: string(), level: string(), detail: string(), fix: nullable(string()) })),
    usage,
  }),
  verify: strictObject({
    ok: boolean(),
    summary: strictObject({
      kind: literal("summary"),
      ok: boolean(),
      runs: count,
      entries: count,
      checkpoints: count,
      chunks: count,
      problems: count,
    }),
    problems: array(
      strictObject({
        code: string(),
        run: nullable(string()),
        entry: nullable(count),
        sequence: nullable(count),
        what: string(),
        trustedTo: nullable(count),
        newestIntact: nullable(count),
      }),
    ),
    repaired: array(
      strictObject({
        run: string(),
        quarantined: array(count),
        pinned: array(count),
        newestIntact: nullable(count),
      }),
    ),
  }),
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
      runs: array(strictObject({ ...workerDecision, until: nullable(time), status: string() })),
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
  worker: union([
    strictObject({ kind: literal("repository"), repository: string(), problem: nullable(string()) }),
    strictObject({ ...workerDecision, until: nullable(time).optional() }),
    strictObject({ kind: literal("ended"), repository: string(), run: string(), exit: nullable(string()) }),
  ]),
  gc: strictObject({
    plan: strictObject({
      plans: array(
        strictObject({
          run: string(),
          decisions: array(
            strictObject({
              action: z.enum(["keep", "drop"]),
              sequence: count,
              why: string(),
              bytes: count.optional(),
            }),
          ),
        }),
      ),
      danglingRefs: texts,
      sideWorktrees: array(strictObject({ run: string(), key: string(), path: string(), exists: boolean() })),
      sweep,
      usage,
    }),
    loops: anyList,
    worktrees: array(
      strictObject({
        run: string(),
        path: string(),
        kept: nullable(string()),
        ignored: texts,
        unsaved: boolean(),
        removed: boolean().optional(),
        savedAs: nullable(string()).optional(),
      }),
    ),
    dryRun: boolean(),
    report: gcReport.optional(),
    removals: array(strictObject({ run: string(), reasons: texts })).optional(),
  }),
  completion: strictObject({ shell: string(), script: string() }),
  demo: strictObject({
    seed: count,
    ok: boolean(),
    points: count,
    kills: array(strictObject({ place: string(), stage: string(), iteration: count, stageAttempt: count })),
    timeline: array(
      strictObject({
        stageAttempt: count,
        stage: string(),
        iteration: count,
        event: string(),
        score: nullable(number()),
        deaths: texts,
      }),
    ),
    proof: array(strictObject({ claim: string(), ok: boolean(), detail: string() })),
    tree: nullable(string()),
    directory: nullable(string()),
  }),
  help: strictObject({
    commands: array(
      strictObject({
        name: string(),
        summary: string(),
        details: texts,
        operands: array(anyObject),
        consent: string(),
        paths: literal(true).optional(),
        flags: z.record(string(), anyObject),
        configFlags: z.record(string(), string()).optional(),
        flagGroups: z.record(string(), texts).optional(),
        examples: array(strictObject({ line: string(), about: string() })),
        json: string(),
        reads: literal(true).optional(),
        windsDown: literal(true).optional(),
        waitsForSpace: literal(true).optional(),
        schema: z.unknown().optional(),
      }),
    ),
  }),
};

/** null: the command has no schema. */
export function jsonSchemaOf(command: string): unknown {
  const schema = JSON_SCHEMAS[command];
  return schema === undefined ? null : z.toJSONSchema(schema);
}
