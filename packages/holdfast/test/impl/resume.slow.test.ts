import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { defaultFindingPolicy } from "@holdfast/core/findings";
import type { Answers, ResumePlan } from "@holdfast/core/resume-plan";
import { acquireLease } from "@holdfast/core/hold-lease";
import type { ProgressEvent } from "@holdfast/core/progress";
import { applyResumeCheck, checkResume } from "@holdfast/core/resume";
import { finish, pass, score } from "./answers.ts";
import { type Bench, makeBench } from "./bench.ts";

const RUN = "issue-1-bench";
const BRANCH = `holdfast/${RUN}`;

/** Works until an event matches, and stops there as Ctrl+C would. */
async function workUntil(bench: Bench, fits: (event: ProgressEvent) => boolean): Promise<void> {
  const stop = new AbortController();
  const listen = (event: ProgressEvent): void => {
    if (fits(event)) stop.abort();
  };
  expect(await bench.work({ signal: stop.signal, listen })).toEqual({ kind: "interrupted" });
}

async function preflight(bench: Bench, answers: Answers = {}): Promise<ResumePlan> {
  const { adapters } = bench;
  const { position, config } = await bench.planes();
  const current = { definition: position.definition, config };
  const planned = await checkResume({
    adapters,
    run: RUN,
    current,
    policy: defaultFindingPolicy,
    answers,
    force: false,
  });
  await using lease = await acquireLease(adapters, RUN);
  await applyResumeCheck({ adapters, lease: lease.lease, planned });
  return planned.plan;
}

const straight = ["setup:setup_done", "impl:impl_done", "review:review_pass", "pr:pr_pass", "done:done"];

describe("resumption as seed 000 has it", () => {
  test("interrupted during impl: that iteration again, and only that", async () => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    await workUntil(bench, (event) => event.kind === "agent");
    expect(await preflight(bench)).toMatchObject({ kind: "resume", actions: [] });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(straight);
    expect((await bench.planes()).position.iteration).toBe(1);
  });

  test("interrupted after review and before its feedback was used: the saved feedback is used, the review is not done again", async () => {
    const poor = { ...score(50, 1), reply: "Bad.", scores: { faithful: 40, style: 90, docs: 90, corner_cases: 90 } };
    await using bench = await makeBench({ answers: [finish(), poor, pass] });
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "review_fail");
    expect((await preflight(bench)).kind).toBe("resume");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.read(".tmp/impl-input-2.txt")).toContain("faithful=40<90");
    expect(await bench.calls("reviewer")).toBe(2);
  });

  test("interrupted during pr: the pull request that was opened is found, not opened again", async () => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    await workUntil(bench, (event) => event.kind === "effect" && event.what === "acted" && event.key.includes("/pr/"));
    const plan = await preflight(bench);
    expect(["resume", "warn"]).toContain(plan.kind);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.pulls()).toBe(1);
    expect(await bench.trail()).toEqual(straight);
  });

  test("done resumed into fatal: done stays done", async () => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    await bench.work();
    expect(await preflight(bench)).toMatchObject({ kind: "done", actions: [] });
    expect(await bench.work()).toMatchObject({ kind: "done" });
  });
});

describe("changes while no process executed the run", () => {
  test("worktree and branch deleted in the middle of an iteration: brought back, and the same pull request comes out", async () => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "impl_done");
    const tip = await bench.git("worktree", "rev-parse", "HEAD");
    await rm(join(bench.root, "work", RUN), { recursive: true });
    await bench.git("clone", "worktree", "prune");
    await bench.git("clone", "branch", "-q", "-D", BRANCH);
    expect((await preflight(bench)).kind).toBe("warn");
    expect(await bench.git("worktree", "rev-parse", "HEAD")).toBe(tip);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(straight);
    expect(await bench.git("remote", "show", `${BRANCH}:greeting.txt`)).toBe("hello");
  });

  test("an issue that was changed: asks; accepted, the next prompt has the new text and what changed", async () => {
    const poor = score(50, 1);
    await using bench = await makeBench({ answers: [finish(), poor, pass] });
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "review_fail");
    await editIssue(bench, "Say hello.", "Say hello, loudly.");
    expect(await preflight(bench)).toMatchObject({ kind: "ask", why: expect.stringContaining("body of Issue 1") });
    expect((await preflight(bench, { issue_body_changed: "accept" })).kind).toBe("warn");
    expect((await preflight(bench)).kind).toBe("resume");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const prompt = (await bench.read(".tmp/impl-input-2.txt")) ?? "";
    expect(prompt).toContain("+ Say hello, loudly.");
    expect((await bench.state()).issue?.body).toContain("loudly");
  });

  test("a tip of another user that was answered is not asked about again; another one is", async () => {
    const push = (text: string) =>
      [`cd ${bench.root}/clone`, `git commit -q --allow-empty -m ${text}`, `git push -qf origin HEAD:${BRANCH}`].join(
        " && ",
      );
    const implModel = "command:cat > ../prompt; sh ../../agent.sh";
    await using bench = await makeBench({
      answers: [pass],
      options: { implModel, reviewModel: "scripted:script.yaml" },
    });
    const finalize =
      '{ echo "[feat][#1] Add a greeting"; grep -A1 "completion marker of this" ../prompt | tail -1; } > .tmp/finalize.txt';
    await bench.git("clone", "config", "user.name", "b");
    await bench.git("clone", "config", "user.email", "b@example.org");
    await writeFile(join(bench.root, "agent.sh"), `(${push("foreign")})\necho hello > greeting.txt\n${finalize}\n`);
    expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you" });
    await bench.answer("ours");
    expect(await preflight(bench)).toMatchObject({ kind: "resume", judgements: [] });
    await promisify(execFile)("sh", ["-c", push("later")]);
    expect((await preflight(bench)).kind).toBe("ask");
    expect((await preflight(bench, { branch_diverged: "accept" })).kind).toBe("warn");
    // Accepting is the answer: the run keeps its own commits, and its push replaces what was accepted.
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.git("remote", "show", `${BRANCH}:greeting.txt`)).toBe("hello");
    expect(await bench.git("remote", "log", "--format=%s", BRANCH)).not.toMatch(/foreign|later/);
  });

  test("a clock that was set back two days: the run continues, does nothing twice, and its working time does not shrink", async () => {
    await using bench = await makeBench({ answers: [finish(), pass], options: { waitForCi: true } });
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "review_pass");
    const before = (await bench.planes()).position.budget.spent.milliseconds;
    const clock = { now: () => Date.now() - 2 * 86_400_000 };
    expect(await bench.work({ clock })).toMatchObject({ kind: "done" });
    expect(await bench.pulls()).toBe(1);
    expect(await bench.calls("agent")).toBe(1);
    expect((await bench.planes()).position.budget.spent.milliseconds).toBeGreaterThanOrEqual(before);
    for await (const event of bench.store.verify()) expect(event).not.toMatchObject({ kind: "problem" });
  });

  test("a pull request that a user closed: asks; without an answer the run waits for one", async () => {
    await using bench = await makeBench({ answers: [finish(), pass], options: { waitForCi: true } });
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "pr_pass");
    await editPull(bench, '"state": "open"', '"state": "closed"');
    expect(await preflight(bench)).toMatchObject({ kind: "ask", why: expect.stringContaining("was closed") });
    expect(await bench.work()).toMatchObject({
      kind: "waiting",
      for: "you",
      reason: expect.stringContaining("closed without"),
    });
  });

  test("a pull request that was closed while its checks were watched: accepted on resume, another one is opened; reopened, it is watched on", async () => {
    for (const isReopened of [false, true]) {
      await using bench = await makeBench({ answers: [finish(), pass], options: { waitForCi: true } });
      const pull = join(bench.forge.location, "pulls", "2.json");
      const close = `sed -i s/\\"open\\"/\\"closed\\"/ ${pull}`;
      await writeFile(join(bench.forge.location, "forge.yaml"), `ci: ${JSON.stringify(close)}\n`);
      const first = await bench.work();
      expect(first).toMatchObject({ kind: "waiting", for: "you" });
      expect(first).toMatchObject({ reason: expect.stringContaining("--accept pull_request_closed") });
      await writeFile(join(bench.forge.location, "forge.yaml"), "{}\n");
      expect((await preflight(bench)).kind).toBe("ask");
      if (isReopened) await editPull(bench, '"state": "closed"', '"state": "open"');
      else expect((await preflight(bench, { pull_request_closed: "accept" })).kind).toBe("warn");
      expect(await bench.work()).toMatchObject({ kind: "done" });
      expect(await bench.pulls()).toBe(isReopened ? 1 : 2);
      expect(await bench.calls("agent")).toBe(1);
    }
  });

  test("a pull request that a user closed, answered with continue while its checks are watched: another one is opened, once, and watched", async () => {
    await using bench = await makeBench({ answers: [finish(), pass], options: { waitForCi: true } });
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "pr_pass");
    await editPull(bench, '"state": "open"', '"state": "closed"');
    const first = (await bench.state()).pullRequest?.number ?? 0;
    expect((await preflight(bench, { pull_request_closed: "accept" })).kind).toBe("warn");
    // Stopped right after the other pull request was opened, and the user is not asked again.
    await workUntil(bench, (event) => event.kind === "effect" && event.what === "acted");
    expect((await preflight(bench)).kind).toBe("resume");
    expect(await bench.work()).toMatchObject({ kind: "done", reason: expect.stringContaining(`#${first + 1} `) });
    expect(await bench.pulls()).toBe(2);
    expect((await bench.state()).pullRequest?.number).toBe(first + 1);
    expect(await bench.forge.findPullRequest(BRANCH)).toMatchObject({ number: first + 1, state: "open" });
  });

  test("a pull request that a user closed, answered with continue before the next push: another one is opened", async () => {
    const poor = {
      when: { role: "impl", iteration: 1 },
      edits: [{ do: "write", path: "greeting.txt", text: "hi\n" }],
      finalize: { title: "[feat][#1] Add a greeting", body: "Why." },
      reply: "ok",
    };
    await using bench = await makeBench({ answers: [poor, finish(), pass], options: { waitForCi: true } });
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "pr_pass");
    const tip = await bench.git("remote", "rev-parse", BRANCH);
    await failChecks(bench, tip);
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "ci_fail");
    await editPull(bench, '"state": "open"', '"state": "closed"');
    expect((await preflight(bench, { pull_request_closed: "accept" })).kind).toBe("warn");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.pulls()).toBe(2);
  });

  test("a pull request that a user reworded keeps their text", async () => {
    await using bench = await makeBench({ answers: [finish(), pass], options: { waitForCi: true } });
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "pr_pass");
    await editPull(bench, "[feat][#1] Add a greeting", "Say hello");
    expect((await preflight(bench)).kind).toBe("resume");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.forge.findPullRequest(BRANCH)).toMatchObject({ title: "Say hello" });
    expect(await bench.pulls()).toBe(1);
  });

  test("a pull request that was merged: done, without another request to the forge", async () => {
    await using bench = await makeBench({ answers: [finish(), pass], options: { waitForCi: true } });
    await workUntil(bench, (event) => event.kind === "stage_ended" && event.event === "pr_pass");
    const pull = await bench.forge.findPullRequest(BRANCH);
    if (pull === null) throw new Error("there is no pull request");
    await bench.forge.mergePullRequest(pull.number, { head: pull.headCommit });
    expect(await preflight(bench)).toMatchObject({ kind: "done", why: expect.stringContaining("was merged") });
    expect((await bench.adapters.store.getRun(RUN))?.state.kind).toBe("done");
    expect(await bench.work()).toMatchObject({ kind: "done" });
  });
});

async function failChecks(bench: Bench, commit: string): Promise<void> {
  await mkdir(join(bench.forge.location, "checks"), { recursive: true });
  const runs = [{ name: "test", state: "failed", summary: "1 failed" }];
  await writeFile(join(bench.forge.location, "checks", `${commit}.json`), JSON.stringify({ runs }));
}

async function editPull(bench: Bench, from: string, to: string): Promise<void> {
  const pull = await bench.forge.findPullRequest(BRANCH);
  const path = join(bench.forge.location, "pulls", `${pull?.number}.json`);
  const text = await readFile(path, "utf8");
  expect(text).toContain(from);
  await writeFile(path, text.replace(from, to));
}

/** As a user does it: the issue is a file. */
async function editIssue(bench: Bench, from: string, to: string): Promise<void> {
  const path = join(bench.forge.location, "issues", "1.md");
  const text = await readFile(path, "utf8");
  expect(text).toContain(from);
  await writeFile(path, text.replace(from, to));
}
