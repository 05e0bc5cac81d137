import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Ajv2020 } from "ajv/dist/2020.js";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import * as z from "zod/mini";
import { isRecord } from "@holdfast/core/json";
import { configTemplate } from "./config-template.ts";
import { configSchema, parseConfig } from "./schema.ts";

const ROOT = new URL("../../../../", import.meta.url);
const SCHEMA = new URL("packages/holdfast/schemas/config.schema.json", ROOT);

/** Rows of the tables in docs/config.md: what each key means, by its dotted path. */
function meanings(page: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const line of page.split("\n")) {
    const [, keys = "", , initial = "", meaning = ""] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    for (const [, key = ""] of keys.matchAll(/`([\w.]+)`/g))
      found.set(key, plainText(`${meaning} Default: ${initial}.`));
  }
  return found;
}

function plainText(markdown: string): string {
  return markdown.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("`", "");
}

/** Adds to the description of each key, which says what its value must be, what the key means. */
function describeKeys(schema: unknown, texts: ReadonlyMap<string, string>, path = ""): void {
  const properties = isRecord(schema) && isRecord(schema["properties"]) ? schema["properties"] : {};
  for (const [name, property] of Object.entries(properties)) {
    if (!isRecord(property)) continue;
    const key = path === "" ? name : `${path}.${name}`;
    const expected = typeof property["description"] === "string" ? `Value: ${property["description"]}.` : "";
    const text = [texts.get(key) ?? "", expected].join(" ").trim();
    if (text !== "") Object.assign(property, { description: text });
    describeKeys(property, texts, key);
  }
}

async function makeSchema(): Promise<object> {
  const schema = { title: "holdfast.config.yaml", ...z.toJSONSchema(configSchema, { io: "input", reused: "inline" }) };
  describeKeys(schema, meanings(await readFile(new URL("docs/config.md", ROOT), "utf8")));
  return schema;
}

let validate: (value: unknown) => boolean;
beforeAll(async () => {
  validate = new Ajv2020({ strict: true }).compile(await makeSchema());
});

describe("the published schema of the config file", () => {
  test("is current; `npx vitest run -u` on this file writes it", async () => {
    await expect(`${JSON.stringify(await makeSchema(), null, 2)}\n`).toMatchFileSnapshot(fileURLToPath(SCHEMA));
  });

  test("accepts the file that setup --defaults writes", () => {
    expect(validate(parse(configTemplate()))).toBe(true);
  });

  test("says what a key means and which values it takes", async () => {
    expect(await makeSchema()).toMatchObject({
      properties: {
        retention: {
          properties: {
            onSuccess: {
              enum: ["keep_latest", "latest_only", "by_rules"],
              description: expect.stringMatching(/^What a done run keeps: .* Default: keep_latest\./),
            },
          },
        },
      },
    });
  });

  test.each([
    "gc: { auto: yes please }",
    "retention: { onSuccess: sometimes }",
    "impl: { maxIterations: 0 }",
    "loops: { max: many }",
    "retension: {}",
    "agent: 5",
  ])("rejects what the parser rejects: %s", (text) => {
    expect(parseConfig(text).ok).toBe(false);
    expect(validate(parse(text))).toBe(false);
  });

  test.each([
    "store: ../state",
    "store: { path: ../state, maxSize: 20GB }",
    "retention: { keep: { stage: { keep: 3, per: stage }, default: all }, maxAge: never, maxBytes: none }",
    "agents: { maxIdle: none, args: { codex: [--sandbox, read-only] }, env: [MYAPP_*] }",
    "ralph: { until: [npm test, npm run lint], detection: { stuck: none } }",
    "errors: { rules: [{ id: quota, causes: [rate_limit], pattern: quota, action: fallback }] }",
    'prices: { "codex:gpt-5.5": { input: 1.25, output: 10 } }',
    "budget: { maxCost: 2.50, maxTokens: none, maxTime: 2h }",
  ])("accepts what the parser accepts: %s", (text) => {
    expect(parseConfig(text).ok).toBe(true);
    expect(validate(parse(text))).toBe(true);
  });
});
