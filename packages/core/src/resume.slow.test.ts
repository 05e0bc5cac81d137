import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ProcessKilled, dyingParts } from "@holdfast/test-support/core/kill-run";
import {
  BRANCH,
  ISSUE,
  RUN,
  type SceneResume,
  type StoppedRun,
  createStoppedRun,
  forcePush,
  headOf,
  mergedRequest,
  stopDuring,
} from "@holdfast/test-support/core/resume-scene";
import { readWorktree } from "@holdfast/test-support/git/repository";
import type { Checkpoint } from "./checkpoint.ts";
import type { Answers } from "./resume-plan.ts";

async function editAfterStop(scene: StoppedRun): Promise<void> {
  await stopDuring(scene, "agent");
  scene.worktree().write("mine.txt", "by a person\n");
}

describe("apply resume", () => {
  const dropWorktree = (scene: StoppedRun): void => rmSync(scene.worktree().root, { recursive: true });
  const filesOf = (scene: StoppedRun): Readonly<Record<string, string>> => readWorktree(scene.worktree().root);
  const notesOf = async (scene: StoppedRun): Promise<readonly string[]> => {
    const entries = await Array.fromAsync(scene.store.readJournal({ run: RUN }));
    return entries.flatMap(({ kind, body }) => (kind === "note" ? [String(body["text"])] : []));
  };
  const accept = (...kinds: readonly (keyof Answers)[]): { readonly answers: Answers } => ({
    answers: Object.fromEntries(kinds.map((kind) => [kind, "accept"])),
  });

  describe("missing parts are restored", () => {
    test("a deleted worktree: with the files of the newest checkpoint, uncommitted ones too", async () => {
      const scene = await createStoppedRun();
      const before = filesOf(scene);
      dropWorktree(scene);
      expect((await scene.resume()).plan.kind).toBe("warn");
      expect(filesOf(scene)).toEqual(before);
      expect(scene.worktree().git("symbolic-ref", "HEAD").trim()).toBe(`refs/heads/${BRANCH}`);
      expect(await scene.found()).toEqual([]);
      expect(await notesOf(scene)).toEqual([expect.stringContaining("is gone: accepted by policy")]);
    });

    test("a pruned worktree too, with its branch, from our refs alone", async () => {
      const scene = await createStoppedRun();
      scene.worktree().write("only-here.txt", "committed nowhere else\n");
      scene.worktree().git("add", "-A");
      scene.worktree().git("commit", "-qm", "never pushed");
      await scene.save();
      const head = headOf(scene);
      const before = filesOf(scene);
      dropWorktree(scene);
      scene.repo.git("worktree", "prune");
      scene.repo.git("branch", "-q", "-D", BRANCH);
      scene.repo.git("reflog", "expire", "--expire=now", "--all");
      scene.repo.git("gc", "-q", "--prune=now");
      await scene.resume();
      expect(headOf(scene)).toBe(head);
      expect(filesOf(scene)).toEqual(before);
      expect(scene.worktree().git("status", "--porcelain")).toBe("");
      expect(await scene.found()).toEqual([]);
    });

    test("a worktree that lost its link to git: its files are kept", async () => {
      const scene = await createStoppedRun();
      const before = filesOf(scene);
      scene.worktree().write("work.txt", "half of something\n");
      rmSync(scene.worktree().path(".git"));
      expect((await scene.resume()).plan.kind).toBe("warn");
      expect(filesOf(scene)).toEqual(before);
      expect(scene.repo.git("for-each-ref", "--format=%(refname)", "refs/holdfast")).toContain("/kept/");
      expect(await scene.found()).toEqual([]);
    });

    test("a branch deleted under an existing worktree", async () => {
      const scene = await createStoppedRun();
      const head = headOf(scene);
      scene.repo.git("update-ref", "-d", `refs/heads/${BRANCH}`);
      await scene.resume();
      expect(headOf(scene)).toBe(head);
      expect(scene.worktree().git("status", "--porcelain")).toBe("?? work.txt\n");
      expect(await scene.found()).toEqual([]);
    });

    test("steps that finished after the checkpoint stay finished, and an interrupted one stays interrupted", async () => {
      const scene = await createStoppedRun();
      await scene.append(
        { kind: "step.finished", body: { stageAttempt: 0, step: "time", result: "t", spent: null } },
        { kind: "step.started", body: { stageAttempt: 0, step: "agent", files: true, estimate: null } },
      );
      dropWorktree(scene);
      await scene.resume();
      expect((await scene.newest()).planes.position.stageAttempt).toMatchObject({
        steps: { time: "t" },
        running: { agent: { files: true, base: 1 } },
      });
    });

    test("an unfinished restore is finished completely, with the position", async () => {
      const scene = await createStoppedRun();
      scene.worktree().write("work.txt", "second\n");
      await scene.save({ round: 2 });
      await scene.append({ kind: "restore.started", body: { target: `${RUN}@1`, paths: null } });
      scene.worktree().write("work.txt", "half of each\n");
      await scene.resume();
      expect(scene.worktree().read("work.txt")).toBe("half done\n");
      expect((await scene.newest()).planes.context.values["round"]).toBeUndefined();
      expect((await scene.store.getRun(RUN))?.unfinishedRestore).toBeNull();
      expect(await scene.found()).toEqual([]);
    });
  });

  describe("changes are accepted once", () => {
    test("an accepted issue text is the run's task, its diff is added to the feedback, and nothing is asked again", async () => {
      const scene = await createStoppedRun();
      await scene.save({}, (planes) => ({
        ...planes,
        position: { ...planes.position, feedback: "Tests are missing." },
      }));
      scene.forge.issue = { ...ISSUE, body: "Do it.\nNow.", labels: ["bug"] };
      expect((await scene.resume()).plan.kind).toBe("ask");
      expect((await scene.newest()).sequence).toBe(2);
      await scene.resume(accept("issue_body_changed"));
      const { planes } = await scene.newest();
      expect(planes.context.values["issue"]).toMatchObject({ body: "Do it.\nNow.", labels: ["bug"], number: 42 });
      expect(planes.inputs.issue).toMatchObject({ body: "Do it.\nNow." });
      expect(planes.position.feedback).toMatch(/^Tests are missing\.\n\n/);
      expect(planes.position.feedback).toContain("- Soon.\n+ Now.");
      expect(await scene.found()).toEqual([]);
      expect(await notesOf(scene)).toEqual([
        expect.stringContaining("The body of Issue 42 has changed: accepted"),
        expect.stringContaining("by policy"),
      ]);
    });

    test("workflow, model and tools", async () => {
      const scene = await createStoppedRun();
      const current = { definition: "shape-2", config: { ...scene.current.config, model: "other", tools: ["shell"] } };
      expect((await scene.plan({ current })).plan.kind).toBe("ask");
      await scene.resume({ current, ...accept("workflow_changed") });
      expect((await scene.newest()).planes).toMatchObject({
        position: { definition: "shape-2" },
        config: current.config,
      });
      expect((await scene.plan({ current })).findings).toEqual([]);
    });

    test("commits and files of a person", async () => {
      const scene = await createStoppedRun();
      scene.worktree().write("work.txt", "by a person\n");
      scene.worktree().git("commit", "-q", "--allow-empty", "-m", "by a person");
      expect((await scene.resume()).plan.kind).toBe("ask");
      await scene.resume(accept("head_moved"));
      expect(scene.worktree().read("work.txt")).toBe("by a person\n");
      expect((await scene.newest()).planes.files?.head).toBe(headOf(scene));
      expect(await scene.found()).toEqual([]);
    });

    test("files restored on request, with the replaced ones in a checkpoint", async () => {
      const scene = await createStoppedRun();
      scene.worktree().write("work.txt", "by a person\n");
      await scene.resume({ answers: { files_changed: "put_back" } });
      expect(scene.worktree().read("work.txt")).toBe("half done\n");
      const [restored, before] = await scene.store.listCheckpoints({ run: RUN });
      expect([restored?.trigger, before?.trigger]).toEqual(["restore", "before_restore"]);
      expect(scene.repo.git("show", `${before?.tree ?? ""}:work.txt`)).toBe("by a person\n");
      expect(await scene.found()).toEqual([]);
    });

    test("edits after a clean stop in a step: accepted, the step begins from them", async () => {
      const scene = await createStoppedRun();
      await editAfterStop(scene);
      expect((await scene.resume()).plan.kind).toBe("ask");
      await scene.resume(accept("files_changed"));
      const { sequence, planes } = await scene.newest();
      expect(planes.position.stageAttempt.running).toMatchObject({ agent: { files: true, base: sequence } });
      expect(await scene.found()).toEqual([]);
      expect(["half.txt", "mine.txt"].map((path) => scene.worktree().read(path))).toEqual(["half\n", "by a person\n"]);
      // Killed before the step began: later edits are the user's too.
      scene.worktree().write("mine.txt", "more by a person\n");
      expect((await scene.resume()).plan.kind).toBe("ask");
    });

    test("put back, such edits are in a checkpoint and the step keeps its base", async () => {
      const scene = await createStoppedRun();
      await editAfterStop(scene);
      await scene.resume({ answers: { files_changed: "put_back" } });
      const [restored, before] = await scene.store.listCheckpoints({ run: RUN });
      expect([restored?.trigger, before?.trigger]).toEqual(["restore", "before_restore"]);
      expect(scene.repo.git("show", `${before?.tree ?? ""}:mine.txt`)).toBe("by a person\n");
      expect((await scene.newest()).planes.position.stageAttempt.running).toMatchObject({ agent: { base: 1 } });
    });

    test.each(["base_moved", "issue_missing", "remote_branch_missing"] as const)(
      "changes that no plane can hold are recorded: %s",
      async (kind) => {
        const scene = await createStoppedRun();
        if (kind === "issue_missing") scene.forge.issue = null;
        if (kind === "remote_branch_missing") await scene.save({ pushed: headOf(scene) });
        if (kind === "base_moved") {
          scene.repo.git("commit", "-q", "--allow-empty", "-m", "upstream");
          scene.repo.git("push", "-q", "origin", "main");
        }
        await scene.resume(accept(kind));
        const { findings, plan } = await scene.plan();
        expect(findings.map((finding) => finding.kind)).toEqual([kind]);
        expect(plan).toMatchObject({ kind: "resume", actions: [], judgements: [{ decision: "accepted_before" }] });
        const sequence = (await scene.newest()).sequence;
        await scene.resume();
        expect((await scene.newest()).sequence).toBe(sequence);
      },
    );
  });

  describe("changes by other users", () => {
    test("force-pushed: both tips are kept before the answer; accepted, the next push may replace exactly that tip", async () => {
      const scene = await createStoppedRun();
      scene.worktree().git("push", "-q", "origin", BRANCH);
      const ours = headOf(scene);
      await scene.save({ pushed: ours });
      const theirs = forcePush(scene);
      expect((await scene.resume()).plan.kind).toBe("ask");
      const kept = scene.repo.git("for-each-ref", "--format=%(objectname)", `refs/holdfast/${RUN}/kept/`).trim();
      expect(kept.split("\n").toSorted()).toEqual([ours, theirs].toSorted());
      expect((await scene.newest()).sequence).toBe(2);
      await scene.resume(accept("branch_diverged"));
      expect((await scene.newest()).planes.context.values["pushed"]).toBe(theirs);
      expect((await scene.plan()).plan.kind).toBe("resume");
      expect(headOf(scene)).toBe(ours);
    });

    test("merged meanwhile: done, with the current files in a last checkpoint; a second resume succeeds and does nothing", async () => {
      const scene = await createStoppedRun();
      await scene.save({ pullRequest: { number: 7, url: "local:7" } });
      scene.worktree().write("note.txt", "left over\n");
      scene.forge.request = mergedRequest(headOf(scene));
      expect((await scene.resume()).plan).toMatchObject({ kind: "done", why: expect.stringContaining("was merged") });
      const run = await scene.store.getRun(RUN);
      expect(run?.state.kind).toBe("done");
      expect(scene.repo.git("show", `${(await scene.newest()).tree ?? ""}:note.txt`)).toBe("left over\n");
      expect((await scene.resume()).plan).toMatchObject({ kind: "done", actions: [] });
      expect((await scene.store.getRun(RUN))?.entries).toBe(run?.entries);
    });

    test("merged and the worktree removed: done, and nothing is created again", async () => {
      const scene = await createStoppedRun();
      await scene.save({ pullRequest: { number: 7, url: "local:7" } });
      scene.forge.request = mergedRequest(headOf(scene));
      dropWorktree(scene);
      await scene.resume();
      expect((await scene.store.getRun(RUN))?.state.kind).toBe("done");
      expect(await scene.workspaces.find(RUN)).toBeUndefined();
    });
  });

  describe("going back", () => {
    test("to a chosen checkpoint of a failed run, by force: reopened, with the spent budget and a new stage attempt", async () => {
      const scene = await createStoppedRun();
      scene.worktree().write("work.txt", "worse\n");
      await scene.save({ round: 2 }, (planes) => ({
        ...planes,
        position: { ...planes.position, stageAttempt: { ...planes.position.stageAttempt, number: 9 } },
      }));
      await scene.append({ kind: "run.ended", body: { outcome: "failed", reason: "no progress" } });
      expect((await scene.resume()).plan).toMatchObject({
        kind: "refuse",
        why: expect.stringContaining("no progress"),
      });
      await scene.resume({ chosen: 1, force: true });
      expect((await scene.store.getRun(RUN))?.state).toEqual({ kind: "active" });
      expect(scene.worktree().read("work.txt")).toBe("half done\n");
      const { planes } = await scene.newest();
      expect(planes.context.values["round"]).toBeUndefined();
      expect(planes.position.stageAttempt.number).toBe(10);
      expect(await scene.found()).toEqual([]);
    });

    test("git objects of the newest checkpoint missing: falls back to the newest intact one, reports it, and quarantines the other", async () => {
      const scene = await createStoppedRun();
      scene.worktree().write("work.txt", "lost\n");
      const lost = await scene.save({ round: 2 });
      const blob = scene.repo.git("rev-parse", `${lost.tree ?? ""}:work.txt`).trim();
      rmSync(scene.repo.path(`.git/objects/${blob.slice(0, 2)}/${blob.slice(2)}`));
      scene.worktree().write("work.txt", "half done\n");
      const { plan } = await scene.resume();
      expect(plan).toMatchObject({ kind: "warn", actions: [{ kind: "quarantine", sequence: 2 }, { kind: "go_back" }] });
      const newest = await scene.newest();
      expect(newest.planes.context.values["round"]).toBeUndefined();
      const journal = (await Array.fromAsync(scene.store.readJournal({ run: RUN }))).map((entry) => entry.kind);
      expect(journal).toContain("checkpoint.quarantined");
      expect(await notesOf(scene)).toContainEqual(expect.stringContaining("goes back to checkpoint 1"));
      expect(await scene.found()).toEqual([]);
    });
  });

  test("an outdated plan is not applied", async () => {
    const scene = await createStoppedRun();
    scene.forge.issue = { ...ISSUE, body: "Other." };
    const planned = await scene.plan(accept("issue_body_changed"));
    await scene.save({ round: 2 });
    await expect(scene.perform(planned)).rejects.toMatchObject({ code: "CONFLICT" });
    expect((await scene.newest()).sequence).toBe(2);
  });

  test("a finding that asks changes nothing", async () => {
    const scene = await createStoppedRun();
    scene.forge.issue = null;
    const before: Checkpoint = await scene.newest();
    const entries = (await scene.store.getRun(RUN))?.entries;
    await scene.resume();
    expect(await scene.newest()).toEqual(before);
    expect((await scene.store.getRun(RUN))?.entries).toBe(entries);
  });
});

describe("resume killed", () => {
  const dropWorktree = (scene: StoppedRun): void => rmSync(scene.worktree().root, { recursive: true });
  const filesOf = (scene: StoppedRun): Readonly<Record<string, string>> => readWorktree(scene.worktree().root);
  const accept = (...kinds: readonly (keyof Answers)[]): { readonly answers: Answers } => ({
    answers: Object.fromEntries(kinds.map((kind) => [kind, "accept"])),
  });

  describe("killed anywhere and resumed, it ends with the same result", () => {
    interface Case {
      readonly name: string;
      readonly prepare: (scene: StoppedRun) => Promise<void> | void;
      readonly resume: SceneResume;
      /** The minimum number of kills on the way. */
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
        name: "edits after a clean stop in a step, accepted",
        resume: accept("files_changed"),
        least: 2,
        prepare: editAfterStop,
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

    /** What must be equal, however often the resume was started. */
    async function outcome(scene: StoppedRun): Promise<unknown> {
      const { planes } = await scene.newest();
      const run = await scene.store.getRun(RUN);
      const { stageAttempt, ...position } = planes.position;
      return {
        files: filesOf(scene),
        tree: planes.files?.tree,
        head: planes.files?.head,
        branch: planes.files?.branch,
        position,
        steps: stageAttempt.steps,
        values: planes.context.values,
        inputs: planes.inputs,
        extensions: planes.extensions,
        state: run?.state.kind,
        unfinished: run?.unfinishedRestore,
        findings: run?.state.kind === "done" ? [] : (await scene.plan()).plan,
      };
    }

    test.each(cases)("$name", async ({ prepare, resume, least }) => {
      const whole = await createStoppedRun();
      await prepare(whole);
      await whole.resume(resume);
      const expected = await outcome(whole);
      const scene = await createStoppedRun();
      await prepare(scene);
      let deaths = 0;
      // Each process that continues after a kill is killed too: twice after the same number of changes, or once if that changed nothing.
      let changes = 1;
      for (let second = false; ;) {
        const before = await traces(scene);
        // The check only reads, so only applying the plan is killed.
        const planned = await scene.plan(resume);
        const dying = dyingParts(scene.adapters, changes + 1);
        await scene.perform(planned, dying.adapters).catch((error: unknown) => {
          if (!(error instanceof ProcessKilled)) throw error;
        });
        if (!dying.died()) break;
        deaths += 1;
        second = !second && (await traces(scene)) !== before;
        if (!second) changes += 1;
      }
      expect(deaths).toBeGreaterThanOrEqual(least);
      expect(comparable(await outcome(scene), scene)).toEqual(comparable(expected, whole));
    });

    /** Everything that a resume leaves in store, refs, worktrees and files. */
    async function traces(scene: StoppedRun): Promise<string> {
      const run = await scene.store.getRun(RUN);
      const there = await scene.workspaces.find(RUN);
      const files = there === undefined ? null : filesOf(scene);
      return JSON.stringify([run?.entries, scene.repo.git("for-each-ref"), scene.repo.git("worktree", "list"), files]);
    }

    /** Normalizes what differs between scenes: folders, times a second apart, and longer durations after kills. */
    function comparable(value: unknown, scene: StoppedRun): unknown {
      let text = JSON.stringify(value).replaceAll(scene.repo.root, "ROOT");
      for (const line of scene.repo.git("log", "--branches", "--format=%H %s").trim().split("\n"))
        text = text.replaceAll(line.slice(0, 40), line.slice(41));
      return JSON.parse(text, (key, part: unknown) => (key === "milliseconds" ? "passed" : part));
    }
  });
});
