import { execFileSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, type State, begin, define } from "@holdfast/test-support/core/work-bench";
import type { AgentCall, StageFunction } from "./workflow.ts";

const BRANCH = `refs/heads/holdfast/${ID}`;
const CALL: AgentCall = { name: "edit", role: "impl", prompt: "do it", model: null, yolo: false };
const calling =
  (call: Partial<AgentCall> = {}): StageFunction<State> =>
  async ({ agent }) => {
    await agent({ ...CALL, ...call });
    return { event: "worked", reason: "did it" };
  };

function git(root: string, ...args: readonly string[]): string {
  const who = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
  return execFileSync("git", [...who, ...args], { cwd: root, encoding: "utf8", stdio: "pipe" }).trim();
}

function commitFile(root: string, name: string): void {
  writeFileSync(join(root, name), "made\n");
  git(root, "add", name);
  git(root, "commit", "-qm", name);
}

describe("an agent that leaves the run's branch", () => {
  test.each([
    ["for another one", (root: string) => git(root, "switch", "-qc", "other")],
    ["for none", (root: string) => git(root, "checkout", "-q", "--detach")],
    [
      "and deletes it",
      (root: string) => {
        git(root, "switch", "-qc", "other");
        git(root, "branch", "-qD", `holdfast/${ID}`);
      },
    ],
  ])("%s: the run continues on its own branch, with the files that the agent made", async (_name, leave) => {
    const { adapters, store, go, workspace } = await startTestRunInWorktree((_task, root) => {
      leave(root);
      commitFile(root, "new.txt");
      return { text: "done" };
    });
    const workflow = define({ work: calling() });
    const tip = git(workspace.root, "rev-parse", "HEAD");
    await begin(adapters, workflow, workspace);
    await go(workflow);
    expect(git(workspace.root, "symbolic-ref", "HEAD")).toBe(BRANCH);
    expect(git(workspace.root, "rev-parse", "HEAD")).toBe(tip);
    expect(existsSync(join(workspace.root, "new.txt"))).toBe(true);
    const [saved] = await store.listCheckpoints({ run: ID, trigger: "agent_complete" });
    const { planes } = await store.getCheckpoint({ run: ID, sequence: saved?.sequence ?? 0 });
    expect(planes.files).toMatchObject({ branch: BRANCH, head: tip });
  });

  test("and is killed: the run is on its own branch again before anything is put back", async () => {
    let calls = 0;
    const { adapters, go, crash, workspace } = await startTestRunInWorktree((_task, root) => {
      calls += 1;
      if (calls === 1) git(root, "switch", "-qc", "other");
      return { text: "done" };
    });
    const workflow = define({ work: calling() });
    await begin(adapters, workflow, workspace);
    expect(await crash(workflow, 2, "before")).toBe("died");
    git(workspace.root, "switch", "-q", "other");
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(git(workspace.root, "symbolic-ref", "HEAD")).toBe(BRANCH);
  });

  test("and is killed with its git: stale locks of the run are removed at once and reported", async () => {
    let calls = 0;
    const { adapters, go, crash, store, workspace, repository } = await startTestRunInWorktree((_task, root) => {
      calls += 1;
      writeFileSync(join(root, "half.txt"), "half\n");
      return { text: "done" };
    });
    const workflow = define({ work: calling() });
    await begin(adapters, workflow, workspace);
    expect(await crash(workflow, 2, "before")).toBe("died");
    const gitDir = git(workspace.root, "rev-parse", "--absolute-git-dir");
    writeFileSync(join(workspace.root, "a.txt"), "half written\n");
    const stale = [join(gitDir, "index.lock"), join(gitDir, "HEAD.lock"), repository.path(`.git/${BRANCH}.lock`)];
    const users = [repository.path(".git/index.lock"), repository.path(".git/refs/heads/main.lock")];
    for (const lock of [...stale, ...users]) writeFileSync(lock, "");
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect([...stale, ...users].map((lock) => existsSync(lock))).toEqual([false, false, false, true, true]);
    const notes: string[] = [];
    for await (const { kind, body } of store.readJournal({ run: ID }))
      if (kind === "note") notes.push(String(body["text"]));
    expect(notes).toContainEqual(expect.stringContaining(`Removed 3 stale git locks of a process that was killed`));
    for (const lock of stale) expect(notes.join("\n")).toContain(lock);
    expect(calls).toBe(2);
  });

  test.each([
    ["deleting .git", () => undefined],
    ["making a repository of its own there", (root: string) => git(root, "init", "-q")],
  ])("by %s", async (_name, replace) => {
    const { adapters, go, workspace } = await startTestRunInWorktree((_task, root) => {
      rmSync(join(root, ".git"));
      replace(root);
      writeFileSync(join(root, "new.txt"), "made\n");
      return { text: "done" };
    });
    const workflow = define({ work: calling() });
    await begin(adapters, workflow, workspace);
    await go(workflow);
    expect(git(workspace.root, "symbolic-ref", "HEAD")).toBe(BRANCH);
    expect(git(workspace.root, "status", "--porcelain")).toBe("?? new.txt");
  });

  test.each([
    ["a rebase", ["rebase", "-q", "theirs"]],
    ["a merge", ["merge", "-q", "theirs"]],
    ["a cherry-pick", ["cherry-pick", "theirs"]],
  ])("with %s in progress: it is aborted in place, and the files are kept", async (_name, begun) => {
    const { adapters, go, workspace } = await startTestRunInWorktree((_task, root) => {
      git(root, "branch", "theirs");
      commitFile(root, "a.txt");
      git(root, "switch", "-q", "theirs");
      writeFileSync(join(root, "a.txt"), "theirs\n");
      git(root, "commit", "-qam", "theirs");
      git(root, "switch", "-q", `holdfast/${ID}`);
      expect(() => git(root, ...begun)).toThrow();
      return { text: "done" };
    });
    const workflow = define({
      work: async (context) => {
        await context.agent(CALL);
        await context.restoreFiles("back", { sequence: 1 });
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(adapters, workflow, workspace);
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(git(workspace.root, "symbolic-ref", "HEAD")).toBe(BRANCH);
    expect(git(workspace.root, "status")).not.toMatch(/rebas|merg|cherry-pick/);
  });

  test("commits on it are its own work and stay", async () => {
    const { adapters, go, workspace } = await startTestRunInWorktree((_task, root) => {
      commitFile(root, "new.txt");
      return { text: "done" };
    });
    const workflow = define({ work: calling() });
    await begin(adapters, workflow, workspace);
    await go(workflow);
    expect(git(workspace.root, "log", "-1", "--format=%s")).toBe("new.txt");
  });
});

describe("an agent that must not change files", () => {
  test("and edits and commits: branch and files are put back, and its changes are saved", async () => {
    const { adapters, store, go, workspace } = await startTestRunInWorktree((_task, root) => {
      rmSync(join(root, "a.txt"));
      commitFile(root, "evil.txt");
      writeFileSync(join(root, "more.txt"), "more\n");
      return { text: "all is well" };
    });
    const workflow = define({ work: calling({ changesFiles: false }) });
    const tip = git(workspace.root, "rev-parse", "HEAD");
    await begin(adapters, workflow, workspace);
    await go(workflow);
    expect(git(workspace.root, "rev-parse", BRANCH)).toBe(tip);
    expect(git(workspace.root, "status", "--porcelain")).toBe("");
    const [saved] = await store.listCheckpoints({ run: ID, trigger: "error_recovery" });
    const { planes } = await store.getCheckpoint({ run: ID, sequence: saved?.sequence ?? 0 });
    expect(planes.files?.artifacts.map(({ path }) => path)).toContain("more.txt");
  });

  test("and checkpoints are taken meanwhile, by any process: its changes are reverted all the same", async () => {
    let save = (): Promise<void> => Promise.resolve();
    const { adapters, go, workspace } = await startTestRunInWorktree(async (_task, root) => {
      await save();
      writeFileSync(join(root, "more.txt"), "more\n");
      await save();
      return { text: "all is well" };
    });
    const workflow = define({
      work: (context) => {
        save = () => context.checkpoint({ trigger: "manual" });
        return calling({ changesFiles: false })(context);
      },
    });
    await begin(adapters, workflow, workspace);
    await go(workflow);
    expect(git(workspace.root, "status", "--porcelain")).toBe("");
  });

  test("and changes nothing: no further checkpoint", async () => {
    const { adapters, store, go, workspace } = await startTestRunInWorktree();
    const workflow = define({ work: calling({ changesFiles: false }) });
    await begin(adapters, workflow, workspace);
    await go(workflow);
    expect(await store.listCheckpoints({ run: ID, trigger: "error_recovery" })).toEqual([]);
  });

  test("in parallel with one that may: changes of that one stay", async () => {
    const { adapters, go, workspace } = await startTestRunInWorktree(({ role }, root) => {
      if (role === "impl") commitFile(root, "new.txt");
      return { text: "done" };
    });
    const both: StageFunction<State> = async ({ agent }) => {
      await Promise.all([agent(CALL), agent({ ...CALL, name: "look", role: "review", changesFiles: false })]);
      return { event: "worked", reason: "did it" };
    };
    const workflow = define({ work: both });
    await begin(adapters, workflow, workspace);
    await go(workflow);
    expect(existsSync(join(workspace.root, "new.txt"))).toBe(true);
  });
});

test("an agent that removes its own worktree: reported with the command that restores it", async () => {
  const { adapters, go, workspace } = await startTestRunInWorktree((_task, root) => {
    rmSync(root, { recursive: true });
    return { text: "done" };
  });
  const workflow = define({ work: calling() });
  await begin(adapters, workflow, workspace);
  await expect(go(workflow)).rejects.toMatchObject({
    code: "WORKSPACE_MISSING",
    message: expect.stringContaining("while edit worked in it"),
    hint: expect.stringContaining(`holdfast resume ${ID}`),
  });
});
