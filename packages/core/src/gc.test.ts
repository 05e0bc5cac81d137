import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, begin, define } from "@holdfast/test-support/core/work-bench";
import { applyGc, planGc } from "./gc.ts";
import { type RetentionPolicy, defaultRetention } from "./retention.ts";
import type { Store } from "./store.ts";
import { repair, verifyRun } from "./verify.ts";

const CALL = { role: "worker", prompt: "do", model: null, yolo: true } as const;
const DAY = 86_400_000;

/** A run with a side worktree that was open in one checkpoint and is merged in the next. */
async function merged() {
  const toy = await startTestRunInWorktree((task) => {
    writeFileSync(join(task.cwd, "x.txt"), "x\n");
    return {};
  });
  let stops = true;
  const workflow = define({
    work: async ({ sideWorktree, agent, checkpoint, mergeSideWorktree, wait }) => {
      const x = await sideWorktree("x");
      const { commit } = await agent({ ...CALL, name: "work", sideWorktree: x });
      await checkpoint({ trigger: "manual" });
      if (stops) await wait({ for: "you", reason: "look" });
      await mergeSideWorktree("merge", { sideWorktree: x, commit: commit ?? "" });
      return { event: "worked", reason: "did it" };
    },
  });
  await begin(toy.adapters, workflow, toy.workspace);
  await toy.go(workflow);
  const finish = (): Promise<unknown> => {
    stops = false;
    return toy.go(workflow);
  };
  const refs = async (): Promise<number> => (await toy.workspaces.sideWorktrees.refs()).length;
  return { ...toy, finish, refs };
}

const newestOnly: RetentionPolicy = {
  ...defaultRetention,
  perTrigger: Object.fromEntries(
    Object.keys(defaultRetention.perTrigger).map((trigger) => [trigger, { keep: 0, per: "run" }]),
  ) as RetentionPolicy["perTrigger"],
};

test("refs of side worktrees stay while a checkpoint names them, and go a day after the run's end", async () => {
  const toy = await merged();
  const sweep = async (policy?: RetentionPolicy) =>
    applyGc(toy.adapters, await planGc(toy.adapters, policy === undefined ? {} : { policy }));
  toy.pass(9 * DAY);
  await sweep();
  expect(await toy.refs()).toBe(2);
  expect(await toy.workspaces.sideWorktrees.list()).toHaveLength(1);
  await toy.finish();
  expect(await toy.workspaces.sideWorktrees.list()).toEqual([]);
  await sweep();
  expect(await toy.refs()).toBe(2);
  toy.pass(2 * DAY);
  // A checkpoint in which it was open is kept: it could be restored.
  await sweep();
  expect(await toy.refs()).toBe(2);
  const { unpinned } = await sweep(newestOnly);
  expect(unpinned.filter((ref) => ref.includes("/side/"))).toHaveLength(2);
  expect(await toy.refs()).toBe(0);
});

test("with an unreadable checkpoint, gc continues and keeps all that it may need", async () => {
  const toy = await merged();
  await toy.finish();
  toy.pass(2 * DAY);
  const damaged = new HoldfastError({ code: "STORE_CORRUPT", message: "its bytes do not match their digest" });
  const store = new Proxy(toy.store, {
    get(real, name: keyof Store) {
      if (name === "getCheckpoint") return () => Promise.reject(damaged);
      const member: unknown = real[name];
      return typeof member === "function" ? member.bind(real) : member;
    },
  });
  const adapters = { ...toy.adapters, store };
  const { unpinned } = await applyGc(adapters, await planGc(adapters, {}));
  expect(unpinned.filter((ref) => ref.includes("/side/"))).toEqual([]);
  expect(await toy.refs()).toBe(2);
});

test("gc removes the folder of an ended run, and not one of an unfinished run", async () => {
  const toy = await merged();
  const [left] = await toy.workspaces.sideWorktrees.list();
  toy.pass(2 * DAY);
  expect((await planGc(toy.adapters, {})).sideWorktrees).toEqual([]);
  const lease = await toy.store.takeLease({ run: ID, label: "test" });
  await toy.store.commit({ lease, entries: [{ kind: "run.ended", body: { outcome: "done" } }] });
  await toy.store.releaseLease(lease);
  toy.pass(2 * DAY);
  const plan = await planGc(toy.adapters, {});
  expect(plan.sideWorktrees).toEqual([left]);
  expect((await applyGc(toy.adapters, plan)).sideWorktrees).toEqual([left?.path]);
  expect(await toy.workspaces.sideWorktrees.list()).toEqual([]);
});

test("verify reports missing commits of a side worktree in a checkpoint, and pins those that lost their ref", async () => {
  const toy = await merged();
  const look = async () => Array.fromAsync(verifyRun(toy.adapters, {}));
  const codes = async () =>
    (await look()).flatMap((event) =>
      event.kind === "problem" ? [`${event.problem.code} ${event.problem.sequence}`] : [],
    );
  expect(await codes()).toEqual([]);
  // A checkpoint that is saved, with its ref, after verify has read the refs.
  let asked = 0;
  const refs: typeof toy.workspaces.refs = async (...given) =>
    (asked += 1) === 1 ? [] : toy.workspaces.refs(...given);
  const saving = { ...toy.adapters, ownsRefs: false, workspaces: { ...toy.workspaces, refs } };
  expect((await Array.fromAsync(verifyRun(saving, {}))).filter(({ kind }) => kind === "problem")).toEqual([]);
  await toy.workspaces.unpin((await toy.workspaces.sideWorktrees.refs()).map(({ ref }) => ref));
  const found = await codes();
  expect(found.length).toBeGreaterThan(0);
  expect(found.every((code) => code.startsWith("PIN_MISSING"))).toBe(true);
  await repair(toy.adapters, await look());
  expect([await codes(), await toy.refs()]).toEqual([[], 2]);
  await toy.workspaces.unpin((await toy.workspaces.sideWorktrees.refs()).map(({ ref }) => ref));
  const killed = new HoldfastError({ code: "GIT_FAILED", message: "git cat-file failed (signalled)" });
  const adapters = { ...toy.adapters, workspaces: { ...toy.workspaces, has: () => Promise.reject(killed) } };
  await expect(Array.fromAsync(verifyRun(adapters, {}))).rejects.toBe(killed);
  toy.tree.git("worktree", "remove", "--force", (await toy.workspaces.sideWorktrees.list())[0]?.path ?? "");
  toy.tree.git("-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now");
  expect((await codes()).every((code) => code.startsWith("TREE_MISSING"))).toBe(true);
  expect(await codes()).toHaveLength(found.length);
});
