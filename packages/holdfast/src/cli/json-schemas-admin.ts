/** The schemas of `--json` of the commands that import, export and administer. */
import { z } from "zod";
import { count, time, anyObject, anyList, texts, objects, work, sweep, gcReport } from "./json-shapes.ts";

const { strictObject, nullable, array, union, literal, string, boolean, number } = z;

const loss = strictObject({ path: string(), why: string() });
const remarks = objects({ path: string(), text: string() });
const exported = strictObject({
  from: string(),
  to: string(),
  path: nullable(string()),
  written: texts,
  removed: texts,
  losses: array(loss),
  remarks: remarks.optional(),
  document: nullable(string()),
});
const usage = objects({ run: string(), checkpoints: count, bytes: count });
const probe = strictObject({
  installed: boolean(),
  version: nullable(string()),
  problem: nullable(string()),
  hint: nullable(string()),
});
const agentProbe = probe.extend({ name: string() });
const consentItem = strictObject({
  key: string(),
  value: z.unknown(),
  danger: string(),
  file: string(),
  line: count,
  digest: string(),
  note: string().optional(),
});
const setupFile = strictObject({ path: string(), written: boolean(), text: string() });

export const ADMIN_SCHEMAS: Readonly<Record<string, z.ZodType>> = {
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
      secrets: objects({ where: string(), kind: string() }),
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
    files: objects({
      file: string(),
      format: nullable(string()),
      ok: boolean(),
      code: nullable(string()),
      message: nullable(string()),
      checkpoints: count,
      remarks,
    }),
  }),
  "format import": union([
    strictObject({
      kind: literal("imported").optional(),
      run: string(),
      format: string(),
      workflow: string(),
      work,
      worktree: nullable(string()),
      checkpoints: objects({
        sequence: count,
        id: nullable(string()),
        createdAt: time,
        stage: string(),
        iteration: count,
      }),
      remarks,
      broken: objects({ name: string(), code: string(), message: string() }),
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
      settings: objects({ key: string(), value: z.unknown(), origin: z.looseObject({ kind: string() }) }),
      untrusted: array(consentItem),
    }),
    strictObject({ path: nullable(string()), ok: boolean(), problems: anyList }),
    strictObject({ path: nullable(string()) }),
    strictObject({ directory: string(), files: anyList }),
    strictObject({
      directories: strictObject({ user: string(), repository: string() }),
      prompts: objects({
        workflow: string(),
        name: string(),
        from: z.enum(["built-in", "user", "repository", "setting"]),
        path: nullable(string()),
        digest: string(),
        text: string(),
      }),
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
      repositories: objects({
        repository: string(),
        grants: objects({ digest: string(), key: string(), at: time }),
      }),
    }),
    strictObject({ repository: string(), revoked: boolean() }),
  ]),
  doctor: strictObject({
    ok: boolean(),
    checks: objects({ name: string(), level: string(), detail: string(), fix: nullable(string()) }),
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
    problems: objects({
      code: string(),
      run: nullable(string()),
      entry: nullable(count),
      sequence: nullable(count),
      what: string(),
      trustedTo: nullable(count),
      newestIntact: nullable(count),
    }),
    absent: objects({ run: string(), checkpoints: count }),
    repaired: objects({
      run: string(),
      quarantined: array(count),
      pinned: array(count),
      newestIntact: nullable(count),
    }),
  }),
  gc: strictObject({
    plan: strictObject({
      plans: objects({
        run: string(),
        decisions: objects({
          action: z.enum(["keep", "drop"]),
          sequence: count,
          why: string(),
          bytes: count.optional(),
        }),
      }),
      danglingRefs: texts,
      sideWorktrees: objects({ run: string(), key: string(), path: string(), exists: boolean() }),
      sweep,
      usage,
    }),
    loops: anyList,
    worktrees: objects({
      run: string(),
      path: string(),
      kept: nullable(string()),
      ignored: texts,
      unsaved: boolean(),
      removed: boolean().optional(),
      savedAs: nullable(string()).optional(),
    }),
    dryRun: boolean(),
    report: gcReport.optional(),
    removals: objects({ run: string(), reasons: texts }).optional(),
  }),
  completion: strictObject({ shell: string(), script: string() }),
  demo: strictObject({
    seed: count,
    ok: boolean(),
    points: count,
    kills: objects({ place: string(), stage: string(), iteration: count, stageAttempt: count }),
    timeline: objects({
      stageAttempt: count,
      stage: string(),
      iteration: count,
      event: string(),
      score: nullable(number()),
      deaths: texts,
    }),
    proof: objects({ claim: string(), ok: boolean(), detail: string() }),
    tree: nullable(string()),
    directory: nullable(string()),
  }),
  help: strictObject({
    commands: objects({
      name: string(),
      summary: string(),
      details: texts,
      operands: array(anyObject),
      consent: string(),
      paths: literal(true).optional(),
      flags: z.record(string(), anyObject),
      configFlags: z.record(string(), string()).optional(),
      flagGroups: z.record(string(), texts).optional(),
      examples: objects({ line: string(), about: string() }),
      json: string(),
      reads: literal(true).optional(),
      windsDown: literal(true).optional(),
      waitsForSpace: literal(true).optional(),
      schema: z.unknown().optional(),
    }),
  }),
};
