import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type BuiltCommand, type Finished, buildCommand } from "@holdfast/test-support/built-command";
import { GOOD } from "@holdfast/test-support/cli-repositories";
import type { Fault } from "@holdfast/test-support/forges/forge-server";
import { type GithubScene, createGithubScene } from "@holdfast/test-support/forges/forge-scenes";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";

/** What GitHub answers when the pull request is to be created, and how the command ends then. */
let holdfast: BuiltCommand;
beforeAll(async () => {
  holdfast = await buildCommand();
}, 120_000);
afterAll(() => holdfast.remove());

const soon = (): string => String(Math.ceil(Date.now() / 1000) + 2);
type Answer = Extract<Fault["effect"], { kind: "answer" }>;
const FAILURES: readonly (readonly [string, () => Answer])[] = [
  ["429 with Retry-After", () => ({ kind: "answer", status: 429, headers: { "retry-after": "2" } })],
  [
    "403 with the time of the reset",
    () => ({
      kind: "answer",
      status: 403,
      headers: { "x-ratelimit-remaining": "0", "x-ratelimit-reset": soon() },
      body: { message: "API rate limit exceeded" },
    }),
  ],
  ["502 with Retry-After", () => ({ kind: "answer", status: 502, headers: { "retry-after": "2" } })],
];

test.each(sampleBySeed(FAILURES, 1))(
  "%s: exit 7 until the time that it gives, then resume continues",
  async (_name, effect) => {
    const { scene, run } = await begin(effect());
    const waiting = await run("run", "1", "--no-review", "--agent");
    expect(waiting.status, waiting.stdout + waiting.stderr).toBe(7);
    expect(waiting.stdout).toContain("Waiting for the forge issue-1");
    expect(scene.repository.pulls).toEqual([]);
    const { status } = JSON.parse((await run("--json", "status", "1")).stdout).run;
    expect(status).toMatchObject({ kind: "waiting", for: "forge", until: expect.any(String) });
    const done = await run("resume", "1", "--wait");
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(scene.repository.pulls).toHaveLength(1);
  },
);

test.each(FAILURES.slice(1, 2))("%s: with --wait the run continues by itself", async (_name, effect) => {
  const { scene, run } = await begin(effect());
  const done = await run("run", "1", "--no-review", "--wait", "--agent");
  expect(done.status, done.stdout + done.stderr).toBe(0);
  expect(scene.server.faults.left).toBe(0);
  expect(scene.repository.pulls).toHaveLength(1);
  // No iteration is spent on it.
  expect(done.stdout.match(/impl #\d/g)).toEqual(["impl #1"]);
});

test("a missing scope of the token waits for you, with the scope that is needed", async () => {
  const headers = { "x-oauth-scopes": "read:org", "x-accepted-oauth-scopes": "repo" };
  const { run } = await begin({ kind: "answer", status: 404, headers, body: { message: "Not Found" } });
  const asked = await run("run", "1", "--no-review", "--agent");
  expect(asked.status, asked.stdout + asked.stderr).toBe(4);
  expect(asked.stdout.replaceAll(/\s+/g, " ")).toContain('The login has "read:org" and needs one of "repo"');
});

test("a connection that ends is named as the reason, and the request is made once", async () => {
  const { scene, run } = await begin({ kind: "drop" });
  const done = await run("run", "1", "--no-review", "--agent");
  expect(done.status, done.stdout + done.stderr).toBe(0);
  expect(done.stdout.replaceAll(/\s+/g, " ")).toContain("The connection to GitHub failed (POST repos/octo/app/pulls)");
  expect(scene.repository.pulls).toHaveLength(1);
});

/** `run`: the agent's name is added after a last `--agent`. */
async function begin(effect: Fault["effect"]): Promise<{
  readonly scene: GithubScene;
  readonly run: (...args: readonly string[]) => Promise<Finished>;
}> {
  const scene = await createGithubScene(null);
  onTestFinished(() => scene.dispose());
  const { remote, server, repository } = scene;
  const at = "2026-01-01T00:00:00Z";
  const issue = { author: "dev", title: "Answer", body: "What is it?\n", createdAt: at, updatedAt: at } as const;
  repository.issues.push({ ...issue, number: 1, state: "open", labels: [] });
  server.faults.set({ match: /^POST .*\/pulls$/, times: 1, when: "before", effect });
  const clone = scene.clone();
  const script = join(remote.folder, "agent.json");
  writeFileSync(script, JSON.stringify({ answers: [GOOD] }));
  return {
    scene,
    run: (...args) => holdfast.run([...args, ...(args.at(-1) === "--agent" ? [`scripted:${script}`] : [])], clone),
  };
}
