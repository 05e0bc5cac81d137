import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { readProcessTable } from "@holdfast/platform/process-tree";
import {
  CODEX_MODEL,
  GEMINI_MODEL,
  MODEL,
  REAL_CODEX,
  REAL_GEMINI,
  findRealAgent,
  openClaudeScene,
  openCodexScene,
  openGeminiScene,
} from "@holdfast/test-support/agents/real-agents";
import { REAL_COPILOT, REAL_OPENCODE, REAL_PI, REAL_QWEN } from "@holdfast/test-support/agents/provider-agents";
import type { RealAgent } from "@holdfast/test-support/agents/real-agent-suite";
import { createLocalForgeScene } from "@holdfast/test-support/forges/forge-scenes";
import type { ModelScript, ModelTool } from "@holdfast/test-support/agents/model-script";
import type { ModelServer } from "@holdfast/test-support/agents/model-server";
import { testRepositoryAt } from "@holdfast/test-support/git/repository";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";

/** Whole runs by agents other than Claude Code, which has its own in claude-github-run.slow.test.ts. */
const AGENTS = [
  {
    name: "codex",
    model: CODEX_MODEL,
    found: REAL_CODEX,
    open: openCodexScene,
    shell: (cmd: string): ModelTool => ({ name: "exec_command", input: { cmd } }),
    /** It asks the model again while a command is slow; that is not answered, so that what it has taken does not change behind our back. */
    slow: (cmd: string): ModelTool => ({ name: "exec_command", input: { cmd, yield_time_ms: 250 } }),
    isThere: (server: ModelServer): boolean => server.requests.some(({ end }) => end === "hang"),
    /** In its record, of an answer that is counted. */
    counted: '"token_usage_record"',
  },
  {
    name: "gemini",
    model: GEMINI_MODEL,
    found: REAL_GEMINI,
    open: openGeminiScene,
    shell: (command: string): ModelTool => ({ name: "run_shell_command", input: { command } }),
    slow: (command: string): ModelTool => ({ name: "run_shell_command", input: { command } }),
    isThere: (): boolean => true,
    counted: '"tokens":{',
  },
] as const;
const named = (real: RealAgent) => ({ name: real.agent.name, real });
type Later = (undo: () => void | Promise<void>) => void;

const TITLE = "[feat][#1] Say hello";
const SCORES = { faithful: 95, style: 95, docs: 95, corner_cases: 95 };
const RUN = "issue-1";

let holdfast: BuiltCommand;
beforeAll(async () => {
  holdfast = await buildCommand();
}, 60_000);
afterAll(() => holdfast.remove());

for (const { name, model, found, open, shell, slow, isThere, counted } of sampleBySeed(AGENTS, 1)) {
  const why = found.kind === "absent" ? ` (${found.why})` : "";
  test.skipIf(found.kind === "absent")(
    `an issue becomes one pull request by the real ${name}, with Holdfast killed in a tool call${why}`,
    { timeout: 600_000 },
    async ({ onTestFinished }) => {
      const forge = createLocalForgeScene();
      onTestFinished(() => forge.dispose());
      await forge.forge().createIssue({ title: "Greet", body: "Say hello.\n", labels: [], key: "suite" });
      const { server, env } = await open({ script: scriptFor(slow(commandFor(600)), true), later: onTestFinished });
      const cwd = join(forge.bare.root, "..", "clone");
      forge.bare.git("clone", "-q", forge.bare.root, cwd);
      testRepositoryAt(cwd).git("config", "user.name", "Ada");
      testRepositoryAt(cwd).git("config", "user.email", "ada@example.invalid");
      const options = { cwd, env };

      const child = holdfast.start(["run", "1", "--yolo", "--agent", `${name}:${model}`], options);
      let said = "";
      for (const stream of [child.stdout, child.stderr]) stream?.on("data", (text) => (said += String(text)));
      const ended = new Promise((resolve) => child.once("exit", resolve));
      const isDue = () =>
        existsSync(join(`${cwd}-worktrees`, RUN, "greeting.txt")) &&
        hasRecord(env["HOME"] ?? "", counted) &&
        isThere(server);
      await vi.waitFor(() => expect([isDue(), child.exitCode], said).toEqual([true, null]), {
        timeout: 600_000,
        interval: 50,
      });
      child.kill("SIGKILL");
      await ended;
      server.play(scriptFor(shell(commandFor(0)), false));

      const done = await holdfast.run(["resume", RUN], options);
      expect(done.status, done.stdout + done.stderr).toBe(0);
      const pull = await forge.forge().findPullRequest(`holdfast/${RUN}`);
      expect(pull).toMatchObject({ state: "open", title: TITLE });
      expect(forge.bare.git("show", `holdfast/${RUN}:greeting.txt`)).toBe("hello\n");
      assertContinued(server);
      const { input, output, cacheRead } = server.sent();
      const status = JSON.parse((await holdfast.run(["--json", "status", RUN], options)).stdout);
      expect(status.run.budget.spent.tokens).toBe(input + cacheRead + output);
      const store = JSON.parse(readFileSync(join(cwd, ".git/holdfast/store.json"), "utf8"));
      expect(readProcessTable()?.live.filter(({ mark }) => mark?.startsWith(`${store.id}/`) === true)).toEqual([]);
    },
  );
}

/** The real command in a clone with issue 1, with a real agent and a scripted model. */
async function openRun({ open }: Pick<RealAgent, "open">, script: ModelScript, later: Later) {
  const forge = createLocalForgeScene();
  later(() => forge.dispose());
  await forge.forge().createIssue({ title: "Greet", body: "Say hello.\n", labels: [], key: "suite" });
  const { server, env } = await open({ script, later });
  const cwd = join(forge.bare.root, "..", "clone");
  forge.bare.git("clone", "-q", forge.bare.root, cwd);
  testRepositoryAt(cwd).git("config", "user.name", "Ada");
  testRepositoryAt(cwd).git("config", "user.email", "ada@example.invalid");
  const options = { cwd, env };
  const json = async (...args: readonly string[]) =>
    JSON.parse((await holdfast.run(["--json", ...args], options)).stdout);
  const worktree = join(`${cwd}-worktrees`, RUN);
  const start = (...args: readonly string[]) => {
    const child = holdfast.start(["run", "1", "--yolo", "--no-review", ...args], options);
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (text) => (said += String(text)));
    const ended = new Promise((resolve) => child.once("exit", resolve));
    const until = (isSo: () => boolean | Promise<boolean>): Promise<void> =>
      vi.waitFor(async () => expect([await isSo(), child.exitCode], said).toEqual([true, null]), {
        timeout: 600_000,
        interval: 100,
      });
    return { child, ended, until };
  };
  return { forge, server, cwd, worktree, options, json, start };
}

for (const { name, real } of sampleBySeed([REAL_PI, REAL_COPILOT, REAL_OPENCODE].map(named), 1, "counted")) {
  const found = findRealAgent(name);
  test.skipIf(found.kind === "absent")(
    `usage of a call of the real ${name} that died with Holdfast is counted, or unknown and reserved; never 0`,
    { timeout: 900_000 },
    async ({ onTestFinished, annotate }) => {
      const place = await openRun(real, scriptFor(real.shell(commandFor(600)), true), onTestFinished);
      const { child, ended, until } = place.start("--max-tokens", "100000", "--agent", `${name}:${real.model}`);
      await until(() => existsSync(join(place.worktree, "greeting.txt")));
      child.kill("SIGKILL");
      await ended;
      const cut = tokensOf(place.server);
      expect(cut).toBeGreaterThan(0);
      place.server.play(scriptFor(real.shell(commandFor(0)), false));
      const done = await holdfast.run(["resume", RUN], place.options);
      expect(done.status, done.stdout + done.stderr).toBe(0);
      assertContinued(place.server);
      const { budget } = (await place.json("status", RUN)).run;
      const isUnknown = (budget.spent.uncounted ?? 0) > 0;
      await annotate(`${name}: ${isUnknown ? "unknown" : "counted"}`);
      if (isUnknown) {
        expect(budget.held.tokens).toBeGreaterThan(0);
        expect((await holdfast.run(["status", RUN], place.options)).stdout).toContain("unknown");
        expect(budget.spent.tokens).toBe(tokensOf(place.server) - cut);
      } else expect(budget.spent.tokens).toBe(tokensOf(place.server));
    },
  );
}

const CLAUDE = {
  name: "claude",
  model: MODEL,
  open: openClaudeScene,
  shell: (command: string): ModelTool => ({ name: "Bash", input: { command, description: "does the work" } }),
};

for (const { name, model, open, shell } of sampleBySeed([CLAUDE, { ...REAL_QWEN, name: "qwen" }], 1, "continued")) {
  const found = findRealAgent(name);
  test.skipIf(found.kind === "absent")(
    `the real ${name}, killed with Holdfast in a tool call, continues its session without the whole task`,
    { timeout: 900_000 },
    async ({ onTestFinished }) => {
      const place = await openRun({ open }, scriptFor(shell(commandFor(600)), true), onTestFinished);
      const { child, ended, until } = place.start("--agent", `${name}:${model}`);
      await until(() => existsSync(join(place.worktree, "greeting.txt")));
      child.kill("SIGKILL");
      await ended;
      place.server.play(scriptFor(shell(commandFor(0)), false));
      const done = await holdfast.run(["resume", RUN], place.options);
      expect(done.status, done.stdout + done.stderr).toBe(0);
      assertContinued(place.server);
    },
  );
}

/** The model sees the task once, and after it a continuation with the files that were changed and the marker. */
function assertContinued(server: ModelServer): void {
  const text = JSON.stringify(server.requests.findLast((request) => request.text.includes("Finish issue"))?.body);
  expect(text.split("You implement issue #1").length - 1).toBe(1);
  expect(text.split("# You were interrupted").length - 1).toBe(1);
  const continuation = text.slice(text.indexOf("# You were interrupted"));
  for (const part of ["greeting.txt", ".tmp/finalize.txt", "Issue 1 resolved (iteration 1"])
    expect(continuation).toContain(part);
}

for (const { name, real } of sampleBySeed([REAL_PI, REAL_COPILOT, REAL_QWEN, REAL_OPENCODE].map(named), 1, "adopted")) {
  const found = findRealAgent(name);
  test.skipIf(found.kind === "absent")(
    `a turn of the real ${name} that ended while Holdfast was stopped, and then killed, is adopted and paid once`,
    { timeout: 900_000 },
    async ({ onTestFinished }) => {
      const command = [
        "echo hello > greeting.txt",
        "while [ ! -e .tmp/go ]; do sleep 0.1; done",
        // Also in the user's main checkout, which is compared with its state before the call.
        'echo stray > "$(git rev-parse --git-common-dir)/../stray.txt"',
        commandFor(0),
      ].join("; ");
      const place = await openRun(real, scriptFor(real.shell(command), false), onTestFinished);
      const { child, ended, until } = place.start("--agent", `${name}:${real.model}`);
      await until(() => existsSync(join(place.worktree, "greeting.txt")));
      await until(async () =>
        JSON.stringify(await place.json("events", RUN, "--limit", "all")).includes("step.session"),
      );
      child.kill("SIGSTOP");
      writeFileSync(join(place.worktree, ".tmp/go"), "");
      const store = JSON.parse(readFileSync(join(place.cwd, ".git/holdfast/store.json"), "utf8"));
      const live = () => readProcessTable()?.live.filter(({ mark }) => mark?.startsWith(`${store.id}/`) === true);
      await until(() => live()?.length === 0);
      child.kill("SIGKILL");
      await ended;
      const { length } = place.server.requests;
      const sent = tokensOf(place.server);
      const asked = await holdfast.run(["resume", RUN], place.options);
      expect(asked.status, asked.stdout + asked.stderr).toBe(4);
      expect(asked.stdout.replaceAll(/\s+/g, " ")).toMatch(/had finished .* its result is adopted/);
      expect(asked.stdout.replaceAll(/\s+/g, " ")).toMatch(/main checkout .* changed during the call.*: stray\.txt/);
      expect((await holdfast.run(["approve", RUN, "continue"], place.options)).status).toBe(0);
      const done = await holdfast.run(["resume", RUN], place.options);
      expect(done.status, done.stdout + done.stderr).toBe(0);
      expect(place.server.requests).toHaveLength(length);
      expect((await place.json("status", RUN)).run.budget.spent.tokens).toBe(sent);
      expect(place.forge.bare.git("show", `holdfast/${RUN}:greeting.txt`)).toBe("hello\n");
      expect(await place.forge.forge().findPullRequest(`holdfast/${RUN}`)).toMatchObject({ state: "open" });
    },
  );
}

function tokensOf(server: ModelServer): number {
  const { input, output, cacheRead } = server.sent();
  return input + cacheRead + output;
}

function commandFor(seconds: number): string {
  return [
    "echo hello > greeting.txt",
    `sleep ${seconds}`,
    'echo "Say hello" > "$HOLDFAST_COMMIT_REPORT"',
    `printf '%s\\n\\nWhy.\\n%s\\n' '${TITLE}' "$HOLDFAST_COMPLETION" > "$HOLDFAST_FINALIZE_FILE"`,
  ].join("; ");
}

function scriptFor(tool: ModelTool, hangs: boolean): ModelScript {
  const end = { text: "I wrote greeting.txt.", ...(hangs ? { fault: { kind: "hang" } as const } : {}) };
  return {
    rules: [
      { match: /You review a change/, steps: [{ text: JSON.stringify({ scores: SCORES }) }] },
      { match: /You implement issue|Finish issue/, steps: [{ tool }, end] },
    ],
  };
}

/** If it is killed before its record contains an answer, its usage is unknown. */
function hasRecord(home: string, word: string): boolean {
  const names = readdirSync(home, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl"));
  return names.some((name) => readFileSync(join(home, name), "utf8").includes(word));
}
