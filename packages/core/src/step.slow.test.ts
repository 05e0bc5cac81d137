import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, type State, begin, define, worked } from "@holdfast/test-support/core/work-bench";
import { readWorktree } from "@holdfast/test-support/git/repository";
import { RunHandle, runById } from "./run-handle.ts";
import type { StageFunction } from "./workflow.ts";

const FILES = { changesFiles: true };

test("a step that changes files: its result and the files are one commit; failed or killed, the files are put back", async () => {
  const { adapters, go, crash, workspace, file, store } = await startTestRunInWorktree();
  const runs: string[] = [];
  let fails = true;
  const work: StageFunction<State> = async ({ step }) => {
    await step("one", () => file("one.txt", "1") && runs.push("one"), FILES);
    await step(
      "two",
      () => {
        runs.push("two");
        expect(file("two.txt")).toBe(false);
        file("two.txt", "2");
        if (fails) throw new Error("half-way");
        return 2;
      },
      FILES,
    );
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work });
  await begin(adapters, workflow, workspace);
  await expect(go(workflow)).rejects.toThrow("half-way");
  expect([file("one.txt"), file("two.txt")]).toEqual([true, false]);
  fails = false;
  // Commits: 1 is step.started of two, 2 is its end.
  expect(await crash(workflow, 2, "before")).toBe("died");
  expect(file("two.txt")).toBe(true);
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect(runs).toEqual(["one", "two", "two", "two"]);
  const triggers = (await store.listCheckpoints({ run: ID })).map(({ trigger }) => trigger).toReversed();
  expect(triggers.join(" ")).toBe(
    "stage automatic error_recovery restore error_recovery restore automatic stage stage",
  );
});

test("killed in the step, then after the files were put back but not recorded, then in the step again: it is done once", async () => {
  const { adapters, go, crash, workspace, file, store } = await startTestRunInWorktree();
  const work: StageFunction<State> = async ({ step }) => {
    const add = (): null => {
      appendFileSync(join(workspace.root, "log.txt"), "x");
      return null;
    };
    await step("add", add, FILES);
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work });
  await begin(adapters, workflow, workspace);
  // Commits: 1 is step.started, 2 is its end.
  expect(await crash(workflow, 2, "before")).toBe("died");
  // Commits: 1 saves the half-done files, 2 records that the files are restored.
  expect(await crash(workflow, 2, "before")).toBe("died");
  expect(file("log.txt")).toBe(false);
  // Commits: 1 records that the files are restored, 2 is step.started, 3 is its end.
  expect(await crash(workflow, 3, "before")).toBe("died");
  expect(file("log.txt")).toBe(true);
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect(readFileSync(join(workspace.root, "log.txt"), "utf8")).toBe("x");
  expect((await store.getRun(ID))?.unfinishedRestore).toBeNull();
});

test("a step that moved the branch is not reverted", async () => {
  const { adapters, go, crash, workspace, file, tree } = await startTestRunInWorktree();
  const heads: string[] = [];
  const work: StageFunction<State> = async ({ step }) => {
    await step(
      "commit",
      () => {
        if (!file("c.txt")) {
          file("c.txt", "committed");
          tree.git("add", "-A");
          tree.git("commit", "-qm", "c");
        }
        heads.push(tree.git("rev-parse", "HEAD"));
        return null;
      },
      FILES,
    );
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work });
  await begin(adapters, workflow, workspace);
  expect(await crash(workflow, 2, "before")).toBe("died");
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect(new Set(heads).size).toBe(1);
  expect(tree.git("status", "--porcelain")).toBe("");
});

test("files of an earlier checkpoint are restored once, wherever the process dies", async () => {
  const wanted = new Set<string>();
  for (let at = 1, how = "died"; how === "died"; at += 1) {
    const { adapters, go, crash, workspace, file, store } = await startTestRunInWorktree();
    const workflow = define({
      work: async ({ step, restoreFiles }) => {
        await step("good", () => file("good.txt", "good"), FILES);
        await step("bad", () => file("bad.txt", "bad"), FILES);
        const { tree } = await restoreFiles("best", { sequence: 2 });
        wanted.add(tree);
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(adapters, workflow, workspace);
    how = await crash(workflow, at, at % 2 === 0 ? "before" : "after");
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(Object.keys(readWorktree(workspace.root)).toSorted()).toEqual([".gitignore", "a.txt", "good.txt"]);
    expect((await store.latest(ID))?.tree).toBe([...wanted][0]);
    expect((await store.getRun(ID))?.unfinishedRestore).toBeNull();
    // The restore covers files only: a resume that finishes it must not rewind the run's position.
    for await (const { kind, body } of store.readJournal({ run: ID }))
      if (kind === "restore.started") expect(body["paths"]).toEqual(["."]);
  }
  expect(wanted.size).toBe(1);
});

test("a fork restores the files of a checkpoint of its parent, wherever the process dies", async () => {
  for (let at = 1, how = "died"; how === "died"; at += 1) {
    const { adapters, go, crash, workspace, workspaces, store } = await startTestRunInWorktree();
    let asks = true;
    const work: StageFunction<State> = async ({ run, step, restoreFiles, wait }) => {
      const root = async (): Promise<string> => (await workspaces.find(run.id))?.root ?? "";
      const write = async (name: string) => {
        writeFileSync(join(await root(), name), "made\n");
        return name;
      };
      await step("good", () => write("good.txt"), FILES);
      const earlier = await step("earlier", async () => ({
        run: run.id,
        sequence: (await store.latest(run.id))?.sequence ?? 0,
      }));
      await step("bad", () => write("bad.txt"), FILES);
      if (asks) await wait({ for: "you", reason: "look" });
      await restoreFiles("best", earlier);
      return { event: "worked", reason: "did it" };
    };
    const workflow = define({ work });
    await begin(adapters, workflow, workspace);
    await go(workflow);
    const run = await store.createRun({ id: ID, workflow: "toy", work: { kind: "none" } });
    await using handle = new RunHandle(adapters, run);
    const { id } = await handle.fork({ sequence: (await store.latest(ID))?.sequence ?? 0, id: "forked" });
    const { root } = (await workspaces.find(id)) ?? { root: "" };
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    asks = false;
    how = await crash(workflow, at, at % 2 === 0 ? "before" : "after", id);
    expect(await go(workflow, { run: id })).toMatchObject({ kind: "done" });
    expect(Object.keys(readWorktree(root)).toSorted()).toEqual([".gitignore", "a.txt", "good.txt"]);
    expect((await store.getRun(id))?.unfinishedRestore).toBeNull();
  }
});

test("an unusable checkpoint is skipped and reported: the run continues before it, and so do its files", async () => {
  const { adapters, go, workspace, file, store } = await startTestRunInWorktree();
  const runs: string[] = [];
  let parks = true;
  const work: StageFunction<State> = async ({ step, wait }) => {
    await step("one", () => file("one.txt", "1") && runs.push("one"), FILES);
    await step("two", () => file("two.txt", "2") && runs.push("two"), FILES);
    await step("plain", () => runs.push("plain"));
    if (parks) await wait({ for: "you", reason: "look" });
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work });
  await begin(adapters, workflow, workspace);
  await go(workflow);
  await store.quarantine({ run: ID, sequences: [3, 4], reason: "damaged" });
  parks = false;
  const notes: string[] = [];
  const listen = (event: { readonly kind: string; readonly text?: string }) => void notes.push(event.text ?? "");
  expect(await go(workflow, { listen })).toMatchObject({ kind: "done" });
  expect(runs).toEqual(["one", "two", "plain", "two", "plain"]);
  expect(notes.join("\n")).toContain(`Put the files back to ${ID}@2`);
  const journal = await Array.fromAsync(store.readJournal({ run: ID }));
  const stageAttempts = journal.filter(({ kind }) => kind === "stage.entered").map(({ body }) => body["stageAttempt"]);
  expect(stageAttempts).toEqual([1, 3, 4]);
});

test("after a restore every stage attempt has a new number: old effects are not mistaken for new ones", async () => {
  const { adapters, go, workspace } = await startTestRunInWorktree();
  const keys: string[] = [];
  const work: StageFunction<State> = async ({ effect }) => {
    await effect({
      purpose: "notify",
      kind: "toy.notify",
      target: "outside",
      payload: null,
      lookUp: async () => ({ kind: "absent" }),
      act: async (key) => ({ kind: "done", receipt: keys.push(key) }),
    });
    return { event: "worked", reason: "did it" };
  };
  let parks = true;
  const check: StageFunction<State> = async ({ wait }) => {
    if (parks) await wait({ for: "you", reason: "look" });
    return { event: "passed", reason: "fine" };
  };
  const workflow = define({ work, check });
  await begin(adapters, workflow, workspace);
  await go(workflow);
  await using handle = new RunHandle(adapters, await runById(adapters, ID));
  await handle.restore({ sequence: 1 });
  await handle.close();
  parks = false;
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect(keys).toEqual([`${ID}/work/notify.1`, `${ID}/work/notify.3`]);
});

test("a run whose worktree is missing does not continue silently without its files", async () => {
  const { adapters, go, workspace, workspaces } = await startTestRunInWorktree();
  const workflow = define({ work: worked });
  await begin(adapters, workflow, workspace);
  await workspaces.remove({ run: ID, force: true });
  await expect(go(workflow)).rejects.toThrow(expect.objectContaining({ code: "WORKSPACE_MISSING" }));
});
