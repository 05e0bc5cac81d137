import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import type { Graph } from "@holdfast/core/graph";
import { stepGraph } from "@holdfast/core/graph-state";
import type { Json, JsonObject } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { readGoldens } from "@holdfast/test-support/formats/format-suite";
import { cachedDecoder, crunchYaml, decodeCrunch, encodeCrunch } from "./crunch-yaml.ts";
import type { Decoded, ExternalCheckpoint, ExternalFile } from "./format.ts";

describe("encode crunch", () => {
  function golden(name: string): ExternalCheckpoint {
    const found = readGoldens().find((one) => one.format === crunchYaml.name && one.name === name);
    const [checkpoint] = found === undefined ? [] : crunchYaml.decode(found.file).checkpoints;
    if (checkpoint === undefined) throw new Error(`There is no golden ${name}`);
    return checkpoint;
  }

  const written = (checkpoint: ExternalCheckpoint): JsonObject =>
    parse(new TextDecoder().decode(crunchYaml.encode(checkpoint).bytes)) as JsonObject;

  function withPlanes(checkpoint: ExternalCheckpoint, planes: Partial<Planes>): ExternalCheckpoint {
    return { ...checkpoint, planes: { ...checkpoint.planes, ...planes } };
  }

  const ours: ExternalCheckpoint = {
    id: null,
    createdAt: "2026-03-01T10:00:00.000Z",
    trigger: "iteration",
    workflow: "impl",
    work: { kind: "issue", number: 7 },
    planes: emptyPlanes({ workflow: "impl", stage: "impl" }),
    original: null,
  };

  test("a version 1.0 stays 1.0, as a number and as a string, in YAML and in JSON", () => {
    const number = golden("CP-before-batch-1.yaml");
    const text = golden("CP-enrich-20250114-b4c5.yaml");
    const line = (checkpoint: ExternalCheckpoint, encoding: "yaml" | "json"): string | undefined =>
      new TextDecoder()
        .decode(encodeCrunch(checkpoint, encoding).bytes)
        .split("\n")
        .find((one) => one.trimStart().replace('"', "").startsWith("version"));
    expect(number.original?.document["version"]).toBe(1);
    expect([line(number, "yaml"), line(number, "json")]).toEqual(["version: 1.0", '  "version": 1.0,']);
    expect([line(text, "yaml"), line(text, "json")]).toEqual(['version: "1.0"', '  "version": "1.0",']);
    const nested = withPlanes(text, {
      extensions: { ...text.planes.extensions, team: { version: 1, a: "version: 1" } },
    });
    expect(written(nested)["team_state"]).toEqual({ version: 1, a: "version: 1" });
    expect(new TextDecoder().decode(encodeCrunch(nested, "json").bytes)).toContain('    "version": 1,\n');
  });

  describe("a crunch document that a run continued from", () => {
    test("describes the new position only", () => {
      const before = golden("CP-enrich-20250114-b4c5.yaml");
      const position = { ...before.planes.position, stage: "ready", attempts: { ready: 1 } };
      const document = written(withPlanes(before, { position }));
      expect(document["workflow_state"]).toEqual({
        current_phase: "ready",
        current_state_label: "state:ready",
        phase_attempt: 1,
      });
      expect(document["recovery_info"]).toEqual({
        can_resume: true,
        resume_from: "task-003",
        prerequisites_met: true,
        warnings: [],
      });
      const { workflow_state: _, recovery_info: __, ...rest } = document;
      expect(before.original?.document).toMatchObject(rest);
    });

    test("keeps one graph, under its name, with foreign fields", () => {
      const before = golden("CP-before-batch-1.yaml");
      const { graph } = before.planes.position;
      if (graph === null) throw new Error("The golden has no graph");
      const at = "2025-01-14T11:00:00Z";
      const stepped = stepGraph(graph, { kind: "complete", node: "build", at, result: { outputs: ["code"] } });
      const document = written(withPlanes(before, { position: { ...before.planes.position, graph: stepped } }));
      expect(document["execution_graph"]).toBeUndefined();
      expect(document["graph_state"]).toMatchObject({
        phase: "validation",
        completed_batches: [1, 2],
        current_batch: 3,
        node_states: {
          build: { status: "complete", completed_at: at, result: { outputs: ["code"] }, worker: 3 },
          check: { status: "pending" },
        },
      });
    });

    test("a resumed graph keeps the dependencies of the document", () => {
      expect(golden("CP-before-batch-1.yaml").planes.position.graph).toMatchObject({
        id: "GRAPH-20250114-ffff",
        nodes: [
          { id: "plan", agent: "system-architect", priority: "high" },
          { id: "build", dependencies: ["plan"], timeoutMs: 300_000 },
          { id: "check" },
        ],
        edges: [
          { from: "plan", to: "build", type: "data", key: "spec" },
          { from: "build", to: "check", type: "approval", by: "security-analyst" },
        ],
        states: { build: { status: "running", attempt: 1 } },
      });
    });
  });

  describe("a Holdfast checkpoint", () => {
    test("gets all members of crunch, and the same id each time", () => {
      const encoded = crunchYaml.encode(ours);
      expect(encoded).toEqual(crunchYaml.encode(structuredClone(ours)));
      expect(encoded.path).toMatch(/^\.claude\/crunch\/7\/checkpoints\/CP-impl-20260301T100000-[0-9a-f]{8}\.yaml$/);
      expect(written(ours)).toMatchObject({
        version: "1.0",
        issue_number: 7,
        trigger: "phase_transition",
        workflow_state: { current_phase: "implementing", current_state_label: "state:implementing" },
        execution_graph: {},
        recovery_info: { can_resume: true, resume_from: "impl" },
      });
    });

    test("has the same content as JSON", () => {
      const encoded = encodeCrunch(ours, "json");
      expect(encoded.path).toMatch(/\.json$/);
      expect(JSON.parse(new TextDecoder().decode(encoded.bytes))).toEqual(written(ours));
    });

    test("with a graph: batches are counted, and losses are named", () => {
      const node = {
        agent: "dev",
        action: "x",
        priority: "normal",
        timeoutMs: null,
        retries: 2,
        idempotent: true,
        outputs: [],
      } as const;
      const graph: Graph = {
        id: "g",
        nodes: [
          { ...node, id: "a", dependencies: [] },
          { ...node, id: "b", dependencies: ["a"] },
        ],
        edges: [],
        states: { a: { status: "complete", attempt: 2, startedAt: null, endedAt: null, result: 1 } },
        meta: {},
      };
      const checkpoint = withPlanes(ours, { position: { ...ours.planes.position, graph } });
      expect(written(checkpoint)).toMatchObject({
        execution_graph: {
          completed_batches: [1],
          current_batch: 2,
          node_states: { a: { status: "complete", result: 1 } },
        },
        recovery_info: { resume_from: "b" },
      });
      expect(crunchYaml.encode(checkpoint).losses.map((loss) => loss.path)).toContain("position.graph");
    });

    test.each<readonly [string, Json]>([
      ["team", []],
      ["graph", "x"],
      ["outputs", 7],
      ["messages", [1]],
      ["files", {}],
      ["files", ["a"]],
      ["recovery", { can_resume: "yes" }],
      ["recovery", null],
      ["crunch", { session_id: 7, branch: [], assignees: "x", phase_started_at: {} }],
    ])("an extension %s with the value %j never makes an unreadable file, and is named", (name, value) => {
      const checkpoint = withPlanes(ours, { extensions: { [name]: value } });
      const { bytes, path, losses } = crunchYaml.encode(checkpoint);
      expect(crunchYaml.decode({ path, bytes, compression: "none" }).checkpoints).toHaveLength(1);
      expect(losses.map((loss) => loss.path)).toContain(`extensions.${name}`);
    });
  });
});

describe("decode again", () => {
  const GOLDEN = ["CP-enrich-20250114-a3f2.yaml", "CP-enrich-20250114-b4c5.yaml"].map(
    (name) => new Uint8Array(readFileSync(join(import.meta.dirname, "../golden-directory/42", name))),
  );

  function outcome(decode: () => Decoded): unknown {
    try {
      return decode();
    } catch (error) {
      return error instanceof HoldfastError ? error.message : error;
    }
  }

  test("an unchanged file is parsed once", () => {
    const { decode } = cachedDecoder();
    const file = (): ExternalFile => ({ path: "a.yaml", bytes: Uint8Array.from(GOLDEN[0] ?? []), compression: "none" });
    expect(decode(file())).toBe(decode(file()));
  });

  test("a removed file is forgotten", () => {
    const { decode, keepOnly } = cachedDecoder();
    const file: ExternalFile = { path: "a.yaml", bytes: GOLDEN[0] ?? new Uint8Array(), compression: "none" };
    const first = decode(file);
    keepOnly([{ ...file, path: "b.yaml" }]);
    expect(decode(file)).not.toBe(first);
    expect(decode(file)).toEqual(first);
  });

  test("after any change it returns what a new read returns", () => {
    const step = fc.record({
      path: fc.constantFrom("a.yaml", "b.yaml"),
      which: fc.constantFrom(0, 1),
      // Flips one byte of the same file, so that its length does not change.
      flip: fc.option(fc.nat({ max: 400 }), { nil: null }),
      forget: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const { decode, keepOnly } = cachedDecoder();
        for (const { path, which, flip, forget } of steps) {
          const bytes = Uint8Array.from(GOLDEN[which] ?? []);
          if (flip !== null) bytes[flip] = (bytes[flip] ?? 0) ^ 1;
          const file: ExternalFile = { path, bytes, compression: "none" };
          expect(outcome(() => decode(file))).toEqual(outcome(() => decodeCrunch(file)));
          if (forget) keepOnly([file]);
        }
      }),
      { numRuns: 40 },
    );
  });
});
