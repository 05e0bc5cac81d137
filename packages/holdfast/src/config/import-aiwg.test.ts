import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type ErrorPolicy, defaultErrorPolicy } from "@holdfast/core/error-policy";
import type { ConfigProblem } from "@holdfast/formats/settings-file";
import { type LoadedConfig, loadConfig } from "./load-config.ts";

async function load(text: string, more: Readonly<Record<string, string>> = {}): Promise<LoadedConfig> {
  const cwd = mkdtempSync(join(tmpdir(), "holdfast-errors-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  for (const [name, content] of Object.entries({ ...more, "holdfast.config.yaml": text }))
    writeFileSync(join(cwd, name), content);
  return await loadConfig({ cwd, env: {}, storeFlag: undefined, allows: () => true });
}

async function policyOf(text: string, more?: Readonly<Record<string, string>>): Promise<ErrorPolicy> {
  const loaded = await load(text, more);
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.config.settings.work.errors;
}

async function problemsOf(text: string, more?: Readonly<Record<string, string>>): Promise<readonly ConfigProblem[]> {
  const loaded = await load(text, more);
  return loaded.ok ? [] : loaded.problems;
}

describe("errors in the file", () => {
  test("an empty rule is the default; jitter alone keeps the waits", async () => {
    expect(await policyOf("")).toEqual(defaultErrorPolicy);
    const { retry } = defaultErrorPolicy;
    expect((await policyOf("errors: { retry: { jitter: 0.5 } }")).retry).toEqual({ ...retry, jitter: 0.5 });
  });

  test.each([
    ["(ECONNREFUSED|ETIMEDOUT|ENOTFOUND|network|socket)", "connect econnrefused 127.0.0.1:9", true],
    ["(rate.?limit|429|too.?many.?requests)", "HTTP 429: Rate-Limit reached", true],
    ["(unauthorized|403|401|permission.?denied|access.?denied)", "Permission denied (publickey)", true],
    ["(API|api).*(error|failed)", "the api call has failed", true],
    ["(not.?found|404|missing|does.?not.?exist)", "all is well", false],
    // A backtracking engine would not finish these.
    ["(a+)+$", `${"a".repeat(20_000)}!`, false],
    ["(\\w+\\s?)+$", `${"a".repeat(20_000)}!`, false],
  ])("the pattern %s is matched in any case", async (pattern, text, found) => {
    const { rules } = await policyOf(`errors:\n  rules:\n    - { id: x, pattern: '${pattern}', action: retry }\n`);
    expect(rules[0]?.pattern?.matches(text)).toBe(found);
  });

  test("waits, agents and rules; fallback agents are used", async () => {
    const policy = await policyOf(
      "errors:\n  retry: { max: 3, delay: 1s, multiplier: 10, maxDelay: 30s }\n  fallback: { agents: [codex, claude:haiku], tries: 2 }\n" +
        "  rules:\n    - { id: quota, causes: [rate_limit], pattern: usage limit, action: fallback, exhausted: escalate }\n" +
        "    - { id: slow, types: [timeout], action: retry, retry: { max: 1, delay: 5s } }\n",
    );
    expect(policy).toMatchObject({
      retry: { delaysMs: [1_000, 10_000, 30_000], jitter: 0 },
      exhausted: "fallback",
      fallback: { agents: ["codex", "claude:haiku"], tries: 2 },
      rules: [
        { id: "quota", causes: ["rate_limit"], types: null, action: "fallback", exhausted: "escalate" },
        {
          id: "slow",
          causes: null,
          types: ["timeout"],
          pattern: null,
          retry: { delaysMs: [5_000] },
          exhausted: "wait",
        },
      ],
    });
    expect(policy.rules[0]?.pattern?.source).toBe("usage limit");
  });

  test.each([
    ["rules: [{ id: x, pattern: '(a', action: retry }]", /errors.rules.0.pattern: missing closing \): `\(a`/],
    ["rules: [{ id: x, pattern: '(?=a)', action: retry }]", /unsupported Perl syntax: `\(\?=`. Patterns are RE2/],
    [`rules: [{ id: x, pattern: ${"a".repeat(501)}, action: retry }]`, /at most 500/],
    ["rules: [{ id: x, pattern: 3, action: retry }]", /expected a pattern/],
    ["rules: [{ id: x }]", /errors.rules.0.action: expected one of retry, fallback/],
    ["rules: [{ id: 'a b', action: retry }]", /a short name/],
    ["rules: [{ id: x, action: skip }]", /expected one of retry/],
    ["rules: [{ id: x, causes: [], action: retry }]", /at least one/],
    ["rules: [{ id: x, causes: [ratelimit], action: retry }]", /rate_limit/],
    ["rules: [{ id: x, actoin: retry, action: retry }]", /unknown key "actoin"/],
    ["retry: { max: 51 }", /from 0 to 50/],
    ["retry: { delay: 2d }", /up to 24h/],
    ["retry: { jitter: 2 }", /from 0 to 1/],
    ["fallback: { agents: [Codex!] }", /provider:model/],
  ])("%s", async (wrong, message) => {
    const [problem] = await problemsOf(`errors: { ${wrong} }\n`);
    expect(problem?.message).toMatch(message);
    expect(problem).toMatchObject({ line: 1, excerpt: expect.stringContaining("^") });
  });
});

describe("a document of AIWG's error-handling schema", () => {
  const DOCUMENT = `strategy: retry_then_fallback
classification:
  categories:
    - { id: rate_limit, pattern: "(rate.?limit|429)", type: transient, severity: low, action: retry }
    - { id: resource, pattern: "(not.?found|404)", type: permanent }
  default_category: unknown
retry: { max_attempts: 4, initial_delay_ms: 1000, backoff_strategy: fibonacci, max_delay_ms: 2500, jitter: false }
fallback:
  enabled: true
  agents:
    - { primary: Software Implementer, fallback: Code Reviewer, conditions: [timeout] }
    - { primary: claude, fallback: "codex:gpt-5" }
escalation: { trigger_after: 3, channels: [cli, slack] }
`;
  const IMPORT = "errors: { import: eh.yaml }\n";

  test("is read as rules after the file's own", async () => {
    const policy = await policyOf(
      "errors: { import: eh.yaml, rules: [{ id: own, action: abort, causes: [billing] }] }\n",
      { "eh.yaml": DOCUMENT },
    );
    expect(policy).toMatchObject({
      exhausted: "fallback",
      retry: { delaysMs: [1_000, 1_000, 2_000], jitter: 0 },
      fallback: { agents: ["codex:gpt-5"], tries: 1 },
      rules: [
        { id: "own" },
        { id: "rate_limit", action: "retry", exhausted: "fallback" },
        { id: "resource", action: "escalate" },
        { id: "retry_on", types: ["transient", "timeout"], action: "retry" },
      ],
    });
  });

  test.each([
    ["retry_then_escalate", "retry", "escalate", 2],
    ["retry_then_fallback", "retry", "escalate", 2],
    ["fail_fast", "abort", "abort", 0],
    ["graceful_degrade", "retry", "ignore", 2],
    ["checkpoint_recover", "retry", "wait", 2],
  ])("strategy %s", async (strategy, action, exhausted, waits) => {
    const policy = await policyOf(IMPORT, { "eh.yaml": `strategy: ${strategy}\nclassification: { categories: [] }\n` });
    expect(policy).toMatchObject({ exhausted, rules: [{ id: "retry_on", action, exhausted }] });
    expect(policy.retry.delaysMs).toHaveLength(waits);
  });

  test("an error in it is reported with its line, and nothing is done", async () => {
    const bad = DOCUMENT.replace("(not.?found|404)", "(not.?found|404)(?!x)");
    const loaded = await load(IMPORT, { "eh.yaml": bad });
    expect(loaded).toMatchObject({
      ok: false,
      path: expect.stringMatching(/eh\.yaml$/),
      problems: [{ line: 5, message: expect.stringMatching(/categories.1.pattern: .*unsupported Perl syntax/) }],
    });
    expect(await problemsOf(IMPORT, { "eh.yaml": "strategy: hope\n" })).toMatchObject([
      { message: expect.stringContaining("retry_then_escalate") },
    ]);
    expect(await problemsOf(IMPORT, { "eh.yaml": "a: [" })).not.toEqual([]);
    await expect(load(IMPORT)).rejects.toMatchObject({ data: { path: expect.stringMatching(/eh\.yaml$/) } });
  });
});
