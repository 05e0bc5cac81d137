import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { createGithubTokenTransport, openGithubForge } from "@holdfast/forges/github";
import type { Fault } from "@holdfast/test-support/forges/forge-server";
import { type GithubServer, startGithubServer } from "@holdfast/test-support/forges/github-server";
import type { Repository } from "@holdfast/test-support/forges/github-state";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { finish, pass } from "./answers.ts";
import { type Bench, makeBench } from "./bench.ts";

const HEAD = "holdfast/issue-1-bench";
const TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
const hours = (count: number) => ({ now: () => Date.now() + count * 3_600_000 });

interface GithubBench {
  readonly bench: Bench;
  readonly server: GithubServer;
  readonly repository: Repository;
}

/** As every other bench, with the pull requests at a loopback GitHub. */
async function makeGithubBench(options: Record<string, boolean> = {}): Promise<GithubBench> {
  const server = await startGithubServer();
  onTestFinished(() => server.dispose());
  server.world.tokens.set(TOKEN, { login: "dev" });
  let repository: Repository | undefined;
  const bench = await makeBench({
    answers: [finish(), pass],
    options,
    openForge(bare) {
      repository = server.world.add({ owner: "octo", name: "app", bare });
      const transport = createGithubTokenTransport({
        host: "github.com",
        token: TOKEN,
        timeoutMs: 30_000,
        root: server.url,
      });
      return openGithubForge({ transport, host: "github.com", owner: "octo", name: "app", pauseMs: 1 });
    },
  });
  onTestFinished(() => bench[Symbol.asyncDispose]());
  if (repository === undefined) throw new Error("the forge was not opened");
  const at = "2026-01-01T00:00:00Z";
  const issue = { author: "dev", title: "Add a greeting", body: "Say hello.", createdAt: at, updatedAt: at } as const;
  repository.issues.push({ ...issue, number: 1, state: "open", labels: [] });
  return { bench, server, repository };
}

const creating = (effect: Fault["effect"], more: Partial<Pick<Fault, "times" | "when">> = {}): Fault => ({
  match: /^POST .*\/pulls$/,
  times: 1,
  when: "before",
  effect,
  ...more,
});

/** One implementation call and one pull request, despite the faults on the way. */
async function expectDoneOnce({ bench, repository }: GithubBench): Promise<void> {
  expect(repository.pulls.map(({ state }) => state)).toEqual(["open"]);
  expect(await bench.calls("agent")).toBe(1);
  expect((await bench.trail()).filter((line) => line.startsWith("pr:"))).toEqual(["pr:pr_pass"]);
}

describe("an HTTP error at the creation of the pull request costs no implementation round", () => {
  test("a rate limit waits until the time that GitHub gives", async () => {
    const scene = await makeGithubBench();
    const reset = Math.ceil(Date.now() / 1000) + 3600;
    const headers = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(reset) };
    const body = { message: "API rate limit exceeded for user ID 1." };
    scene.server.faults.set(creating({ kind: "answer", status: 403, headers, body }));
    expect(await scene.bench.work()).toMatchObject({
      kind: "waiting",
      for: "forge",
      reason: expect.stringContaining("API rate limit exceeded"),
      until: new Date(reset * 1000).toISOString(),
    });
    expect(scene.repository.pulls).toEqual([]);
    expect(await scene.bench.work({ clock: hours(0.5) })).toMatchObject({ kind: "waiting", for: "forge" });
    expect(await scene.bench.work({ clock: hours(2) })).toMatchObject({ kind: "done" });
    await expectDoneOnce(scene);
  });

  test("so does a rate limit of the look-up before the creation", async () => {
    const scene = await makeGithubBench();
    const limited = { kind: "answer", status: 429, headers: { "retry-after": "600" }, body: {} } as const;
    scene.server.faults.set(creating({ kind: "drop" }), {
      match: /^GET .*\/pulls\?/,
      times: 2,
      when: "after",
      effect: { kind: "cut" },
    });
    scene.server.faults.set({ match: /^GET .*\/pulls\?/, times: 1, when: "before", effect: limited });
    const outcome = await scene.bench.work();
    expect(outcome).toMatchObject({ kind: "waiting", for: "forge", until: expect.any(String) });
    expect(await scene.bench.work({ clock: hours(1) })).toMatchObject({ kind: "done" });
    await expectDoneOnce(scene);
  });

  const LOST = [
    ["502 before GitHub acted", { kind: "answer", status: 502, body: {} }, "before"],
    ["502 after GitHub acted", { kind: "answer", status: 502, body: {} }, "after"],
    ["a connection cut before GitHub acted", { kind: "drop" }, "before"],
    ["a connection cut after GitHub acted", { kind: "drop" }, "after"],
  ] as const;
  test.each(sampleBySeed(LOST, 2))("%s is looked up, then tried again", async (_name, effect, when) => {
    const scene = await makeGithubBench();
    scene.server.faults.set(creating(effect, { when, times: when === "after" ? 1 : 2 }));
    expect(await scene.bench.work()).toMatchObject({ kind: "done" });
    await expectDoneOnce(scene);
  });

  test("5xx for as long as it is retried waits for the forge, until a time", async () => {
    const scene = await makeGithubBench();
    scene.server.faults.set(creating({ kind: "answer", status: 500, body: {} }, { times: 6 }));
    const outcome = await scene.bench.work();
    expect(outcome).toMatchObject({ kind: "waiting", for: "forge", until: expect.any(String) });
    expect(await scene.bench.work({ clock: hours(1) })).toMatchObject({ kind: "done" });
    await expectDoneOnce(scene);
  });

  test("a refused login waits for you, as often as it is refused", async () => {
    const scene = await makeGithubBench();
    scene.server.faults.set(
      creating({ kind: "answer", status: 401, body: { message: "Bad credentials" } }, { times: 2 }),
    );
    const refused = { kind: "waiting", for: "you", reason: expect.stringContaining("Bad credentials") };
    expect(await scene.bench.work()).toMatchObject(refused);
    expect(await scene.bench.work()).toMatchObject(refused);
    expect(await scene.bench.work()).toMatchObject({ kind: "done" });
    await expectDoneOnce(scene);
  });

  test("a repository without drafts gets a normal pull request", async () => {
    const scene = await makeGithubBench({ draft: true });
    const message = "Draft pull requests are not supported in this repository.";
    scene.server.faults.set(creating({ kind: "answer", status: 422, body: { message } }));
    expect(await scene.bench.work()).toMatchObject({ kind: "done" });
    expect(scene.repository.pulls).toMatchObject([{ draft: false }]);
    await expectDoneOnce(scene);
  });

  test("any other refusal of GitHub waits for you with its message", async () => {
    const scene = await makeGithubBench();
    scene.server.faults.set(creating({ kind: "answer", status: 422, body: { message: "Base is archived" } }));
    expect(await scene.bench.work()).toMatchObject({
      kind: "waiting",
      for: "you",
      reason: expect.stringContaining("Base is archived"),
    });
    expect(await scene.bench.work()).toMatchObject({ kind: "done" });
    await expectDoneOnce(scene);
  });
});

async function setHook(bench: Bench, lines: readonly string[]): Promise<void> {
  const hook = join(bench.root, "remote.git/hooks/pre-receive");
  await writeFile(hook, ["#!/bin/sh", `seen=${bench.root}/seen`, "echo >> $seen", ...lines, ""].join("\n"));
  await chmod(hook, 0o755);
}

const FIRST = '[ "$(wc -l < $seen)" -eq 1 ]';
const LOCK = `refs/heads/${HEAD}.lock`;

describe("a push that failed on the remote side is tried again before anything else", () => {
  const FAILING = [
    ["a hook whose service is down", [`if ${FIRST}; then echo "GitLab: Internal API error (502)" >&2; exit 1; fi`]],
    ["a hook that fails without output", [`if ${FIRST}; then exit 1; fi`]],
    [
      "a lock on the remote's ref",
      [`if ${FIRST}; then mkdir -p refs/heads/holdfast; touch ${LOCK}; else rm -f ${LOCK}; fi`],
    ],
    ["a remote that hangs up", [`if ${FIRST}; then kill -9 $PPID; fi`]],
  ] as const;
  test.each(sampleBySeed(FAILING, 2))("%s", async (_name, lines) => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    await setHook(bench, lines);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.calls("agent")).toBe(1);
    expect(await bench.trail()).toEqual(
      "setup:setup_done impl:impl_done review:review_pass pr:pr_pass done:done".split(" "),
    );
    expect(await bench.git("remote", "show", `${HEAD}:greeting.txt`)).toBe("hello");
  });

  test("one that keeps failing waits for the remote until a time, and costs no agent call", async () => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    await setHook(bench, [`if [ "$(wc -l < $seen)" -le 6 ]; then echo "try again later" >&2; exit 1; fi`]);
    expect(await bench.work()).toMatchObject({
      kind: "waiting",
      for: "forge",
      reason: expect.stringContaining("try again later"),
      until: expect.any(String),
    });
    expect(await bench.work({ clock: hours(1) })).toMatchObject({ kind: "done" });
    expect(await bench.calls("agent")).toBe(1);
  });
});

describe("a push that was refused for a secret", () => {
  test.each([
    [
      "GitHub",
      [
        "error: GH013: Repository rule violations found for refs/heads/x.",
        "- GITHUB PUSH PROTECTION",
        "  Push cannot contain secrets",
        "  https://github.com/octo/app/security/secret-scanning/unblock-secret/abc",
      ],
    ],
    ["GitLab", ["PUSH BLOCKED: Secrets detected in code changes", "Secret leaked in blob: GitLab personal token"]],
  ])("by %s waits for you with that reason, and the agent is not called", async (_name, words) => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    await setHook(bench, [`if ${FIRST}; then`, ...words.map((line) => `echo "${line}" >&2`), "exit 1; fi"]);
    const outcome = await bench.work();
    expect(outcome).toMatchObject({
      kind: "waiting",
      for: "you",
      reason: expect.stringMatching(/refused \(secret\)[^]*Remove the secret from every commit/),
    });
    for (const line of words) expect(JSON.stringify(outcome)).toContain(line.trim());
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.calls("agent")).toBe(1);
  });
});
