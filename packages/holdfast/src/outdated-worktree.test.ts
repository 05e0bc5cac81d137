import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Adapters } from "@holdfast/core/adapters";
import { defineWorkflow } from "@holdfast/core/workflow";
import { startCommitted } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { type OpenParams, openHoldfast } from "./open.ts";

const git = (cwd: string, ...args: readonly string[]): string =>
  execFileSync("git", args, { cwd, encoding: "utf8" }).trim();

/** Each stage commits a file, leaves another one uncommitted, and asks. */
const turns = defineWorkflow({
  name: "turns",
  initial: "first",
  stages: Object.fromEntries(
    (["first", "second", "third"] as const).map((stage, at, all) => [
      stage,
      async ({ step, decide, workspace }: Parameters<Parameters<typeof defineWorkflow>[0]["stages"][string]>[0]) => {
        const root = workspace?.root ?? "";
        const change = (): null => {
          writeFileSync(join(root, `${stage}.txt`), `${stage}\n`);
          git(root, "add", "-A");
          git(root, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", stage);
          writeFileSync(join(root, "open.txt"), `${stage}\n`);
          return null;
        };
        await step("change", change, { changesFiles: true });
        await decide({ name: "next", question: "Continue?", options: ["yes"] });
        return { event: all[at + 1] ?? "end", reason: stage };
      },
    ]),
  ),
  transitions: { first: { second: "second" }, second: { third: "third" }, third: { end: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
});

test("a worktree that is older than the run is brought to its newest checkpoint, and what it had is kept", async () => {
  const folder = scratchDirectory(onTestFinished);
  const remote = join(folder, "remote.git");
  const origin = startCommitted({ "README.md": "hello\n" });
  onTestFinished(() => origin.dispose());
  git(folder, "clone", "-q", "--bare", origin.root, remote);
  const clones = ["here/shop", "there/shop"].map((name) => {
    git(folder, "clone", "-q", remote, name);
    return join(folder, name);
  });
  const [here = "", there = ""] = clones;
  const open = (cwd: string, more: Pick<OpenParams, "adapters"> = {}) =>
    openHoldfast({
      ...more,
      cwd,
      store: join(folder, "store"),
      filesRemote: "origin",
      forge: { kind: "none", path: null },
    });
  const worktree = join(folder, "here/shop-worktrees/r");

  {
    await using holdfast = await open(here);
    const { outcome } = await holdfast.start({ workflow: turns, work: { kind: "none" }, id: "r" });
    expect(outcome).toMatchObject({ kind: "waiting", for: "you" });
  }
  {
    await using holdfast = await open(there);
    await holdfast.work.approve({ run: "r", answer: "yes", by: "eva" });
    const { findings } = await holdfast.work.preflight({ run: "r", workflow: turns });
    expect(findings.map(({ summary }) => summary)).toEqual([
      "The branch holdfast/r is in another clone, not in this one",
      "The worktree is in another clone, not in this one",
    ]);
    expect((await holdfast.resume({ run: "r", workflow: turns })).outcome).toMatchObject({ kind: "waiting" });
  }
  // Meanwhile a user has changed a file here.
  writeFileSync(join(worktree, "mine.txt"), "mine\n");
  expect([git(worktree, "log", "-1", "--format=%s"), existsSync(join(worktree, "second.txt"))]).toEqual([
    "first",
    false,
  ]);
  {
    await using holdfast = await open(here);
    await holdfast.work.approve({ run: "r", answer: "yes", by: "eva" });
    const planned = await holdfast.work.preflight({ run: "r", workflow: turns });
    expect(planned.findings.map(({ kind }) => kind)).toEqual(["worktree_outdated"]);
    expect(planned.plan).toMatchObject({ kind: "warn", actions: [{ kind: "refresh_worktree" }] });
  }
  {
    // A process that ends before it has placed the files leaves a restore that the next one finishes.
    await using holdfast = await open(here, { adapters: withoutRestore });
    await expect(holdfast.resume({ run: "r", workflow: turns })).rejects.toThrow("killed");
    expect(existsSync(join(worktree, "second.txt"))).toBe(false);
  }
  {
    await using holdfast = await open(here);
    expect((await holdfast.resume({ run: "r", workflow: turns })).outcome).toMatchObject({ kind: "waiting" });
    // From now on the worktree here is the run's.
    expect((await holdfast.work.preflight({ run: "r", workflow: turns })).findings).toEqual([]);
  }
  expect(git(worktree, "log", "-3", "--format=%s")).toBe("third\nsecond\nfirst");
  expect(git(worktree, "status", "--porcelain")).toBe("M open.txt");
  expect(readFileSync(join(worktree, "open.txt"), "utf8")).toBe("third\n");
  const kept = git(here, "for-each-ref", "--format=%(refname)", "refs/holdfast/r")
    .split("\n")
    .filter((ref) => !ref.endsWith("-index"));
  expect(kept.some((ref) => git(here, "ls-tree", "--name-only", ref).split("\n").includes("mine.txt"))).toBe(true);
});

test("the limits of a run are raised in a clone without its files, which are fetched; without a remote nothing changes", async () => {
  const folder = scratchDirectory(onTestFinished);
  const origin = startCommitted({ "README.md": "hello\n" });
  onTestFinished(() => origin.dispose());
  git(folder, "clone", "-q", "--bare", origin.root, "remote.git");
  for (const name of ["here", "there"]) git(folder, "clone", "-q", join(folder, "remote.git"), name);
  const open = (clone: string, filesRemote: string | null) =>
    openHoldfast({
      cwd: join(folder, clone),
      store: join(folder, "store"),
      ...(filesRemote === null ? {} : { filesRemote }),
      forge: { kind: "none", path: null },
    });
  {
    await using holdfast = await open("here", "origin");
    const { outcome } = await holdfast.start({ workflow: turns, work: { kind: "none" }, id: "r" });
    expect(outcome).toMatchObject({ kind: "waiting", for: "you" });
  }
  const submission = { queue: "q", repository: "shop", priority: 0, needs: [], host: null, at: null };
  {
    await using holdfast = await open("there", null);
    const before = await holdfast.status("r");
    await expect(holdfast.work.resubmit("r", submission, { tokens: 5 })).rejects.toMatchObject({
      code: "TREE_MISSING",
      hint: expect.stringContaining("holdfast store push r"),
    });
    const { run, budget } = await holdfast.status("r");
    expect([run.checkpoints, budget?.limit]).toEqual([before.run.checkpoints, before.budget?.limit]);
  }
  await using holdfast = await open("there", "origin");
  await holdfast.work.resubmit("r", submission, { tokens: 5 });
  expect((await holdfast.status("r")).budget?.limit).toMatchObject({ tokens: 5 });
});

function withoutRestore(adapters: Adapters): Adapters {
  const { workspaces } = adapters;
  if (workspaces === null) return adapters;
  const applyRestore = async (): Promise<never> => {
    throw new Error("killed");
  };
  const find: typeof workspaces.find = async (run) => {
    const found = await workspaces.find(run);
    return found === undefined ? undefined : { ...found, applyRestore };
  };
  return { ...adapters, workspaces: { ...workspaces, find } };
}
