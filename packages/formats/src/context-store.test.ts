import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import type { Json } from "@holdfast/core/json";
import { smallJson, time, unknownFields, word } from "@holdfast/test-support/formats/arbitrary-checkpoint";
import {
  type Corruption,
  formatSuite,
  jsonCorruptions,
  propertyRuns,
  readGoldens,
} from "@holdfast/test-support/formats/format-suite";
import { contextStore } from "./context-store.ts";
import type { ExternalFile } from "./format.ts";

// A full run has 10,000 cases.
vi.setConfig({ testTimeout: 3_600_000 });

const ONE = "task-1.json";
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const fileOf = (document: Json): ExternalFile => ({
  path: "checkpoint.json",
  bytes: utf8(JSON.stringify(document)),
  compression: "none",
});

const document = fc
  .record(
    {
      task_id: fc.constant("task-1"),
      version: fc.constant(1),
      values: fc.dictionary(word, smallJson(), { maxKeys: 3, noNullPrototype: true }),
      token_usage: fc.dictionary(word, fc.nat(), { maxKeys: 2, noNullPrototype: true }),
      metadata: fc.option(fc.dictionary(word, smallJson(), { maxKeys: 2, noNullPrototype: true })),
      created_at: fc.option(fc.oneof(time, fc.constantFrom("2026-02-01T09:30:00.123456+00:00", "2026-02-01T09:30:00"))),
    },
    { requiredKeys: ["task_id", "version", "values"] },
  )
  .chain((some) => unknownFields().map((extra) => ({ ...some, ...extra })));
const versions = fc
  .array(document, { minLength: 1, maxLength: 4 })
  .map((some) => some.map((one, index) => ({ ...one, version: index * 2 + 1 })));

const golden = readGoldens().find(({ format, name }) => format === contextStore.name && name === ONE);
if (golden === undefined) throw new Error("The golden is not there");
const two = { task_id: "a", version: 1, values: {} };
const refused = (name: string, broken: Json): Corruption => ({ name, file: fileOf(broken), code: "FORMAT_INVALID" });

describe("context-store", () => {
  formatSuite({
    format: contextStore,
    files: fc.oneof(document, versions).map(fileOf),
    parse: (bytes) => JSON.parse(new TextDecoder().decode(bytes)),
    write: (value) => utf8(JSON.stringify(value)),
    misfits: (
      [
        ["/task_id", null, "", 7],
        ["/version", null, "1", 0, -1, 1.5, true],
        ["/values", null, [], "x"],
        ["/token_usage", null, [], 7],
        ["/token_usage/input_tokens", "100", -1, 0.5, null],
        ["/metadata", [], "x"],
        ["/created_at", 1_738_402_200, {}, "", "yesterday", "2026-02-30T10:11:12Z", "2026-02-17"],
      ] as readonly (readonly [string, ...Json[]])[]
    ).flatMap(([path, ...values]) => values.map((value) => ({ golden: ONE, path, value }))),
    corruptions: [
      ...jsonCorruptions(golden),
      refused("two versions of one number", [two, two]),
      refused("two tasks", [two, { ...two, task_id: "b", version: 2 }]),
      refused("a list with something else in it", [two, 7]),
      refused("a wrong member in a list", [two, { ...two, version: "2" }]),
    ],
    endsAreMarked: true,
    normalised: [],
  });

  test("a document with an invalid date and a key __proto__ was accepted before, and is refused now", () => {
    const path = join(import.meta.dirname, "../golden-refused/context-store/odd-members.json");
    const bytes = readFileSync(path);
    const refusal = (text: Uint8Array) => () => contextStore.decode({ path, bytes: text, compression: "none" });
    const at = (place: string) => expect.objectContaining({ data: expect.objectContaining({ path: place }) });
    expect(refusal(bytes)).toThrow(at("/values/__proto__"));
    expect(refusal(utf8(bytes.toString().replace("__proto__", "proto")))).toThrow(at("/created_at"));
  });

  test("a refusal in a list names the index", () => {
    const broken = fileOf([two, { ...two, version: 2, values: [] }]);
    expect(() => contextStore.decode(broken)).toThrow(
      expect.objectContaining({ data: expect.objectContaining({ path: "/1/values" }) }),
    );
  });

  test("each version of a list comes back as its own document", () => {
    fc.assert(
      fc.property(versions, (documents) => {
        const encoded = contextStore.decode(fileOf(documents)).checkpoints.map((one) => contextStore.encode(one));
        expect(encoded.flatMap(({ losses }) => losses)).toEqual([]);
        const written = encoded.map(({ bytes }): unknown => JSON.parse(new TextDecoder().decode(bytes)));
        expect(written).toEqual(JSON.parse(JSON.stringify(documents)));
      }),
      propertyRuns(100),
    );
  });

  test("changes are written, and the rest keeps its spelling", () => {
    const [checkpoint] = contextStore.decode(golden.file).checkpoints;
    if (checkpoint === undefined) throw new Error("nothing was decoded");
    const context = { ...checkpoint.planes.context, values: { step: 2, data: "initial" } };
    const written = contextStore.encode({ ...checkpoint, id: "2", planes: { ...checkpoint.planes, context } });
    expect(JSON.parse(new TextDecoder().decode(written.bytes))).toEqual({
      task_id: "task-1",
      version: 2,
      values: { step: 2, data: "initial" },
      token_usage: { input_tokens: 100, output_tokens: 50 },
      metadata: { description: "After step 1" },
      created_at: "2026-02-01T09:30:00.123456+00:00",
    });
  });
});
