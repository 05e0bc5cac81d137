// Limits on tokens and money end a call of a real agent within one response of the model, by the usage that it streams.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readProcessTable } from "@holdfast/platform/process-tree";
import type { ModelScript, ModelTool } from "@holdfast/test-support/agents/model-script";
import type { ModelServer } from "@holdfast/test-support/agents/model-server";
import { REAL_COPILOT, REAL_OPENCODE, REAL_PI, REAL_QWEN } from "@holdfast/test-support/agents/provider-agents";
import type { RealAgent } from "@holdfast/test-support/agents/real-agent-suite";
import {
  CODEX_MODEL,
  GEMINI_MODEL,
  MODEL,
  findRealAgent,
  openClaudeScene,
  openCodexScene,
  openGeminiScene,
} from "@holdfast/test-support/agents/real-agents";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { createLocalForgeScene } from "@holdfast/test-support/forges/forge-scenes";
import { testRepositoryAt } from "@holdfast/test-support/git/repository";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";

interface Row {
  readonly name: string;
  readonly model: string;
  readonly open: RealAgent["open"];
  readonly shell: (command: string) => ModelTool;
  /** A shell command that ends once the agent has written the usage of this many responses. */
  readonly settle?: (responses: number) => string;
}

const ROWS: readonly Row[] = [
  {
    name: "claude",
    model: MODEL,
    open: openClaudeScene,
    shell: (command) => ({ name: "Bash", input: { command, description: "a command" } }),
  },
  {
    name: "codex",
    model: CODEX_MODEL,
    open: openCodexScene,
    shell: (cmd) => ({ name: "exec_command", input: { cmd } }),
  },
  {
    name: "gemini",
    model: GEMINI_MODEL,
    open: openGeminiScene,
    shell: (command) => ({ name: "run_shell_command", input: { command } }),
  },
  ...[REAL_OPENCODE, REAL_PI, REAL_QWEN].map((real) => rowOf(real)),
  {
    ...rowOf(REAL_COPILOT),
    settle: (responses) =>
      `until [ "$(cat "$HOME"/.copilot/session-state/*/events.jsonl | grep -c usage_record)" -ge ${responses} ]; do sleep 0.1; done`,
  },
];

function rowOf({ agent, model, open, shell }: RealAgent): Row {
  return { name: agent.name, model, open, shell };
}

const RUN = "issue-1";
const TITLE = "[feat][#1] Say hello";
const USAGE = { input: 1000, output: 10 };
const RESPONSE = USAGE.input + USAGE.output;

let holdfast: BuiltCommand;
beforeAll(async () => {
  holdfast = await buildCommand();
}, 60_000);
afterAll(() => holdfast.remove());

/** Three tool calls, then no answer: a call that is not ended waits here for ever. */
function work({ shell, settle }: Row): ModelScript {
  const step = (name: string, responses: number) => ({
    tool: shell([`echo ${name} > ${name}.txt`, ...(settle === undefined ? [] : [settle(responses)])].join("; ")),
    usage: USAGE,
  });
  return { rules: [{ match: /(?:)/, steps: [step("one", 1), step("two", 2), { fault: { kind: "hang" } }] }] };
}

function rest({ shell }: Row): ModelScript {
  const finish = [
    "echo hello > greeting.txt",
    'echo "Say hello" > "$HOLDFAST_COMMIT_REPORT"',
    `printf '%s\\n\\nWhy.\\n%s\\n' '${TITLE}' "$HOLDFAST_COMPLETION" > "$HOLDFAST_FINALIZE_FILE"`,
  ].join("; ");
  return { rules: [{ match: /(?:)/, steps: [{ tool: shell(finish) }, { text: "I wrote greeting.txt." }] }] };
}

function tokensOf(server: ModelServer): number {
  const { input, output, cacheRead, cacheWrite } = server.sent();
  return input + cacheRead + cacheWrite + output;
}

test.for(sampleBySeed(ROWS, 1))(
  "a token limit between two responses of the real $name ends the call; a higher one continues its session",
  { timeout: 900_000 },
  async (row, { onTestFinished, skip }) => {
    const found = findRealAgent(row.name);
    if (found.kind === "absent") skip(found.why);
    const forge = createLocalForgeScene();
    onTestFinished(() => forge.dispose());
    await forge.forge().createIssue({ title: "Greet", body: "Say hello.\n", labels: [], key: "suite" });
    const { server, env } = await row.open({ script: work(row), later: onTestFinished });
    const cwd = join(forge.bare.root, "..", "clone");
    forge.bare.git("clone", "-q", forge.bare.root, cwd);
    testRepositoryAt(cwd).git("config", "user.name", "Ada");
    testRepositoryAt(cwd).git("config", "user.email", "ada@example.invalid");
    const options = { cwd, env };
    const agent = ["--agent", `${row.name}:${row.model}`];

    const limit = String(RESPONSE + 490);
    const stopped = await holdfast.run(["run", "1", "--yolo", "--no-review", "--max-tokens", limit, ...agent], options);
    expect(stopped.status, stopped.stdout + stopped.stderr).toBe(7);
    expect(stopped.stdout).toContain(`${2 * RESPONSE} of ${limit} tokens`);
    const answered = server.requests.filter(({ hasTools, end }) => hasTools && end === "whole");
    expect(answered).toHaveLength(2);
    expect(server.requests.filter(({ hasTools }) => hasTools).length).toBeLessThanOrEqual(3);
    const store = JSON.parse(readFileSync(join(cwd, ".git/holdfast/store.json"), "utf8"));
    expect(readProcessTable()?.live.filter(({ mark }) => mark?.startsWith(`${store.id}/`) === true)).toEqual([]);
    const worktree = join(`${cwd}-worktrees`, RUN);
    expect([existsSync(join(worktree, "one.txt")), existsSync(join(worktree, "two.txt"))]).toContain(true);
    const files = JSON.parse((await holdfast.run(["--json", "show", `${RUN}@latest`], options)).stdout);
    expect(JSON.stringify(files)).toContain("one.txt");

    // Without a higher limit nothing starts.
    const { length } = server.requests;
    expect((await holdfast.run(["resume", RUN], options)).status).toBe(7);
    expect(server.requests).toHaveLength(length);

    server.play(rest(row));
    const done = await holdfast.run(["resume", RUN, "--max-tokens", "100000"], options);
    expect(done.status, done.stdout + done.stderr).toBe(0);
    // The session continues: the model sees what it did before the limit.
    expect(JSON.stringify(server.requests.at(-1)?.body)).toContain("one.txt");
    expect(forge.bare.git("show", `holdfast/${RUN}:one.txt`)).toBe("one\n");
    const status = JSON.parse((await holdfast.run(["--json", "status", RUN], options)).stdout);
    expect(status.run.budget.spent.tokens).toBe(tokensOf(server));
    expect(status.run.budget.spent.uncounted ?? 0).toBe(0);
  },
);

/** A clone with issue 1 and a config of the user. */
async function place(later: (undo: () => void) => void) {
  const forge = createLocalForgeScene();
  later(() => forge.dispose());
  await forge.forge().createIssue({ title: "Greet", body: "Say hello.\n", labels: [], key: "suite" });
  const cwd = join(forge.bare.root, "..", "clone");
  forge.bare.git("clone", "-q", forge.bare.root, cwd);
  testRepositoryAt(cwd).git("config", "user.name", "Ada");
  testRepositoryAt(cwd).git("config", "user.email", "ada@example.invalid");
  return { cwd, run: (...args: readonly string[]) => holdfast.run(args, { cwd }) };
}

const CODEX = ROWS.filter(({ name }) => name === "codex");

test.for(CODEX)("a money limit between two responses of the real $name ends the call", async (row, context) => {
  const found = findRealAgent(row.name);
  if (found.kind === "absent") context.skip(found.why);
  const { cwd } = await place((undo) => context.onTestFinished(undo));
  const { server, env } = await row.open({ script: work(row), later: context.onTestFinished });
  const flags = ["--yolo", "--no-review", "--max-cost", "0.006", "--agent", `${row.name}:${row.model}`];
  const stopped = await holdfast.run(["run", "1", ...flags], { cwd, env });
  expect(stopped.status, stopped.stdout + stopped.stderr).toBe(7);
  expect(server.requests.filter(({ end }) => end === "whole")).toHaveLength(2);
  const status = JSON.parse((await holdfast.run(["--json", "status", RUN], { cwd, env })).stdout);
  // Two responses at 5 and 30 US dollars per million tokens.
  expect(status.run.budget.spent.microUsd).toBe(2 * (5 * USAGE.input + 30 * USAGE.output));
});

test("a limit that cannot be kept, on money or on tokens, is refused before the run, and before a resume", async (context) => {
  const { cwd, run } = await place((undo) => context.onTestFinished(undo));
  const agent = ["--agent", "command:cat > /dev/null; echo x > x.txt", "--yolo"];
  const refused = await run("run", "1", "--max-cost", "1", ...agent);
  expect(refused.status, refused.stdout + refused.stderr).toBe(4);
  expect(refused.stderr).toContain("The limit on money cannot be kept: the price of command:cat");
  expect(refused.stderr).toContain("prices: {");
  const fewTokens = await run("run", "1", "--max-tokens", "10", "--no-review", ...agent);
  expect(fewTokens.status, fewTokens.stdout + fewTokens.stderr).toBe(4);
  expect(fewTokens.stderr).toContain("The limit of 10 tokens cannot be kept: command:cat");
  expect(fewTokens.stderr).toContain("--max-tokens 30000");
  expect(existsSync(`${cwd}-worktrees`)).toBe(false);
  expect(JSON.parse((await run("--json", "list")).stdout).runs).toEqual([]);

  writeFileSync(join(cwd, "holdfast.config.yaml"), "impl: { baseGate: false }\n");
  const started = await run("run", "1", "--max-iterations", "1", "--gate", "false", "--no-review", ...agent);
  expect(started.status, started.stdout + started.stderr).toBe(1);
  const journal = async () => JSON.parse((await run("--json", "events", RUN, "--limit", "all")).stdout).entries;
  const before = await journal();
  const later = await run("resume", RUN, "--max-cost", "1", "--max-iterations", "2");
  expect(later.status, later.stdout + later.stderr).toBe(4);
  expect(later.stderr).toContain("The limit on money cannot be kept");
  expect(await journal()).toEqual(before);
});

test("doctor reports an agent without a price if the config limits money", async (context) => {
  const { cwd, run } = await place((undo) => context.onTestFinished(undo));
  const checkOf = async (config: string) => {
    writeFileSync(join(cwd, "holdfast.config.yaml"), config);
    const { checks } = JSON.parse((await run("--json", "doctor")).stdout);
    return checks.find(({ name }: { readonly name: string }) => name === "prices");
  };
  expect(await checkOf("agent: qwen:some-model\n")).toBeUndefined();
  // Of these, the default model has no built-in price.
  for (const unknown of ["qwen", "copilot"])
    expect(await checkOf(`agent: ${unknown}\nbudget: { maxCost: 1 }\n`)).toMatchObject({
      level: "warn",
      detail: expect.stringContaining(`the price of ${unknown} is unknown`),
      fix: expect.stringContaining(`prices: {"${unknown}"`),
    });
  const price = "prices: { qwen: { input: 1, output: 2 } }";
  expect(await checkOf(`agent: qwen\nbudget: { maxCost: 1 }\n${price}\n`)).toMatchObject({ level: "ok" });
  const all = ["claude", "codex", "gemini", "pi", "opencode", "codex:gpt-5.5", "copilot:gpt-5.4"];
  for (const { known } of sampleBySeed(
    all.map((name) => ({ known: name, name })),
    4,
  ))
    expect(await checkOf(`agent: ${known}\nbudget: { maxCost: 1 }\n`), known).toMatchObject({ level: "ok" });
});
