import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Json, JsonObject } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { smallJson, time, unknownFields, word } from "@holdfast/test-support/formats/arbitrary-checkpoint";
import {
  PATIENCE,
  formatSuite,
  jsonCorruptions,
  propertyRuns,
  readGoldens,
  replaceAt,
} from "@holdfast/test-support/formats/format-suite";
import type { ExternalCheckpoint, ExternalFile } from "./format.ts";
import { encodeTrigger } from "./loop-document.ts";
import { loopJson } from "./loop-json.ts";

describe("loop json", () => {
  const MULTI = ".aiwg/ralph/loops/ralph-fix-tests-a1b2c3d4/checkpoints/iteration-005.json";
  const LEGACY = ".aiwg/checkpoints/ralph-research-impl-2026-01-25T15-00-00Z-iteration.json";
  const ODD = ".aiwg/ralph/loops/ralph-test-coverage-2026-01-25/checkpoints/checkpoint-3-1769353200000.json";

  const utf8 = new TextEncoder();
  const goldens = readGoldens().filter((golden) => golden.format === "loop-json");
  const golden = (name: string): ExternalFile => {
    const found = goldens.find((one) => one.name === name);
    if (found === undefined) throw new Error(`There is no golden ${name}`);
    return found.file;
  };
  const file = (document: unknown, path = "checkpoint.json"): ExternalFile => ({
    path,
    bytes: utf8.encode(JSON.stringify(document)),
    compression: "none",
  });
  const parse = (bytes: Uint8Array): JsonObject => JSON.parse(new TextDecoder().decode(bytes));
  const least = {
    checkpoint_id: "1",
    workflow_id: "w",
    created_at: "2026-01-25T15:00:00Z",
    state: { phase: "p", progress: {}, artifacts: [] },
  };
  const one = (document: unknown, path?: string): ExternalCheckpoint => {
    const [checkpoint] = loopJson.decode(file(document, path)).checkpoints;
    if (checkpoint === undefined) throw new Error("No checkpoint");
    return checkpoint;
  };
  const misfit = (path: string, value: Json, name = MULTI) => ({ golden: name, path, value });

  formatSuite({
    format: loopJson,
    files: loopDocuments({ unknown: unknownFields(), json: smallJson(), word }).map((document) => file(document)),
    parse,
    write: (document) => utf8.encode(JSON.stringify(document)),
    endsAreMarked: true,
    normalised: ["/metadata/schema_version"],
    misfits: [
      misfit("/checkpoint_id", 1),
      misfit("/checkpoint_id", ""),
      misfit("/workflow_id", null),
      misfit("/loop_id", 7),
      misfit("/loop_id", "../../etc"),
      misfit("/loop_id", "a/b"),
      misfit("/loop_id", ""),
      misfit("/loop_id", "a..b"),
      misfit("/loop_id", ".hidden"),
      misfit("/loop_id", "x".repeat(201)),
      // A document in the directory of a loop must have a loop id.
      misfit("/loop_id", null),
      misfit("/workflow_type", "loop"),
      misfit("/workflow_type", null),
      misfit("/created_at", "soon"),
      misfit("/created_at", "2026-02-30T00:00:00Z"),
      misfit("/created_at", 0),
      misfit("/trigger", "whim"),
      misfit("/trigger", "toString"),
      misfit("/state", "x"),
      misfit("/state/phase", null),
      misfit("/state/step", 1),
      misfit("/state/progress", null),
      misfit("/state/progress/percentage", 101),
      misfit("/state/progress/percentage", "5"),
      misfit("/state/progress/total_steps", 1.5),
      misfit("/state/progress/completed_steps", -1),
      misfit("/state/iteration", 5),
      misfit("/state/iteration/current", "5"),
      misfit("/state/iteration/max", null),
      misfit("/state/iteration/failures", -1),
      misfit("/state/artifacts", {}),
      misfit("/state/artifacts/0", "a.ts"),
      misfit("/state/artifacts/0/path", 1),
      misfit("/state/artifacts/0/hash", null),
      misfit("/state/artifacts/0/status", "lost"),
      misfit("/state/variables", []),
      misfit("/state/agent_state/current_agent", 1, ODD),
      misfit("/state/agent_state/memory", [], ODD),
      misfit("/state/agent_state/pending_actions", [1], ODD),
      misfit("/execution_config", []),
      misfit("/execution_config/model", 4),
      misfit("/execution_config/temperature", 2.5),
      misfit("/execution_config/seed", 0.5),
      misfit("/execution_config/execution_mode", "fast"),
      misfit("/execution_config/agent", null),
      misfit("/execution_config/tools", "bash"),
      misfit("/execution_config/inputs", 1),
      misfit("/metadata", "none"),
      misfit("/metadata/size_bytes", -1),
      misfit("/metadata/compression", "zip"),
      misfit("/metadata/retention_days", "30"),
      misfit("/metadata/tags", "a"),
      misfit("/metadata/schema_version", 2),
      misfit("/metadata/schema_version", "0.9"),
    ].map((row) => (row.path.endsWith("pending_actions") ? { ...row, blames: `${row.path}/0` } : row)),
    corruptions: [
      ...goldens.filter(({ name }) => name === LEGACY).flatMap(jsonCorruptions),
      ...["2.1", "3.0", "10.0"].map((schema_version) => ({
        name: `version ${schema_version}`,
        file: file({ metadata: { schema_version }, unheard: true }),
        code: "FORMAT_TOO_NEW" as const,
      })),
      ...Object.keys(least).map((key) => ({
        name: `without ${key}`,
        file: file(Object.fromEntries(Object.entries(least).filter(([name]) => name !== key))),
        code: "FORMAT_INVALID" as const,
      })),
    ],
  });

  describe("position, values and configuration", () => {
    test("of the example with several loops", () => {
      const [checkpoint] = loopJson.decode(golden(MULTI)).checkpoints;
      expect(checkpoint).toMatchObject({
        id: "cp-001-multi-loop",
        createdAt: "2026-02-02T21:05:00.000Z",
        trigger: "iteration",
        workflow: "ralph_loop",
        planes: {
          position: { workflow: "ralph_loop", stage: "construction", iteration: 5, attempts: {} },
          context: { values: { current_issue: "#268", implementation_approach: "multi-loop" } },
          config: {
            model: "claude-sonnet-4.5",
            temperature: 0,
            mode: "strict",
            agent: "Software Implementer",
            seed: null,
          },
          extensions: {
            "loop-json": { loop_id: "ralph-fix-tests-a1b2c3d4", step: "implement_issue", max_iterations: 200 },
          },
        },
      });
    });

    test.each([
      ["manual", "manual"],
      ["automatic", "automatic"],
      ["phase_boundary", "stage"],
      ["iteration", "iteration"],
      ["pre_risky_op", "before_risky"],
      ["error_recovery", "error_recovery"],
      ["phase_start", "stage"],
      ["artifact_complete", "artifact_complete"],
      ["before_external_call", "before_risky"],
      ["iteration_boundary", "iteration"],
      [undefined, "automatic"],
    ])("trigger %s is our %s, and is written back as it was", (trigger, ours) => {
      const checkpoint = one({ ...least, ...(trigger === undefined ? {} : { trigger }) });
      expect(checkpoint.trigger).toBe(ours);
      expect(parse(loopJson.encode(checkpoint).bytes)["trigger"]).toBe(trigger);
    });
  });

  describe("versions", () => {
    test("every written document has version 2.0, and a loop without an id stays without one", () => {
      const [checkpoint] = loopJson.decode(golden(LEGACY)).checkpoints;
      if (checkpoint === undefined) throw new Error("No checkpoint");
      const { bytes, path, losses } = loopJson.encode(checkpoint);
      expect(losses).toEqual([]);
      expect(path).toBe(`${LEGACY}.gz`);
      const before = parse(golden(LEGACY).bytes);
      expect(parse(bytes)).toEqual({
        ...before,
        metadata: { size_bytes: 4096, compression: "gzip", retention_days: 30, schema_version: "2.0" },
      });
    });

    test.each(["gzip", "lz4", "none"] as const)("metadata about %s is kept and decides the name", (compression) => {
      const checkpoint = one({ ...least, loop_id: "l", metadata: { compression } });
      const encoded = loopJson.encode(checkpoint);
      expect(parse(encoded.bytes)["metadata"]).toMatchObject({ compression });
      const suffix = { gzip: ".json.gz", lz4: ".json", none: ".json" }[compression];
      expect(encoded.path).toBe(`.aiwg/ralph/loops/l/checkpoints/iteration-000${suffix}`);
    });

    test("a file with another compression than it declares causes a remark", () => {
      const given = file({ ...least, metadata: { compression: "none" } });
      const paths = (compression: ExternalFile["compression"]) =>
        loopJson.decode({ ...given, compression }).remarks.map(({ path }) => path);
      expect(paths("gzip")).toContain("/metadata/compression");
      expect(paths("none")).not.toContain("/metadata/compression");
    });
  });

  test("unusual content causes a remark", () => {
    const remarkPaths = (name: string) => loopJson.decode(golden(name)).remarks.map(({ path }) => path);
    expect(remarkPaths(MULTI)).toEqual(["/checkpoint_id"]);
    expect(remarkPaths(LEGACY)).toEqual(["/checkpoint_id", "/loop_id"]);
    expect(remarkPaths(ODD)).toEqual(["/loop_id", "/trigger"]);
    expect(remarkPaths("least.json")).toEqual(["/checkpoint_id", "/created_at"]);
    expect(loopJson.decode(file({ ...least, loop_id: "other" }, MULTI)).remarks.map(({ text }) => text)).toContain(
      "It is in the directory of the loop ralph-fix-tests-a1b2c3d4",
    );
  });

  describe("a Holdfast checkpoint", () => {
    const planes = emptyPlanes({ workflow: "ralph_loop", stage: "construction" });
    const ours: ExternalCheckpoint = {
      id: "issue-1-abcd@3",
      createdAt: "2026-01-02T03:04:05.000Z",
      trigger: "stage",
      workflow: "ralph_loop",
      work: { kind: "none" },
      planes,
      original: null,
    };
    test("becomes a complete document", () => {
      const encoded = loopJson.encode(ours);
      expect(parse(encoded.bytes)).toEqual({
        checkpoint_id: "issue-1-abcd@3",
        workflow_id: "holdfast",
        loop_id: null,
        workflow_type: "ralph_loop",
        created_at: "2026-01-02T03:04:05.000Z",
        trigger: "phase_boundary",
        state: { phase: "construction", progress: {}, artifacts: [] },
        metadata: { compression: "gzip", schema_version: "2.0" },
      });
      expect(encoded).toMatchObject({
        losses: [],
        path: ".aiwg/checkpoints/holdfast-2026-01-02T03-04-05Z-phase_boundary.json.gz",
      });
    });

    test("without a time it is refused", () => {
      expect(() => loopJson.encode({ ...ours, createdAt: null })).toThrow(HoldfastError);
      expect(() => loopJson.encode({ ...ours, createdAt: null })).toThrow("needs a creation time");
    });

    test("files become artifacts, and their losses are named", () => {
      const files = {
        tree: "t",
        snapshot: "c",
        ref: "r",
        worktree: "/w",
        head: null,
        branch: null,
        base: null,
        artifacts: [
          { path: "a.ts", digest: "00", status: "modified" },
          { path: "b.ts", digest: null, status: "deleted" },
        ],
        artifactCount: 2,
        skipped: [],
        nested: [],
        index: null,
        operation: null,
      } as const;
      const encoded = loopJson.encode({ ...ours, planes: { ...planes, files } });
      expect(parse(encoded.bytes)["state"]).toMatchObject({
        artifacts: [
          { path: "a.ts", hash: "00", status: "modified" },
          { path: "b.ts", status: "deleted" },
        ],
      });
      expect(encoded.losses.map(({ path }) => path)).toEqual(["files"]);
    });

    test("a later checkpoint written over an imported one keeps unknown fields", () => {
      fc.assert(
        fc.property(time, word, fc.nat(99), (createdAt, stage, iteration) => {
          const checkpoint = one({ unknown: 1, ...least, state: { ...least.state, mood: "good" } });
          const position = { ...checkpoint.planes.position, stage, iteration };
          const later = { ...checkpoint, createdAt, planes: { ...checkpoint.planes, position } };
          expect(parse(loopJson.encode(later).bytes)).toMatchObject({
            unknown: 1,
            created_at: createdAt === "2026-01-25T15:00:00.000Z" ? least.created_at : createdAt,
            state: { phase: stage, mood: "good" },
          });
        }),
        { numRuns: 50 },
      );
    });
  });

  test.each([
    ["stage", "phase_boundary"],
    ["iteration", "iteration"],
    ["manual", "manual"],
    ["automatic", "automatic"],
    ["artifact_complete", "automatic"],
    ["before_risky", "pre_risky_op"],
    ["before_external", "pre_risky_op"],
    ["before_restore", "pre_risky_op"],
    ["error_recovery", "error_recovery"],
    ["restore", "error_recovery"],
  ] as const)("our status %s is written as one of the six of the format: %s", (trigger, word) => {
    expect(encodeTrigger(trigger)).toBe(word);
  });
});

describe("schema", () => {
  /** The published schema, checked by an independent validator. */

  const SCHEMA = join(import.meta.dirname, "../../holdfast/schemas/loop-checkpoint.schema.json");
  const schema: JsonObject = JSON.parse(readFileSync(SCHEMA, "utf8"));
  const examples = schema["examples"] as readonly JsonObject[];
  const goldens = readGoldens().filter((golden) => golden.format === "loop-json");
  const parse = (bytes: Uint8Array): Json => JSON.parse(new TextDecoder().decode(bytes));

  const OPTIONS = {
    strict: true,
    formats: { "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/ },
  };

  test("its examples are the golden files", () => {
    const [multi, legacy] = examples;
    const documents = goldens.map((golden) => parse(golden.file.bytes));
    expect(documents).toContainEqual(multi);
    expect(documents).toContainEqual(legacy);
  });

  describe("ajv", () => {
    const validator = new Ajv2020(OPTIONS);
    const validate = validator.compile(schema);
    const isValid = (document: Json): boolean => validate(document);

    test("accepts the schema, strictly", () => {
      expect(validator.validateSchema(schema)).toBe(true);
    });

    test.each(examples)("accepts the example $checkpoint_id", (example) => {
      expect(isValid(example)).toBe(true);
    });

    test.each(goldens.filter(({ name }) => name !== "least.json"))(
      "accepts $name, and what we write of it",
      (golden) => {
        expect(isValid(parse(golden.file.bytes))).toBe(true);
        for (const checkpoint of loopJson.decode(golden.file).checkpoints)
          expect(isValid(parse(loopJson.encode(checkpoint).bytes))).toBe(true);
      },
    );

    test("and our codec agree about what is valid", PATIENCE, () => {
      const paths = fc.constantFrom(
        "/checkpoint_id",
        "/loop_id",
        "/workflow_type",
        "/trigger",
        "/state/phase",
        "/state/progress",
        "/state/artifacts",
        "/execution_config",
        "/metadata",
        "/state/iteration",
      );
      const values: fc.Arbitrary<Json> = fc.constantFrom<Json>(null, 1, -1, "", "a", "../a", [], {}, "manual", true, [
        {},
      ]);
      fc.assert(
        fc.property(
          loopDocuments({ unknown: unknownFields(), json: smallJson(), word }),
          paths,
          values,
          (document, path, value) => {
            const changed = { ...Object(replaceAt(document, path, value)), created_at: "2026-01-25T15:00:00Z" };
            expect(isValid(changed)).toBe(isDecodable(changed));
          },
        ),
        propertyRuns(300),
      );
    });
  });

  function isDecodable(document: Json): boolean {
    try {
      loopJson.decode({ path: "a", bytes: new TextEncoder().encode(JSON.stringify(document)), compression: "none" });
      return true;
    } catch {
      return false;
    }
  }
});

/** The arbitraries that documents are made of. The suites pass them in, because formats depend on core only. */
interface DocumentParts {
  readonly unknown: fc.Arbitrary<JsonObject>;
  readonly json: fc.Arbitrary<Json>;
  readonly word: fc.Arbitrary<string>;
}

/** Valid loop checkpoints: any of the optional fields, odd ids, and unknown fields at every level. */
function loopDocuments(parts: DocumentParts): fc.Arbitrary<JsonObject> {
  const { word } = parts;
  const withUnknown = (known: fc.Arbitrary<object>): fc.Arbitrary<JsonObject> =>
    fc
      .tuple(known, parts.unknown, fc.boolean())
      .map(([fields, unknown, first]): JsonObject => (first ? { ...unknown, ...fields } : { ...fields, ...unknown }));
  const maybe = { requiredKeys: [] };
  const count = fc.nat(300);
  const words = fc.array(word, { maxLength: 2 });
  const object = fc.dictionary(word, parts.json, { maxKeys: 3, noNullPrototype: true });

  const state = withUnknown(
    fc.record(
      {
        phase: fc.string({ maxLength: 8 }),
        step: fc.string({ maxLength: 8 }),
        progress: withUnknown(
          fc.record({ total_steps: count, completed_steps: count, percentage: fc.constantFrom(0, 2.5, 100) }, maybe),
        ),
        iteration: withUnknown(fc.record({ current: fc.nat(3), max: count, failures: fc.nat(2) }, maybe)),
        artifacts: fc.array(
          withUnknown(
            fc.record(
              { path: word, hash: word, status: fc.constantFrom("created", "modified", "deleted", "unchanged") },
              maybe,
            ),
          ),
          { maxLength: 3 },
        ),
        variables: object,
        agent_state: withUnknown(fc.record({ current_agent: word, memory: object, pending_actions: words }, maybe)),
      },
      { requiredKeys: ["phase", "progress", "artifacts"] },
    ),
  );

  const config = withUnknown(
    fc.record(
      {
        model: word,
        temperature: fc.constantFrom(0, 0.7, 2),
        seed: fc.integer(),
        execution_mode: fc.constantFrom("strict", "seeded", "logged", "default"),
        agent: word,
        tools: words,
        inputs: object,
      },
      maybe,
    ),
  );

  const metadata = withUnknown(
    fc.record(
      {
        size_bytes: count,
        compression: fc.constantFrom("none", "gzip", "lz4"),
        retention_days: fc.integer(),
        tags: words,
        schema_version: fc.constantFrom("1.0", "2.0"),
      },
      maybe,
    ),
  );
  return withUnknown(
    fc.record(
      {
        checkpoint_id: fc.oneof(fc.uuid(), word),
        workflow_id: fc.oneof(word, fc.string({ minLength: 1, maxLength: 8 })),
        loop_id: fc.option(
          fc.oneof(fc.constantFrom("ralph--2aee878f", "ralph-x-2026-01-25", "ralph-a-e5f6g7h8"), word, fc.uuid()),
        ),
        workflow_type: fc.constantFrom("ralph_loop", "flow_command", "skill_execution", "agent_task"),
        created_at: fc.constantFrom("2026-01-25T15:00:00Z", "2026-01-25T15:00:00.125+05:30", "2026-01-25T15:00:00"),
        trigger: fc.constantFrom(
          "manual",
          "automatic",
          "phase_boundary",
          "iteration",
          "pre_risky_op",
          "artifact_complete",
        ),
        state,
        execution_config: config,
        metadata,
      },
      { requiredKeys: ["checkpoint_id", "workflow_id", "created_at", "state"] },
    ),
  );
}
