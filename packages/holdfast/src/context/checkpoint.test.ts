import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json, JsonObject } from "@holdfast/core/json";
import { contextStore } from "@holdfast/formats/context-store";
import { withoutProtoKey } from "@holdfast/test-support/core/json-sample";
import { Checkpoint } from "./checkpoint.ts";

const fields = { taskId: "task-1", version: 1, values: { step: 1 }, tokenUsage: { input_tokens: 100 } };
const document = {
  task_id: "task-1",
  version: 3,
  values: { step: 1, deep: { list: [1, { x: null }] } },
  token_usage: { input_tokens: 100, output_tokens: 50 },
  metadata: { description: "After step 1" },
  created_at: "2026-02-17T10:11:12.123456+00:00",
};

describe("deeply immutable", () => {
  test("deeply frozen, and separate from its input (orbiter: cp.values['a'] = 1 worked)", () => {
    const live = { list: [1, { deep: true }] };
    const metadata = { tags: ["a"] };
    const tokenUsage = { input: 1 };
    const checkpoint = new Checkpoint({ ...fields, values: live, metadata, tokenUsage });
    live.list.push(2);
    metadata.tags.push("b");
    tokenUsage.input = 9;
    expect(checkpoint).toMatchObject({ values: { list: [1, { deep: true }] }, metadata: { tags: ["a"] } });
    expect(checkpoint.tokenUsage).toEqual({ input: 1 });
    expect(thawed(checkpoint)).toEqual([]);
    expect(thawed(checkpoint.toJSON().values)).toEqual([]);
    expect(() => Object.assign(checkpoint, { version: 2 })).toThrow(TypeError);
    expect(() => Object.assign(checkpoint.values, { a: 1 })).toThrow(TypeError);
  });

  test("metadata is empty and the time is now unless given", () => {
    const before = Date.now();
    const checkpoint = new Checkpoint(fields);
    expect(checkpoint.metadata).toEqual({});
    expect(Date.parse(checkpoint.createdAt)).toBeGreaterThanOrEqual(before);
    expect(checkpoint.createdAt).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  });
});

describe("as a document", () => {
  test("six keys in the spelling of the other tool, and back", () => {
    const checkpoint = Checkpoint.fromJSON(document);
    expect(checkpoint).toMatchObject({ taskId: "task-1", version: 3, createdAt: document.created_at });
    expect(JSON.parse(JSON.stringify(checkpoint))).toEqual(document);
    expect(Object.keys(checkpoint.toJSON())).toEqual(Object.keys(document));
    expect(Checkpoint.fromJSON(checkpoint.toJSON()).equals(checkpoint)).toBe(true);
  });

  test("optional fields are filled in; unknown fields are kept", () => {
    const { task_id, version } = document;
    expect(Checkpoint.fromJSON({ task_id, version, metadata: null, created_at: null }).toJSON()).toMatchObject({
      metadata: {},
      created_at: expect.stringMatching(/^\d{4}-/),
    });
    const checkpoint = Checkpoint.fromJSON({ task_id, version, config: { model: "x" }, task: 1 });
    expect(checkpoint).toMatchObject({ values: {}, tokenUsage: {}, metadata: {} });
    expect(checkpoint.toJSON()).toMatchObject({ config: { model: "x" }, task: 1 });
    expect(Checkpoint.fromJSON(JSON.parse(JSON.stringify(checkpoint))).toJSON()).toEqual(checkpoint.toJSON());
  });

  test.each([
    "2026-02-17T10:11:12Z",
    "2026-02-17T10:11:12.123+02:00",
    "2026-02-17T10:11:12.123456",
    "2026-02-17 10:11:12+00:00",
    "2026-02-17T10:11",
    "2026-02-17T10:11:12,5+0100",
  ])("the time %s is accepted and stays as written", (time) => {
    expect(Checkpoint.fromJSON({ ...document, created_at: time }).toJSON().created_at).toBe(time);
  });

  test.each<[string, unknown]>([
    ["/task_id", { ...document, task_id: "" }],
    ["/task_id", { ...document, task_id: 7 }],
    ["/version", { ...document, version: "x" }],
    ["/version", { ...document, version: 0 }],
    ["/version", { ...document, version: 1.5 }],
    ["/values", { ...document, values: [] }],
    ["/token_usage/input_tokens", { ...document, token_usage: { input_tokens: -1 } }],
    ["/token_usage/in~1put", { ...document, token_usage: { "in/put": "many" } }],
    ["/metadata", { ...document, metadata: [] }],
    ["/values/deep/__proto__", { ...document, values: JSON.parse('{"deep":{"__proto__":{}}}') }],
    ["/metadata/__proto__", { ...document, metadata: JSON.parse('{"__proto__":1}') }],
    ["/unknown/0/__proto__", { ...document, unknown: JSON.parse('[{"__proto__":1}]') }],
    ["/created_at", { ...document, created_at: "yesterday" }],
    ["/created_at", { ...document, created_at: "2026-13-40T10:11:12Z" }],
    ["/created_at", { ...document, created_at: "2026-02-30T10:11:12Z" }],
    ["/created_at", { ...document, created_at: 1_771_322_400 }],
    ["", []],
    ["", null],
    ["", JSON.stringify(document)],
  ])("%s is invalid: FORMAT_INVALID with that path and a hint (%#)", (path, wrong) => {
    const plain: unknown = typeof wrong === "object" && wrong !== null ? clean(wrong) : wrong;
    expect(() => Checkpoint.fromJSON(plain)).toThrow(
      expect.objectContaining({ code: "FORMAT_INVALID", data: expect.objectContaining({ path }) }),
    );
    expect(() => Checkpoint.fromJSON(plain)).toThrow(expect.objectContaining({ hint: expect.stringMatching(/\.$/) }));
  });

  test("a string is not parsed, and the hint explains it", () => {
    expect(() => Checkpoint.fromJSON("{}")).toThrow(
      expect.objectContaining({ hint: expect.stringContaining("JSON.parse") }),
    );
  });

  test("values that JSON cannot represent are refused with their path", () => {
    const odd = { ...document, values: { when: new Date(0) } };
    expect(() => Checkpoint.fromJSON(odd)).toThrow(
      expect.objectContaining({ code: "NOT_JSON", data: { path: "/values/when" } }),
    );
    const values = { f: () => 1 } as unknown as JsonObject;
    expect(() => new Checkpoint({ ...fields, values })).toThrow(expect.objectContaining({ code: "NOT_JSON" }));
  });

  test("a key __proto__ is refused in saved values", () => {
    const proto: JsonObject = JSON.parse('{"a":[{"__proto__":1}]}');
    for (const [change, path] of [
      [{ values: proto }, "/values/a/0/__proto__"],
      [{ metadata: proto }, "/metadata/a/0/__proto__"],
      [{ tokenUsage: JSON.parse('{"__proto__":1}') }, "/tokenUsage/__proto__"],
    ] as const) {
      expect(() => new Checkpoint({ ...fields, ...change })).toThrow(
        expect.objectContaining({ code: "USAGE", data: { path } }),
      );
    }
  });

  test("the library and `format validate` accept the same documents", () => {
    const odd = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom<unknown>(
        null,
        "",
        0,
        1,
        7,
        -1,
        1.5,
        "1",
        [],
        {},
        [1],
        { a: 1 },
        { a: -1 },
        { a: "1" },
        { a: null },
      ),
      fc.constantFrom("yesterday", "2026-02-30T10:11:12Z", "2026-02-17T10:11:12,5+0100", "2026-02-17", "ISO-8601"),
      fc.constantFrom('{"__proto__":1}', '{"a":[{"__proto__":{}}]}').map((text): unknown => JSON.parse(text)),
    );
    const name = fc.constantFrom("unknown", ...Object.keys(document));
    const change = fc.tuple(name, fc.option(odd, { nil: undefined }));
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 3 }), (changes) => {
        const text = JSON.stringify({ ...document, ...Object.fromEntries(changes) });
        const bytes = new TextEncoder().encode(text);
        const validated = codeOf(() => contextStore.decode({ path: "a.json", bytes, compression: "none" }));
        const read = codeOf(() => Checkpoint.fromJSON(JSON.parse(text)));
        expect([read, text]).toEqual([validated, text]);
      }),
      { numRuns: 500 },
    );
  });

  test("invalid fields given by a caller are USAGE, named as given", () => {
    expect(() => new Checkpoint({ ...fields, taskId: "" })).toThrow(
      expect.objectContaining({ code: "USAGE", data: expect.objectContaining({ path: "/taskId" }) }),
    );
    expect(() => new Checkpoint({ ...fields, tokenUsage: { a: 0.5 } })).toThrow(
      expect.objectContaining({ code: "USAGE" }),
    );
  });
});

test("equality compares every field, in any order of keys", () => {
  const a = Checkpoint.fromJSON(document);
  const b = Checkpoint.fromJSON({ ...document, token_usage: { output_tokens: 50, input_tokens: 100 } });
  expect(a.equals(b)).toBe(true);
  for (const change of [{ version: 4 }, { values: {} }, { metadata: {} }, { task_id: "x" }, { more: 1 }]) {
    expect(a.equals(Checkpoint.fromJSON({ ...document, ...change }))).toBe(false);
  }
});

test("any document is returned unchanged, after one normalization by JSON itself", () => {
  const someJson = withoutProtoKey(fc.jsonValue({ maxDepth: 4 })).map(
    (value) => JSON.parse(JSON.stringify(value)) as Json,
  );
  const someKey = fc.string({ unit: "grapheme" }).filter((key) => key !== "__proto__");
  const someObject = fc.dictionary(someKey, someJson);
  const someDocument = fc.record({
    task_id: fc.string({ unit: "grapheme", minLength: 1 }),
    version: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    values: someObject,
    token_usage: fc.dictionary(someKey, fc.maxSafeNat()),
    metadata: someObject,
    created_at: fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date("9999-01-01") })
      .map((at) => at.toISOString()),
  });
  fc.assert(
    fc.property(someDocument, someObject, (known, unknown) => {
      const whole = { ...unknown, ...known };
      const checkpoint = Checkpoint.fromJSON(whole);
      expect(JSON.parse(JSON.stringify(checkpoint))).toEqual(JSON.parse(JSON.stringify(whole)));
      expect(Checkpoint.fromJSON(JSON.parse(JSON.stringify(checkpoint))).equals(checkpoint)).toBe(true);
    }),
  );
});

test("any value is either a checkpoint or an error with a code", () => {
  fc.assert(
    fc.property(fc.anything(), fc.constantFrom("", ...Object.keys(document)), (value, key) => {
      try {
        expect(Checkpoint.fromJSON(key === "" ? value : { ...document, [key]: value })).toBeInstanceOf(Checkpoint);
      } catch (error) {
        expect(["FORMAT_INVALID", "NOT_JSON"]).toContain((error as { code?: unknown }).code);
      }
    }),
  );
});

/** The code of what it throws; null if it returns. */
function codeOf(act: () => unknown): unknown {
  try {
    act();
    return null;
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

/** Paths of everything that is not frozen. */
function thawed(value: unknown, at = ""): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  const below = Object.entries(value).flatMap(([key, part]) => thawed(part, `${at}/${key}`));
  return Object.isFrozen(value) ? below : [at, ...below];
}

/** `undefined` in a table of cases means: not there. */
function clean(value: object): object {
  if (Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined));
}
