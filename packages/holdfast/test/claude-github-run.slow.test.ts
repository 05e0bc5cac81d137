import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { readProcessTable } from "@holdfast/platform/process-tree";
import { MODEL, REAL_CLAUDE, openClaudeScene } from "@holdfast/test-support/agents/real-agents";
import type { Fault } from "@holdfast/test-support/forges/forge-server";
import { type GithubScene, createGithubScene, forgeTransports } from "@holdfast/test-support/forges/forge-scenes";
import type { ModelScript } from "@holdfast/test-support/agents/model-script";
import type { ModelServer } from "@holdfast/test-support/agents/model-server";
import { SEED, sampleBySeed } from "@holdfast/test-support/sample-by-seed";

const [, gh] = forgeTransports("gh");
const TITLE = "[feat][#1] Say hello";
const SCORES = { faithful: 95, style: 95, docs: 95, corner_cases: 95 };
const RUN = "issue-1";
const ISSUE = "the issue is read";

/**
 * In the order in which a run reaches them. The model does not answer, the tool does not end, or the forge does not
 * answer, with or without having acted.
 */
const MOMENTS: readonly Moment[] = [
  { name: ISSUE, forge: { match: /^GET .*\/issues\/1$/, when: "before" } },
  { name: "the first question", model: { rule: 1, step: 0 } },
  { name: "a tool call", file: "greeting.txt" },
  { name: "the question after the tool", model: { rule: 1, step: 1 } },
  { name: "the review", model: { rule: 0, step: 0 } },
  { name: "the push, done", forge: { match: /^POST .*git-receive-pack/, when: "after" } },
  { name: "the search for the pull request", forge: { match: /^GET .*\/pulls\?/, when: "before" } },
  { name: "the pull request, not done", forge: { match: /^POST .*\/pulls$/, when: "before" } },
  { name: "the pull request, done", forge: { match: /^POST .*\/pulls$/, when: "after" } },
];

type Moment = { readonly name: string } & (
  | { readonly forge: Pick<Fault, "match" | "when"> }
  | { readonly model: { readonly rule: number; readonly step: number } }
  | { readonly file: string }
);

let holdfast: BuiltCommand;
let scene: GithubScene | undefined;

beforeAll(async () => {
  holdfast = await buildCommand();
});
afterAll(() => holdfast.remove());
afterEach(async () => {
  await scene?.dispose();
  scene = undefined;
});

const absent = REAL_CLAUDE.kind === "absent" ? ` (${REAL_CLAUDE.why})` : "";

test.skipIf(gh.skip || REAL_CLAUDE.kind === "absent")(
  `an issue becomes one pull request by the real Claude Code and ${gh.name}, killed at moments of seed ${SEED}${absent}`,
  { timeout: 600_000 },
  async ({ onTestFinished }) => {
    const sample = new Set(sampleBySeed(MOMENTS, 3));
    const deaths = MOMENTS.filter((moment) => sample.has(moment));
    const github = await createGithubScene(gh.program);
    scene = github;
    const { repository, remote } = github;
    const at = "2026-01-01T00:00:00Z";
    const issue = { author: "dev", title: "Greet", body: "Say hello.\n", labels: [], createdAt: at, updatedAt: at };
    repository.issues.push({ ...issue, number: 1, state: "open" });
    const pushes = join(remote.folder, "pushes");
    writeFileSync(join(remote.bare.root, "hooks/post-receive"), `#!/bin/sh\ncat >> ${pushes}\n`, { mode: 0o755 });
    const { server, env } = await openClaudeScene({ script: scriptFor(deaths), later: onTestFinished });
    const clone = github.clone();
    const options = { cwd: clone.cwd, env: { ...env, ...clone.env, PATH: env["PATH"] ?? "" } };
    let isBegun = false;
    for (const death of deaths) {
      const line = isBegun ? ["resume", RUN] : ["run", "1", "--yolo", "--agent", `claude:${MODEL}`];
      await killAt(death, { line, options, server, github });
      isBegun ||= death.name !== ISSUE;
    }
    const done = await holdfast.run(["resume", RUN], options);
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(done.stdout).toMatch(/Done issue-1: Pull request #2 is open/);

    const tip = await github.tip(`holdfast/${RUN}`);
    expect(repository.pulls.map(({ number, title, state, headCommit }) => [number, title, state, headCommit])).toEqual([
      [2, TITLE, "open", tip],
    ]);
    expect(remote.bare.git("show", `${tip}:greeting.txt`).trim()).toBe("hello");
    // Who is asked for the first time reckons.
    const isReady = async () =>
      expect(await github.forge().findPullRequest(`holdfast/${RUN}`)).toMatchObject({ mergeability: "mergeable" });
    await vi.waitFor(isReady, { timeout: 600_000 });
    const pushed = readFileSync(pushes, "utf8").trim().split("\n");
    expect(new Set(pushed.map((line) => line.split(" ")[1])).size, pushed.join("\n")).toBe(pushed.length);
    const { input, output } = server.sent();
    const status = JSON.parse((await holdfast.run(["--json", "status", RUN], options)).stdout);
    expect(status.run.budget.spent.tokens, deaths.map(({ name }) => name).join(", ")).toBe(input + output);
    const store = JSON.parse(readFileSync(join(options.cwd, ".git/holdfast/store.json"), "utf8"));
    const left = readProcessTable()?.live.filter(({ mark }) => mark?.startsWith(`${store.id}/`) === true);
    expect(left).toEqual([]);
  },
);

function scriptFor(deaths: readonly Moment[]): ModelScript {
  const isDeath = (rule: number, step: number): boolean =>
    deaths.some((death) => "model" in death && death.model.rule === rule && death.model.step === step);
  const fault = (rule: number, step: number) =>
    isDeath(rule, step) ? ({ fault: { kind: "hang", times: 1 } } as const) : {};
  const slow = deaths.some((death) => "file" in death) ? "[ -e greeting.txt ] || SLOW=60; " : "";
  const command = [
    `${slow}echo hello > greeting.txt`,
    "sleep ${SLOW:-0}",
    'echo "Say hello" > "$HOLDFAST_COMMIT_REPORT"',
    `printf '%s\\n\\nWhy.\\n%s\\n' '${TITLE}' "$HOLDFAST_COMPLETION" > "$HOLDFAST_FINALIZE_FILE"`,
  ].join("; ");
  const tool = { name: "Bash", input: { command, description: "does the work" } };
  return {
    rules: [
      {
        match: /You review a change|end as the task asks/,
        steps: [{ text: JSON.stringify({ scores: SCORES }), ...fault(0, 0) }],
      },
      {
        match: /You implement issue|Finish issue/,
        steps: [
          { tool, ...fault(1, 0) },
          { text: "I wrote greeting.txt.", ...fault(1, 1) },
        ],
      },
    ],
  };
}

async function killAt(
  death: Moment,
  params: {
    readonly line: readonly string[];
    readonly options: { readonly cwd: string; readonly env: Readonly<Record<string, string>> };
    readonly server: ModelServer;
    readonly github: GithubScene;
  },
): Promise<void> {
  const { line, options, server, github } = params;
  const { faults } = github.server;
  if ("forge" in death) faults.set({ ...death.forge, times: 1, effect: { kind: "hang" } });
  const child = holdfast.start(line, options);
  let said = "";
  child.stdout?.on("data", (text) => (said += String(text)));
  child.stderr?.on("data", (text) => (said += String(text)));
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const isThere = (): boolean => {
    if ("forge" in death) return faults.left === 0;
    if ("file" in death) return existsSync(join(`${options.cwd}-worktrees`, RUN, death.file));
    const { rule, step } = death.model;
    return server.requests.some(({ place, end }) => place?.rule === rule && place.step === step && end === "hang");
  };
  await vi.waitFor(() => expect([isThere(), child.exitCode], `${death.name}: ${said}`).toEqual([true, null]), {
    timeout: 600_000,
    interval: 20,
  });
  child.kill("SIGKILL");
  await ended;
}
