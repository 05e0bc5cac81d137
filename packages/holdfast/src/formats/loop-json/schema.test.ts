import { Ajv2020 } from "ajv/dist/2020.js";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json, JsonObject } from "../../core/json.ts";
import { smallJson, unknownFields, word } from "../../testing/formats/arbitrary-checkpoint.ts";
import { PATIENCE, propertyRuns } from "../../testing/formats/format-harness.ts";
import { readGoldens } from "../../testing/formats/goldens.ts";
import { replaceAt } from "../../testing/formats/replace-at.ts";
import { loopJson } from "./loop-json.ts";
import { loopDocuments } from "./testing/loop-documents.ts";

/** The published schema, judged by a validator that others wrote. */

const SCHEMA = join(import.meta.dirname, "../../../schemas/loop-checkpoint.schema.json");
const schema: JsonObject = JSON.parse(readFileSync(SCHEMA, "utf8"));
const examples = schema["examples"] as readonly JsonObject[];
const goldens = readGoldens().filter((golden) => golden.format === "loop-json");
const parse = (bytes: Uint8Array): Json => JSON.parse(new TextDecoder().decode(bytes));

const OPTIONS = {
  strict: true,
  formats: { "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/ },
};

test("its examples are the goldens", () => {
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

  test.each(goldens.filter(({ name }) => name !== "least.json"))("accepts $name, and what we write of it", (golden) => {
    expect(isValid(parse(golden.file.bytes))).toBe(true);
    for (const checkpoint of loopJson.decode(golden.file).checkpoints)
      expect(isValid(parse(loopJson.encode(checkpoint).bytes))).toBe(true);
  });

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
