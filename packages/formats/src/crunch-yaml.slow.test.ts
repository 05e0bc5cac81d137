import * as fc from "fast-check";
import { describe, vi } from "vitest";
import { parse, stringify } from "yaml";
import type { Json } from "@holdfast/core/json";
import { smallJson, time, unknownFields, word } from "@holdfast/test-support/formats/arbitrary-checkpoint";
import {
  type Corruption,
  type Misfitting,
  formatSuite,
  jsonCorruptions,
  readGoldens,
} from "@holdfast/test-support/formats/format-suite";
import { crunchYaml } from "./crunch-yaml.ts";
import type { ExternalFile } from "./format.ts";

// YAML is slow to read and to write, and a full run has 10,000 cases.
vi.setConfig({ testTimeout: 3_600_000 });

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = fc.string({ unit: "grapheme", maxLength: 30 });
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(value);
const status = fc.constantFrom("pending", "queued", "running", "complete", "failed", "skipped", "paused");
const id = fc.oneof(
  fc.tuple(fc.constantFrom("enrich", "ready", "e2e"), word).map(([phase, hash]) => `CP-${phase}-20250114-${hash}`),
  fc.constantFrom("CP-20250114-a3f2", "CP-impl", "CP-before-batch-1", "odd id"),
);
const anyTime = fc.oneof(time, fc.constantFrom("ISO-8601", "2025-01-14 10:00", "2025-01-14T10:00:00.123456+02:00"));
const states = fc.dictionary(
  word,
  fc.record(
    { status, result: smallJson(), started_at: maybe(anyTime), completed_at: anyTime, more: smallJson() },
    { requiredKeys: ["status"] },
  ),
  { maxKeys: 3, noNullPrototype: true },
);
const graph = fc
  .record({ ids: fc.uniqueArray(word, { maxLength: 4 }), states, extra: unknownFields(), defined: fc.boolean() })
  .map(({ ids, states: given, extra, defined }) => ({
    graph_id: "GRAPH-1",
    completed_batches: [1],
    current_batch: 2,
    node_states: given,
    ...extra,
    ...(defined
      ? {
          nodes: ids.map((node, index) => ({ id: node, agent: "dev-go", dependencies: ids.slice(0, index) })),
          edges: ids.slice(1).map((to) => ({ from: ids[0] ?? "", to, type: "data", data_key: "x" })),
        }
      : {}),
  }));

const recovery = fc.record({
  can_resume: fc.boolean(),
  resume_from: maybe(text),
  prerequisites_met: fc.boolean(),
  warnings: fc.array(text, { maxLength: 2 }),
});

const documents = fc
  .record(
    {
      checkpoint_id: id,
      version: fc.constantFrom("1.0", "1", 1),
      created_at: maybe(anyTime),
      issue_number: maybe(fc.nat(9999)),
      session_id: maybe(text),
      trigger: fc.constantFrom("phase_transition", "batch_complete", "user_interrupt", "batch_start", "other"),
      workflow_state: fc
        .record(
          {
            current_phase: fc.constantFrom("enrich", "validation", "e2e", "docs", "some|thing"),
            current_state_label: maybe(text),
            phase_started_at: anyTime,
            phase_attempt: fc.nat(9),
          },
          { requiredKeys: ["current_phase"] },
        )
        .chain((state) => unknownFields().map((extra) => ({ ...state, ...extra }))),
      issue_snapshot: maybe(
        fc.record(
          { title: text, body: maybe(text), labels: fc.array(text, { maxLength: 2 }), branch: maybe(text) },
          { requiredKeys: [] },
        ),
      ),
      team_state: unknownFields(),
      execution_graph: maybe(graph),
      agent_outputs: unknownFields(),
      acp_state: unknownFields(),
      knowledge_context: maybe(unknownFields()),
      files_modified: fc.array(unknownFields(), { maxLength: 2 }),
      recovery_info: recovery,
    },
    { requiredKeys: ["checkpoint_id", "workflow_state", "recovery_info"] },
  )
  .chain((document) => unknownFields().map((extra): Json => ({ ...document, ...extra })));

const files: fc.Arbitrary<ExternalFile> = fc.oneof(
  documents.map((document) => ({ path: "CP-x.yaml", bytes: utf8(stringify(document)), compression: "none" as const })),
  documents.map((document) => ({
    path: "CP-x.json",
    bytes: utf8(JSON.stringify(document)),
    compression: "none" as const,
  })),
);

const FULL = "CP-enrich-20250114-b4c5.yaml";
const wrong: readonly (readonly [path: string, ...values: readonly Json[]])[] = [
  ["/checkpoint_id", null, 7, "", "a/b", "..", []],
  ["/created_at", 5, {}],
  ["/issue_number", "42", -1, 1.5, true],
  ["/session_id", 7],
  ["/trigger", []],
  ["/workflow_state", null, [], "enrich"],
  ["/workflow_state/current_phase", null, 3, ""],
  ["/workflow_state/phase_attempt", "1", -1],
  ["/issue_snapshot", "x", []],
  ["/issue_snapshot/title", 1],
  ["/issue_snapshot/labels", "x", {}],
  ["/issue_snapshot/labels/0", 1],
  ["/team_state", [], "x"],
  ["/execution_graph", []],
  ["/execution_graph/completed_batches", 1],
  ["/execution_graph/current_batch", "2"],
  ["/execution_graph/node_states", []],
  ["/execution_graph/node_states/task-001", "complete"],
  ["/execution_graph/node_states/task-001/status", null, 1],
  ["/agent_outputs", []],
  ["/acp_state", "x"],
  ["/knowledge_context", 1],
  ["/files_modified", {}],
  ["/files_modified/0", "src/a"],
  ["/recovery_info", null, []],
  ["/recovery_info/can_resume", "yes", null],
  ["/recovery_info/warnings", "none"],
  ["/version", [], "abc", "0.9", true],
];
const misfits: readonly Misfitting[] = wrong.flatMap(([path, ...values]) =>
  values.map((value) => ({ golden: FULL, path, value })),
);

const goldens = readGoldens().filter((golden) => golden.format === crunchYaml.name);
const full = goldens.find((golden) => golden.name === FULL);
const json = goldens.find((golden) => golden.name.endsWith(".json"));
if (full === undefined || json === undefined) throw new Error("The goldens are not there");
const whole = new TextDecoder().decode(full.file.bytes);
const yaml = (name: string, broken: string, code: Corruption["code"]): Corruption => ({
  name,
  file: { ...full.file, bytes: utf8(broken) },
  code,
});
const bomb = `a0: &a0 [x, x, x, x, x, x, x, x, x]\n${Array.from({ length: 9 }, (_, n) => `a${n + 1}: &a${n + 1} [${Array.from({ length: 9 }, () => `*a${n}`).join(", ")}]\n`).join("")}`;

const corruptions: readonly Corruption[] = [
  yaml("a newer version", whole.replace('version: "1.0"', 'version: "1.1"'), "FORMAT_TOO_NEW"),
  yaml("a much newer version", whole.replace('version: "1.0"', "version: 2"), "FORMAT_TOO_NEW"),
  yaml("a key twice", `${whole}checkpoint_id: CP-other\n`, "FORMAT_INVALID"),
  yaml("a key twice, quoted", `${whole}"checkpoint_id": CP-other\n`, "FORMAT_INVALID"),
  yaml(
    "a key twice, deep",
    whole.replace("role: coordinator", "role: coordinator\n      role: lead"),
    "FORMAT_INVALID",
  ),
  yaml("a number as key and as text", `${whole}x: {1: a, "1": b}\n`, "FORMAT_INVALID"),
  yaml("a merge key", `${whole}x: &x {a: 1}\ny:\n  <<: *x\n`, "FORMAT_INVALID"),
  yaml("an alias that has no anchor", `${whole}x: *unknown\n`, "FORMAT_INVALID"),
  yaml("an alias inside of itself", `${whole}x: &x [*x]\n`, "FORMAT_INVALID"),
  yaml("a bomb of aliases", `${whole}${bomb}`, "FORMAT_DAMAGED"),
  yaml("a tag that makes an object", `${whole}x: !!python/object:os.system {}\n`, "FORMAT_INVALID"),
  yaml("a tag of its own", `${whole}x: !mine y\n`, "FORMAT_INVALID"),
  yaml("binary", `${whole}x: !!binary aGk=\n`, "FORMAT_INVALID"),
  yaml("a mapping as key", `${whole}? {a: 1}\n: x\n`, "FORMAT_DAMAGED"),
  yaml("a key __proto__", `${whole}x: [{__proto__: {a: 1}}]\n`, "FORMAT_INVALID"),
  yaml("two documents", `${whole}---\na: 1\n`, "FORMAT_INVALID"),
  yaml("an older YAML", `%YAML 1.1\n---\n${whole}`, "FORMAT_INVALID"),
  yaml("an unknown directive", `%WHAT ever\n---\n${whole}`, "FORMAT_INVALID"),
  yaml("no mapping", "- a\n", "FORMAT_INVALID"),
  yaml("only a text", "hello\n", "FORMAT_INVALID"),
  yaml("a number that no double holds", `${whole}x: 9007199254740993\n`, "FORMAT_INVALID"),
  yaml("infinity", `${whole}x: .inf\n`, "FORMAT_INVALID"),
  yaml("not a number", `${whole}x: .nan\n`, "FORMAT_INVALID"),
  yaml("half of a surrogate pair", `${whole}x: "\\ud83d"\n`, "FORMAT_INVALID"),
  yaml("deep brackets", `${whole}x: ${"[".repeat(5000)}${"]".repeat(5000)}\n`, "FORMAT_DAMAGED"),
  yaml("a pit of brackets", "[".repeat(200_000), "FORMAT_DAMAGED"),
  yaml("a pit of dashes", "- ".repeat(200_000), "FORMAT_DAMAGED"),
  yaml("a tab as indentation", whole.replace("  current_phase", "\tcurrent_phase"), "FORMAT_DAMAGED"),
  yaml("a quote that never ends", `${whole}x: "abc\n`, "FORMAT_DAMAGED"),
  yaml("cut within its last line", whole.slice(0, -12), "FORMAT_DAMAGED"),
  yaml("cut before its last member", whole.slice(0, whole.indexOf("recovery_info")), "FORMAT_INVALID"),
  yaml(
    "a graph in a circle",
    whole.replace("  node_states:", "  nodes: [{id: a, dependencies: [a]}]\n  node_states:"),
    "FORMAT_INVALID",
  ),
  yaml(
    "two nodes of one id",
    whole.replace("  node_states:", "  nodes: [{id: a}, {id: a}]\n  node_states:"),
    "FORMAT_INVALID",
  ),
  ...jsonCorruptions(json),
];

describe("crunch-yaml", () => {
  formatSuite({
    format: crunchYaml,
    files,
    parse: (bytes) => parse(new TextDecoder().decode(bytes), { schema: "core" }),
    write: (document) => utf8(stringify(document)),
    misfits,
    corruptions,
    endsAreMarked: false,
    normalised: [],
  });
});
