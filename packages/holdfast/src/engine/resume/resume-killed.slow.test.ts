import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Answers } from "../../core/resume/resume.ts";
import { dyingParts, Killed } from "../../testing/dying-parts.ts";
import {
  BRANCH,
  ISSUE,
  RUN,
  forcePush,
  headOf,
  mergedRequest,
  startResumeScene,
} from "../../testing/scenes/resume-scene.ts";
import type { ResumeScene, SceneResume } from "../../testing/scenes/resume-scene.ts";
import { readWorktree } from "../../testing/workspace/workspace-repository.ts";

const dropWorktree = (scene: ResumeScene): void => rmSync(scene.worktree().root, { recursive: true });
const filesOf = (scene: ResumeScene): Readonly<Record<string, string>> => readWorktree(scene.worktree().root);
const accept = (...kinds: readonly (keyof Answers)[]): { readonly answers: Answers } => ({
  answers: Object.fromEntries(kinds.map((kind) => [kind, "accept"])),
});

describe("killed anywhere and resumed, it ends in the same place", () => {
  interface Case {
    readonly name: string;
    readonly prepare: (scene: ResumeScene) => Promise<void> | void;
    readonly resume: SceneResume;
    /** So often it dies on the way. */
    readonly least: number;
  }
  const cases: readonly Case[] = [
    {
      name: "worktree and branch gone, the issue changed, the remote force-pushed",
      resume: accept("issue_body_changed", "branch_diverged"),
      least: 7,
      async prepare(scene) {
        scene.worktree().git("push", "-q", "origin", BRANCH);
        await scene.save({ pushed: headOf(scene) });
        forcePush(scene);
        scene.forge.issue = { ...ISSUE, body: "Other." };
        dropWorktree(scene);
        scene.repo.git("worktree", "prune");
        scene.repo.git("branch", "-q", "-D", BRANCH);
      },
    },
    {
      name: "files put back",
      resume: { answers: { files_changed: "put_back" } },
      least: 4,
      prepare: (scene) => scene.worktree().write("work.txt", "by a person\n"),
    },
    {
      name: "files put back although a killed git left its locks",
      resume: { answers: { files_changed: "put_back" } },
      least: 4,
      prepare(scene) {
        scene.worktree().write("work.txt", "by a person\n");
        const gitDir = scene.worktree().git("rev-parse", "--absolute-git-dir").trim();
        writeFileSync(join(gitDir, "index.lock"), "");
        writeFileSync(scene.repo.path(`.git/refs/heads/${BRANCH}.lock`), "");
      },
    },
    {
      name: "an unfinished restore of all, and the worktree gone",
      resume: {},
      least: 6,
      async prepare(scene) {
        scene.worktree().write("work.txt", "second\n");
        await scene.save({ round: 2 });
        await scene.append({ kind: "restore.started", body: { target: `${RUN}@1`, paths: null } });
        dropWorktree(scene);
      },
    },
    {
      name: "merged",
      resume: {},
      least: 1,
      async prepare(scene) {
        await scene.save({ pullRequest: { number: 7, url: "local:7" } });
        scene.forge.request = mergedRequest(headOf(scene));
      },
    },
  ];

  /** What must be equal, however often it was begun. */
  async function outcome(scene: ResumeScene): Promise<unknown> {
    const { planes } = await scene.newest();
    const run = await scene.store.getRun(RUN);
    const { visit, ...position } = planes.position;
    return {
      files: filesOf(scene),
      tree: planes.files?.tree,
      head: planes.files?.head,
      branch: planes.files?.branch,
      position,
      steps: visit.steps,
      values: planes.context.values,
      inputs: planes.inputs,
      extensions: planes.extensions,
      state: run?.state.kind,
      unfinished: run?.unfinishedRestore,
      findings: run?.state.kind === "done" ? [] : (await scene.plan()).plan,
    };
  }

  test.each(cases)("$name", async ({ prepare, resume, least }) => {
    const whole = await startResumeScene();
    await prepare(whole);
    await whole.resume(resume);
    const expected = await outcome(whole);
    const scene = await startResumeScene();
    await prepare(scene);
    let deaths = 0;
    // Whoever takes up what the dead one left dies in turn, twice after as many changes, or once where that came to nothing new.
    let changes = 1;
    for (let second = false; ;) {
      const before = await traces(scene);
      // The pre-flight only looks; what is killed is the performance.
      const planned = await scene.plan(resume);
      const dying = dyingParts(scene.parts, changes + 1);
      await scene.perform(planned, dying.parts).catch((error: unknown) => {
        if (!(error instanceof Killed)) throw error;
      });
      if (!dying.died()) break;
      deaths += 1;
      second = !second && (await traces(scene)) !== before;
      if (!second) changes += 1;
    }
    expect(deaths).toBeGreaterThanOrEqual(least);
    expect(comparable(await outcome(scene), scene)).toEqual(comparable(expected, whole));
  });

  /** Whatever a take-up leaves behind in store, refs, worktrees and files. */
  async function traces(scene: ResumeScene): Promise<string> {
    const run = await scene.store.getRun(RUN);
    const there = await scene.workspaces.find(RUN);
    const files = there === undefined ? null : filesOf(scene);
    return JSON.stringify([run?.entries, scene.repo.git("for-each-ref"), scene.repo.git("worktree", "list"), files]);
  }

  /** Scenes stand in folders of their own, a second apart, and one that is killed takes longer. */
  function comparable(value: unknown, scene: ResumeScene): unknown {
    let text = JSON.stringify(value).replaceAll(scene.repo.root, "ROOT");
    for (const line of scene.repo.git("log", "--branches", "--format=%H %s").trim().split("\n"))
      text = text.replaceAll(line.slice(0, 40), line.slice(41));
    return JSON.parse(text, (key, part: unknown) => (key === "milliseconds" ? "passed" : part));
  }
});
