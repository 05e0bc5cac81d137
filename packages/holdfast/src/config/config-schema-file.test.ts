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
  const made = z.toJSONSchema(configSchema, { io: "input", reused: "inline" });
  // An empty file is valid: every key has a default.
  const schema = { title: "holdfast.config.yaml", ...made, type: ["object", "null"] };
  describeKeys(schema, meanings(await readFile(new URL("docs/config.md", ROOT), "utf8")));
  return schema;
}

/** Keys of which the schema says nothing but what they mean. */
function untyped(schema: unknown, path = ""): readonly string[] {
  const properties = isRecord(schema) && isRecord(schema["properties"]) ? schema["properties"] : {};
  return Object.entries(properties).flatMap(([name, property]) => {
    const key = path === "" ? name : `${path}.${name}`;
    const { description: _, ...rest } = isRecord(property) ? property : {};
    return Object.keys(rest).length === 0 ? [key] : untyped(property, key);
  });
}

let validate: (value: unknown) => boolean;
beforeAll(async () => {
  validate = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(await makeSchema());
});

describe("the published schema of the config file", () => {
  test("is current; `npx vitest run FILE --update` writes it", async () => {
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

  test("says of every key which values it takes", async () => {
    expect(untyped(await makeSchema())).toEqual([]);
  });

  const NO_SHAPE = {
    "a length of time that is too short or too long": [
      "errors: { retry: { delay: 25h } }",
      "agents: { maxIdle: 0.1ms }",
    ],
    "an argument of an agent that Holdfast sets": [
      "agents: { args: { codex: [--model, x] } }",
      "agents: { args: { unknown: [-x] } }",
    ],
    "a variable that is never passed": ["agents: { env: [GIT_DIR] }", "agents: { env: [a b] }"],
    "a misspelt kind of effect": ["approve: [psh]"],
    "a regular expression that RE2 does not accept": ["errors: { rules: [{ id: a, pattern: (, action: fallback }] }"],
  };
  test.each(Object.entries(NO_SHAPE))("only the parser rejects %s", (_reason, texts) => {
    for (const text of texts) expect([text, parseConfig(text).ok, validate(parse(text))]).toEqual([text, false, true]);
  });

  test.each([
    "workspace: { setup: { a: b } }",
    "workspace: { setup: ['  '] }",
    "workspace: { setup: 5 }",
    ...["/etc/passwd", "../.env", "a/../b", "./.env", "a//b", ".git/config", ".GIT/config", "a/", "..", ".git"].map(
      (path) => `workspace: { copy: [${path}] }`,
    ),
    "workspace: { copy: { a: b } }",
    "workspace: { maxUntrackedBytes: many }",
    "workspace: { maxUntrackedBytes: -1 }",
    "workspace: { worktrees: '  ' }",
    "forge: { host: 5 }",
    "forge: { host: https://x }",
    "store: 5",
    "store: { path: a, other: b }",
    "store: { maxSize: big }",
    "retention: { keep: { stage: some } }",
    "retention: { keep: { stage: { keep: 3, per: day } } }",
    "retention: { keep: { stage: { per: run } } }",
    "retention: { maxAge: 30 }",
    "retention: { maxAge: none }",
    "retention: { maxBytes: 5XB }",
    "retention: { recent: soon }",
    "agents: { maxIdle: 0s }",
    "agents: { checkpointEvery: 5 }",
    "agents: { args: [a] }",
    "agents: { args: { codex: a } }",
    "agents: { env: A }",
    "impl: { tags: [] }",
    "impl: { tags: [a b] }",
    "impl: { thresholds: { style: 101 } }",
    "ralph: { until: [] }",
    "ralph: { memory: 11 }",
    "ralph: { untilTimeout: 10 }",
    "approve: push",
    "approve: [1x]",
    "loops: { workflows: ralph }",
    "mirror: { format: other }",
    "aiwg: { maxAge: none }",
    "prices: { codex: { input: 1 } }",
    "prices: { codex: { input: -1, output: 1 } }",
    "prices: { codex: { input: 1, output: 1, more: 1 } }",
    "prices: { Codex: { input: 1, output: 1 } }",
    "budget: { maxTokens: 0 }",
    "budget: { assumedTokens: none }",
    "budget: { maxCost: 0 }",
    "budget: { maxCost: 5 EUR }",
    "budget: { maxTime: 2 }",
    "errors: { retry: { max: 51 } }",
    "errors: { retry: { multiplier: 0 } }",
    "errors: { retry: { jitter: 2 } }",
    "errors: { fallback: { tries: 0 } }",
    "errors: { rules: [{ id: a b, action: fallback }] }",
    "errors: { rules: [{ id: a, pattern: 5, action: fallback }] }",
    "agent: Codex",
    "gc: { auto: yes please }",
    "retention: { onSuccess: sometimes }",
    "impl: { maxIterations: 0 }",
    "fleet: { perQueue: -1 }",
    "fleet: { queues: { claude: many } }",
    "fleet: { queues: [claude] }",
    "fleet: { repositories: { '../x': 1 } }",
    "fleet: { queueOf: { claude: 5 } }",
    "fleet: { agents: { codex: -1 } }",
    "fleet: { dispatch: 5 }",
    "loops: { max: many }",
    "retension: {}",
    "agent: 5",
  ])("rejects what the parser rejects: %s", (text) => {
    expect(parseConfig(text).ok).toBe(false);
    expect(validate(parse(text))).toBe(false);
  });

  test.each([
    "",
    "# only a comment",
    "workspace: { setup: [], copy: .env, maxUntrackedBytes: 1.5 GiB }",
    "workspace: { setup: npm ci, copy: [.env, 'config/*.local.json', '**/.env', .gitconfig, ...] }",
    "retention: { maxAge: 0d, recent: 1.5w, keep: { default: 0 } }",
    "agents: { maxIdle: 0.5h, checkpointEvery: 90 s }",
    "forge: { host: GHE.example.com }",
    "approve: []",
    "mirror: { format: none }",
    "prices: {}",
    "budget: { maxCost: $2.50, assumedTokens: 1 }",
    "errors: { retry: { max: 0, delay: 2s, multiplier: 1.5, jitter: 0 }, fallback: { tries: 50 } }",
    "store: ../state",
    "store: { path: ../state, maxSize: 20GB }",
    "retention: { keep: { stage: { keep: 3, per: stage }, default: all }, maxAge: never, maxBytes: none }",
    "agents: { maxIdle: none, args: { codex: [--sandbox, read-only] }, env: [MYAPP_*] }",
    "ralph: { until: [npm test, npm run lint], detection: { stuck: none } }",
    "errors: { rules: [{ id: quota, causes: [rate_limit], pattern: quota, action: fallback }] }",
    'prices: { "codex:gpt-5.5": { input: 1.25, output: 10 } }',
    "budget: { maxCost: 2.50, maxTokens: none, maxTime: 2h }",
    "fleet: { dispatch: ../queue, perQueue: none, perRepository: 0, repositories: { acme/shop: 2 } }",
    "fleet: { dispatch: postgres://db/team, queues: { claude: 4 }, agents: { codex: 2 }, queueOf: { opencode: anthropic } }",
  ])("accepts what the parser accepts: %s", (text) => {
    expect(parseConfig(text).ok).toBe(true);
    expect(validate(parse(text))).toBe(true);
  });
});
