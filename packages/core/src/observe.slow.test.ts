import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import {
  BRANCH,
  ISSUE,
  RUN,
  type StoppedRun,
  createStoppedRun,
  headOf,
  mergedRequest,
  stopDuring,
} from "@holdfast/test-support/core/resume-scene";
import type { PullRequest } from "./forge.ts";
import type { Workspaces } from "./workspace.ts";

const request = (change: Partial<PullRequest>): PullRequest => ({ ...mergedRequest(""), ...change });
const dropWorktree = (scene: StoppedRun): void => rmSync(scene.worktree().root, { recursive: true });

describe("nothing changed", () => {
  test("an untouched run has no findings", async () => {
    const scene = await createStoppedRun();
    expect(await scene.found()).toEqual([]);
  });

  test("work of the run after its checkpoint is not a finding", async () => {
    const scene = await createStoppedRun();
    const worktree = scene.worktree();
    worktree.git("commit", "-q", "--allow-empty", "-m", "ours");
    const head = worktree.git("rev-parse", "HEAD").trim();
    expect(await scene.found()).toEqual(["head_moved"]);
    await scene.append({ kind: "step.finished", body: { stageAttempt: 0, step: "c", result: { head }, spent: null } });
    expect(await scene.found()).toEqual([]);
  });

  test("changes under an interrupted step are its own partial work", async () => {
    const scene = await createStoppedRun();
    scene.worktree().write("work.txt", "quarter\n");
    scene.worktree().git("commit", "-q", "--allow-empty", "-m", "by the step");
    expect(await scene.found()).toEqual(["head_moved", "files_changed"]);
    await scene.append({ kind: "step.started", body: { stageAttempt: 0, step: "agent", files: true, estimate: null } });
    expect(await scene.found()).toEqual([]);
  });

  test("a checkpoint taken in the middle of such a step shows this too", async () => {
    const scene = await createStoppedRun();
    await scene.save({}, (planes) => {
      const stageAttempt = {
        ...planes.position.stageAttempt,
        running: { agent: { files: true, estimate: null, base: 1 } },
      };
      return { ...planes, position: { ...planes.position, stageAttempt } };
    });
    scene.worktree().write("work.txt", "more\n");
    expect(await scene.found()).toEqual([]);
  });
});

describe("the run was stopped cleanly in the middle of a step", () => {
  test("a change after the stop is the user's: it is asked about; after another start it is the step's again", async () => {
    const scene = await createStoppedRun();
    await stopDuring(scene, "agent");
    expect(await scene.found()).toEqual([]);
    scene.worktree().write("mine.txt", "by hand\n");
    const { plan } = await scene.plan();
    expect(plan).toMatchObject({
      kind: "ask",
      why: expect.stringMatching(/mine\.txt\. The run was stopped during agent: .* begins again from .*@1$/),
      hint: expect.stringContaining("files_changed=put_back"),
    });
    scene.worktree().git("commit", "-q", "--allow-empty", "-m", "by a person");
    expect(await scene.found()).toEqual(["head_moved", "files_changed"]);
    await scene.append({ kind: "step.started", body: { stageAttempt: 0, step: "agent", files: true, estimate: null } });
    expect(await scene.found()).toEqual([]);
  });

  test("the files of a call that continues its session stay, so a change is only reported", async () => {
    const scene = await createStoppedRun();
    await stopDuring(scene, "agent", { agent: "session-1" });
    scene.worktree().write("mine.txt", "by hand\n");
    expect((await scene.plan()).plan.kind).toBe("warn");
  });
});

describe("each difference is found", () => {
  test("files whose patch is too large are still named", async () => {
    const scene = await createStoppedRun();
    scene.worktree().write("work.txt", "edited\n");
    const diff: Workspaces["diff"] = (params) =>
      params.format === "patch" ? Promise.reject(new Error("too much output")) : scene.workspaces.diff(params);
    const adapters = { ...scene.adapters, workspaces: { ...scene.workspaces, diff } };
    const { findings } = await scene.plan({ adapters });
    expect(findings).toMatchObject([{ kind: "files_changed", summary: expect.stringMatching(/work\.txt$/) }]);
  });

  test("all at once: none hides another", async () => {
    const scene = await createStoppedRun();
    scene.forge.issue = { ...ISSUE, title: "T", body: "Do it.\nNow.", labels: [], state: "closed" };
    scene.worktree().write("work.txt", "edited\n");
    scene.worktree().git("commit", "-q", "--allow-empty", "-m", "by a person");
    scene.repo.write("a.txt", "two\n");
    scene.repo.git("commit", "-qam", "upstream");
    scene.repo.git("push", "-q", "origin", "main");
    await scene.append({
      kind: "effect.intended",
      body: { key: `${RUN}/pr/push`, kind: "push", target: "origin", payload: "0".repeat(64), detail: {} },
    });
    const config = { ...scene.current.config, model: "other", tools: ["shell"] };
    const { findings } = await scene.plan({ current: { definition: "shape-2", config } });
    expect(findings.map(({ kind }) => kind).toSorted()).toEqual(
      [
        "issue_title_changed",
        "issue_body_changed",
        "issue_labels_changed",
        "issue_closed",
        "head_moved",
        "files_changed",
        "base_moved",
        "workflow_changed",
        "model_changed",
        "tools_changed",
        "effect_in_flight",
      ].toSorted(),
    );
    expect(findings.find(({ kind }) => kind === "issue_body_changed")?.diff).toBe("  Do it.\n- Soon.\n+ Now.");
    expect(findings.find(({ kind }) => kind === "files_changed")?.summary).toMatch(/work\.txt$/);
  });

  test("branch and worktree gone", async () => {
    const scene = await createStoppedRun();
    scene.repo.git("update-ref", "-d", `refs/heads/${BRANCH}`);
    expect(await scene.found()).toEqual(["branch_missing"]);
    // A worktree that leads to another repository may hold edits: it is never taken for gone.
    scene.worktree().write(".git", `gitdir: ${scene.repo.root}/.git\n`);
    const { plan } = await scene.plan();
    expect(plan).toMatchObject({ kind: "ask" });
    expect(JSON.stringify(plan)).toContain("git worktree repair");
    dropWorktree(scene);
    expect(await scene.found()).toEqual(["branch_missing", "worktree_missing"]);
  });

  test("another branch is checked out in the worktree, or the worktree moved", async () => {
    const scene = await createStoppedRun();
    scene.worktree().git("switch", "-q", "-c", "mine");
    expect(await scene.found()).toEqual(["branch_switched"]);
    scene.worktree().git("switch", "-q", BRANCH);
    scene.repo.git("worktree", "move", scene.worktree().root, join(scene.repo.root, "..", "moved"));
    expect(await scene.found()).toEqual(["worktree_moved"]);
  });

  test("an unfinished restore, whose files are not edits of a user", async () => {
    const scene = await createStoppedRun();
    scene.worktree().write("work.txt", "half of each\n");
    await scene.append({ kind: "restore.started", body: { target: `${RUN}@1`, paths: null } });
    expect(await scene.found()).toEqual(["restore_unfinished"]);
  });

  test("a checkpoint of another issue: issue 4 is not issue 42", async () => {
    const scene = await createStoppedRun();
    await scene.save({ issue: { ...ISSUE, number: 4 } });
    const { plan } = await scene.plan();
    expect(plan).toMatchObject({ kind: "refuse", why: expect.stringContaining("for issue 42") });
  });
});

describe("the forge", () => {
  test("that does not answer is a finding, never an unchanged result", async () => {
    const scene = await createStoppedRun();
    scene.forge.reachable = false;
    expect((await scene.plan()).plan).toMatchObject({ kind: "ask", why: expect.stringContaining("no route") });
    const adapters = { ...scene.adapters, forge: null };
    expect((await scene.plan({ adapters })).findings).toMatchObject([{ kind: "forge_unreachable" }]);
  });

  test("that denies access is a finding for a run with objects there, and for no other", async () => {
    const scene = await createStoppedRun();
    const key = `${RUN}/notify/post`;
    const body = { key, kind: "post", target: "somewhere", payload: "0".repeat(64), detail: {} };
    await scene.append({ kind: "effect.intended", body });
    const { forge } = scene.adapters;
    if (forge === null) throw new Error("the scene has a forge");
    const shut = async (): Promise<never> => {
      throw new HoldfastError({ code: "FORGE_DENIED", message: "no user is logged in" });
    };
    const adapters = { ...scene.adapters, forge: { ...forge, getIssue: shut, findPullRequest: shut } };
    const found = async (): Promise<readonly string[]> =>
      (await scene.plan({ adapters })).findings.map(({ kind }) => kind).filter((kind) => kind === "forge_unreachable");
    expect(await found()).toEqual(["forge_unreachable"]);
    await scene.save({ issue: null }, (planes) => ({ ...planes, inputs: { ...planes.inputs, issue: null } }));
    expect(await found()).toEqual([]);
  });

  test("a missing issue", async () => {
    const scene = await createStoppedRun();
    scene.forge.issue = null;
    expect(await scene.found()).toEqual(["issue_missing"]);
  });

  test("a pull request merged or closed, by the recorded number", async () => {
    const scene = await createStoppedRun();
    await scene.save({ pullRequest: { number: 7, url: "local:7" } });
    scene.forge.request = request({ state: "open" });
    expect(await scene.found()).toEqual([]);
    scene.forge.request = request({ state: "closed" });
    expect(await scene.found()).toEqual(["pull_request_closed"]);
    scene.forge.request = request({ state: "merged", headCommit: headOf(scene) });
    expect(await scene.found()).toEqual(["pull_request_merged"]);
  });

  test("a pull request merged without the run's last commits", async () => {
    const scene = await createStoppedRun();
    const merged = headOf(scene);
    scene.worktree().git("commit", "-q", "--allow-empty", "-m", "later");
    await scene.save({ pullRequest: { number: 7, url: "local:7" } });
    scene.forge.request = request({ state: "merged", headCommit: merged });
    expect(await scene.found()).toEqual(["pull_request_merged", "work_not_merged"]);
  });

  test("a pull request that the run merges itself: reported, and the run continues", async () => {
    const scene = await createStoppedRun();
    await scene.save({ pullRequest: { number: 7, url: "local:7" } });
    scene.forge.request = request({ state: "merged", headCommit: headOf(scene) });
    expect((await scene.plan()).plan.kind).toBe("done");
    const body = { key: `${RUN}/pr/merge`, kind: "merge", target: "7", payload: "0".repeat(64), detail: {} };
    await scene.append({ kind: "effect.intended", body });
    expect(await scene.found()).toEqual(["pull_request_merged", "effect_in_flight"]);
    expect((await scene.plan()).plan.kind).toBe("warn");
  });

  test("a merged pull request of an earlier run with the same branch is not ours", async () => {
    const scene = await createStoppedRun();
    const key = `${RUN}/pr/open`;
    const body = { key, kind: "pull_request", target: "forge", payload: "0".repeat(64), detail: {} };
    await scene.append({ kind: "effect.intended", body });
    scene.forge.request = request({ state: "merged", headCommit: headOf(scene), body: `key: ${key}.2` });
    expect(await scene.found()).toEqual(["effect_in_flight"]);
    scene.forge.request = request({ state: "merged", headCommit: headOf(scene), body: `<!-- ${key} -->` });
    expect(await scene.found()).toEqual(["pull_request_merged", "effect_in_flight"]);
  });
});

describe("the remote", () => {
  const push = (scene: StoppedRun): string => {
    scene.worktree().git("push", "-q", "origin", BRANCH);
    return headOf(scene);
  };

  test("has what we pushed, or an ancestor of what we have: no finding", async () => {
    const scene = await createStoppedRun();
    const pushed = push(scene);
    expect(await scene.found()).toEqual([]);
    scene.worktree().git("commit", "-q", "--allow-empty", "-m", "next");
    await scene.save({ pushed });
    expect(await scene.found()).toEqual([]);
  });

  test("has the commits from before our rebase: they are what we pushed", async () => {
    const scene = await createStoppedRun();
    scene.worktree().git("commit", "-q", "--allow-empty", "-m", "one");
    const pushed = push(scene);
    scene.worktree().git("commit", "-q", "--amend", "--allow-empty", "-m", "one again");
    await scene.save({ pushed });
    expect(await scene.found()).toEqual([]);
  });

  test.each([
    ["was replaced", ["checkout", "-q", "--orphan", "theirs"]],
    ["has commits on top", ["checkout", "-q", "-b", "theirs", BRANCH]],
  ])("%s: diverged", async (what, begin) => {
    const scene = await createStoppedRun();
    await scene.save({ pushed: push(scene) });
    scene.repo.git(...begin);
    scene.repo.git("commit", "-q", "--allow-empty", "-m", "theirs");
    scene.repo.git("push", "-q", "--force", "origin", `theirs:${BRANCH}`);
    const { findings } = await scene.plan();
    expect(findings).toMatchObject([{ kind: "branch_diverged", summary: expect.stringContaining(what) }]);
  });

  test("lost the branch, or does not answer", async () => {
    const scene = await createStoppedRun();
    await scene.save({ pushed: push(scene) });
    scene.remote.git("update-ref", "-d", `refs/heads/${BRANCH}`);
    expect(await scene.found()).toEqual(["remote_branch_missing"]);
    rmSync(scene.remote.root, { recursive: true });
    expect(await scene.found()).toEqual(["remote_unreachable"]);
  });

  test("is missing: the base is a branch here, which moved or was renamed", async () => {
    const scene = await createStoppedRun();
    scene.repo.git("remote", "remove", "origin");
    expect(await scene.found()).toEqual([]);
    scene.repo.git("commit", "-q", "--allow-empty", "-m", "on main");
    expect((await scene.plan()).findings).toMatchObject([
      { kind: "base_moved", actual: scene.repo.git("rev-parse", "main").trim() },
    ]);
    scene.repo.git("branch", "-m", "main", "trunk");
    expect((await scene.plan()).findings).toMatchObject([
      { kind: "base_moved", summary: expect.stringMatching(/^The branch main is gone/), actual: null },
    ]);
  });

  test("is asked from another worktree when the run's own is missing", async () => {
    const scene = await createStoppedRun();
    await scene.save({ pushed: push(scene) });
    dropWorktree(scene);
    scene.remote.git("update-ref", "-d", `refs/heads/${BRANCH}`);
    expect(await scene.found()).toEqual(["worktree_missing", "remote_branch_missing"]);
  });
});
