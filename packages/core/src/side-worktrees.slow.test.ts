import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { type TestWorktree, startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, type State, begin, define } from "@holdfast/test-support/core/work-bench";
import type { AgentTask } from "./agent.ts";
import { runGraph } from "./run-graph.ts";
import { RunHandle } from "./run-handle.ts";
import type { AgentReport, SideWorktree, SideWorktreeMerged, StageContext, StageFunction } from "./workflow.ts";

const CALL = { role: "worker", prompt: "do", model: null, yolo: true } as const;
const DONE = { event: "worked", reason: "did it" } as const;

interface Seen {
  readonly sideWorktrees: SideWorktree[];
  readonly reports: AgentReport[];
  readonly merges: SideWorktreeMerged[];
}

const nothing = (): Seen => ({ sideWorktrees: [], reports: [], merges: [] });

/** Opens one side worktree per name, in parallel, and merges them in order. */
const sideBySide =
  (seen: Seen, names: readonly string[], between: (context: StageContext<State>) => Promise<void> = async () => {}) =>
  async (context: StageContext<State>): Promise<typeof DONE> => {
    const { sideWorktree, agent, mergeSideWorktree } = context;
    const sideWorktrees = await Promise.all(names.map((name) => sideWorktree(name)));
    const reports = await Promise.all(
      sideWorktrees.map((one) =>
        agent({ ...CALL, name: `work ${one.name}`, sideWorktree: one, env: { WHAT: one.name } }),
      ),
    );
    seen.sideWorktrees.push(...sideWorktrees);
    seen.reports.push(...reports);
    await between(context);
    for (const [at, one] of sideWorktrees.entries())
      seen.merges.push(
        await mergeSideWorktree(`merge ${one.name}`, { sideWorktree: one, commit: reports[at]?.commit ?? "" }),
      );
    return DONE;
  };

const writeOwn = (task: AgentTask) => {
  const name = task.env["WHAT"] ?? "";
  writeFileSync(join(task.cwd, `${name}.txt`), `${name}\n`);
  return { text: name };
};

async function started(work: StageFunction<State>, ...how: Parameters<typeof startTestRunInWorktree>) {
  const toy = await startTestRunInWorktree(...how);
  const workflow = define({ work });
  await begin(toy.adapters, workflow, toy.workspace);
  return { ...toy, workflow };
}

const inRun = (toy: TestWorktree, name: string): string | null => {
  const path = join(toy.workspace.root, name);
  return existsSync(path) ? readFileSync(path, "utf8") : null;
};

/** Every text that a pinned commit of a side worktree has under this name. */
async function pinned(toy: TestWorktree, name: string): Promise<readonly string[]> {
  const refs = await toy.workspaces.sideWorktrees.refs();
  return refs.flatMap(({ commit }) => {
    const listed = toy.tree.git("ls-tree", "--name-only", commit, "--", name);
    return listed === "" ? [] : [toy.tree.git("show", `${commit}:${name}`)];
  });
}

describe("agents in side worktrees", () => {
  test("three in parallel, each sees the run's files and nothing of the others; merged in order they are the run's", async () => {
    const seen = nothing();
    const others: boolean[] = [];
    const toy = await started(sideBySide(seen, ["x", "y", "z"]), (task) => {
      expect(readFileSync(join(task.cwd, "untracked.txt"), "utf8")).toBe("the run's\n");
      others.push(["x", "y", "z"].some((other) => existsSync(join(task.cwd, `${other}.txt`))));
      return writeOwn(task);
    });
    toy.file("untracked.txt", "the run's\n");
    await expect(toy.go(toy.workflow)).resolves.toMatchObject({ kind: "done" });
    expect(seen.merges).toEqual(["x", "y", "z"].map((name) => ({ kind: "merged", files: [`${name}.txt`] })));
    expect(seen.reports).toMatchObject([{ changed: true }, { changed: true }, { changed: true }]);
    expect(others).toEqual([false, false, false]);
    for (const name of ["x", "y", "z"]) expect(inRun(toy, `${name}.txt`)).toBe(`${name}\n`);
    expect(await toy.workspaces.sideWorktrees.list()).toEqual([]);
    expect(existsSync(dirname(seen.sideWorktrees[0]?.root ?? ""))).toBe(false);
  });

  test("a call in a side worktree takes no checkpoint of the run's files and leaves the run's conversation alone", async () => {
    const seen = nothing();
    const toy = await started(
      async (context) => {
        await context.agent({ ...CALL, name: "own" });
        return await sideBySide(seen, ["x"])(context);
      },
      (task) => {
        task.onEvent({ kind: "raw", line: `said in ${task.env["WHAT"] ?? "the run"}` });
        return writeOwn(task);
      },
    );
    await toy.go(toy.workflow);
    const checkpoints = await toy.store.listCheckpoints({ run: ID, limit: 20 });
    expect(checkpoints.map(({ trigger, name }) => `${trigger} ${name ?? ""}`.trim()).toReversed()).toEqual([
      "stage",
      "agent_complete own",
      "automatic merge x",
      "stage",
      "stage",
    ]);
    expect((await toy.store.latest(ID))?.planes.conversation?.transcript?.text).toBe("said in the run\n");
    expect(toy.logs.get("work x")).toEqual(["said in x"]);
  });

  test("an agent that writes into the run's own worktree: its changes are saved, named and reverted", async () => {
    const seen = nothing();
    const toy = await started(sideBySide(seen, ["x", "y"]), (task, root) => {
      if (task.env["WHAT"] === "x") {
        writeFileSync(join(root, "stray.txt"), "from x\n");
        writeFileSync(join(root, "a.txt"), "from x\n");
      }
      return writeOwn(task);
    });
    await expect(toy.go(toy.workflow)).resolves.toMatchObject({ kind: "done" });
    expect([inRun(toy, "stray.txt"), inRun(toy, "a.txt")]).toEqual([null, "one\n"]);
    expect(seen.merges).toEqual(["x", "y"].map((name) => ({ kind: "merged", files: [`${name}.txt`] })));
    const notes = (await Array.fromAsync(toy.store.readJournal({ run: ID }))).filter(({ kind }) => kind === "note");
    const [note] = notes.map(({ body }) => String(body["text"]));
    expect(note).toMatch(/changed while only .*work x.*: a\.txt, stray\.txt\. It is saved as /);
    const sequence = Number(/@(\d+)/.exec(note ?? "")?.[1]);
    const { planes } = await toy.store.getCheckpoint({ run: ID, sequence });
    expect(toy.tree.git("show", `${planes.files?.snapshot ?? ""}:stray.txt`)).toBe("from x\n");
  });

  test("a checkpoint meanwhile, another side worktree or a stop: nothing is built on such changes", async () => {
    const seen: string[] = [];
    let save = (): Promise<void> => Promise.resolve();
    let opened = (): void => {};
    const later = new Promise<void>((resolve) => {
      opened = resolve;
    });
    const stop = new AbortController();
    const toy = await started(
      async (context) => {
        const { sideWorktree, agent } = context;
        save = () => context.checkpoint({ trigger: "manual" });
        const x = await sideWorktree("x");
        const working = agent({ ...CALL, name: "work x", sideWorktree: x });
        await later;
        const y = await sideWorktree("y");
        if (existsSync(join(y.root, "stray.txt"))) seen.push("in another side worktree");
        stop.abort();
        await working;
        return DONE;
      },
      async (task, root) => {
        writeFileSync(join(root, "stray.txt"), "from x\n");
        await save();
        opened();
        await new Promise<void>((resolve) => task.signal.addEventListener("abort", () => resolve()));
        writeFileSync(join(root, "late.txt"), "from x\n");
        throw new Error("ended");
      },
    );
    await expect(toy.go(toy.workflow, { signal: stop.signal })).resolves.toMatchObject({ kind: "interrupted" });
    expect(seen).toEqual([]);
    expect([inRun(toy, "stray.txt"), inRun(toy, "late.txt")]).toEqual([null, null]);
    const newest = await toy.store.latest(ID);
    expect(toy.tree.git("ls-tree", "--name-only", newest?.planes.files?.tree ?? "")).toBe(".gitignore\na.txt\n");
  });

  test("files that are too large are named, on both sides", async () => {
    const seen = nothing();
    const toy = await started(sideBySide(seen, ["x"]), (task) => {
      expect(existsSync(join(task.cwd, "big"))).toBe(false);
      writeFileSync(join(task.cwd, "large"), "123456789");
      return writeOwn(task);
    });
    toy.file("big", "123456789");
    const adapters = { ...toy.adapters, maxUntrackedBytes: 5 };
    await toy.go(toy.workflow, { adapters });
    expect(seen.sideWorktrees[0]?.skipped).toMatchObject([{ path: "big", reason: "too_large", bytes: 9 }]);
    expect(seen.reports[0]?.sideWorktree?.skipped).toMatchObject([{ path: "large", bytes: 9 }]);
    expect(inRun(toy, "large")).toBe(null);
    expect(inRun(toy, "big")).toBe("123456789");
  });

  test("a conflict is a value that changes nothing; the side worktree stays until it is dropped, and can be continued", async () => {
    const merges: SideWorktreeMerged[] = [];
    const toy = await started(
      async ({ sideWorktree, agent, mergeSideWorktree, dropSideWorktree }) => {
        const sideWorktrees = [await sideWorktree("x"), await sideWorktree("y")] as const;
        const commits: string[] = [];
        for (const one of sideWorktrees) {
          const report = await agent({ ...CALL, name: `work ${one.name}`, sideWorktree: one, env: { WHAT: one.name } });
          commits.push(report.commit ?? "");
        }
        for (const [at, one] of sideWorktrees.entries())
          merges.push(await mergeSideWorktree(`merge ${one.name}`, { sideWorktree: one, commit: commits[at] ?? "" }));
        const [, second] = sideWorktrees;
        const fixed = await agent({ ...CALL, name: "fix y", sideWorktree: second, env: { WHAT: "fixed" } });
        merges.push(await mergeSideWorktree("merge fixed", { sideWorktree: second, commit: fixed.commit ?? "" }));
        const third = await sideWorktree("unused");
        await dropSideWorktree(third);
        expect(existsSync(third.root)).toBe(false);
        return DONE;
      },
      (task) => {
        const name = task.env["WHAT"] ?? "";
        if (name === "fixed") {
          expect(readFileSync(join(task.cwd, "a.txt"), "utf8")).toBe("y\n");
          writeFileSync(join(task.cwd, "a.txt"), "one\n");
          writeFileSync(join(task.cwd, "other.txt"), "y\n");
        } else writeFileSync(join(task.cwd, "a.txt"), `${name}\n`);
        return {};
      },
    );
    await toy.go(toy.workflow);
    expect(merges).toMatchObject([
      { kind: "merged", files: ["a.txt"] },
      { kind: "conflict", files: ["a.txt"], detail: expect.stringContaining("a.txt") },
      { kind: "merged", files: ["other.txt"] },
    ]);
    expect([inRun(toy, "a.txt"), inRun(toy, "other.txt")]).toEqual(["x\n", "y\n"]);
    expect(await toy.workspaces.sideWorktrees.list()).toEqual([]);
  });

  test("a side worktree opened during a merge has all of the merge or nothing of it", async () => {
    const names = Array.from({ length: 12 }, (_, at) => `m${at}.txt`);
    const seen: string[] = [];
    const toy = await started(
      async ({ sideWorktree, agent, mergeSideWorktree }) => {
        const x = await sideWorktree("x");
        const { commit } = await agent({ ...CALL, name: "work x", sideWorktree: x });
        const [, ...later] = await Promise.all([
          mergeSideWorktree("merge x", { sideWorktree: x, commit: commit ?? "" }),
          ...["p", "q"].map((name) => sideWorktree(name)),
        ]);
        for (const { root } of later) seen.push(...names.filter((name) => existsSync(join(root, name))));
        return DONE;
      },
      (task) => {
        for (const name of names) writeFileSync(join(task.cwd, name), "m\n");
        return {};
      },
    );
    await toy.go(toy.workflow);
    expect(seen).toEqual([...names, ...names]);
  });

  test("an ignored file where a new one is to go is a conflict", async () => {
    const seen = nothing();
    const toy = await started(sideBySide(seen, ["x"]), (task) => {
      writeFileSync(join(task.cwd, ".gitignore"), "");
      writeFileSync(join(task.cwd, ".tmp"), "now a file\n");
      return {};
    });
    toy.tree.write(".tmp/notes.txt", "mine\n");
    await toy.go(toy.workflow);
    expect(seen.merges).toMatchObject([{ kind: "conflict", files: [".tmp/notes.txt"] }]);
    expect(toy.tree.read(".tmp/notes.txt")).toBe("mine\n");
  });

  test("an invalid request is refused", async () => {
    const codes: unknown[] = [];
    const codeOf = (work: Promise<unknown>) =>
      work.then(
        () => "fine",
        (error: { code: string }) => error.code,
      );
    const toy = await started(
      async ({ sideWorktree, agent, step, mergeSideWorktree }) => {
        const x = await sideWorktree("x");
        codes.push(await codeOf(sideWorktree("x")));
        codes.push(await codeOf(agent({ ...CALL, name: "unknown", sideWorktree: { ...x, name: "never opened" } })));
        const works = [1, 2].map((at) => codeOf(agent({ ...CALL, name: `at once ${at}`, sideWorktree: x })));
        codes.push(...(await Promise.all(works)));
        const { promise, resolve } = Promise.withResolvers<null>();
        const writing = step("writes", () => promise, { changesFiles: true });
        codes.push(await codeOf(mergeSideWorktree("merge", { sideWorktree: x, commit: x.base })));
        resolve(null);
        await writing;
        codes.push(await codeOf(mergeSideWorktree("merge again", { sideWorktree: x, commit: "0".repeat(40) })));
        return DONE;
      },
      () => ({}),
    );
    await toy.go(toy.workflow);
    expect(codes).toEqual(["USAGE", "USAGE", "fine", "USAGE", "USAGE", "TREE_MISSING"]);
    expect(await toy.workspaces.sideWorktrees.list()).toEqual([]);
  });
});

describe("an interrupted call in a side worktree", () => {
  test("starts again from its beginning; its partial work stays pinned", async () => {
    const seen = nothing();
    const stop = new AbortController();
    let calls = 0;
    const toy = await started(sideBySide(seen, ["x", "y"]), async (task) => {
      calls += 1;
      if (task.env["WHAT"] === "x") {
        expect(existsSync(join(task.cwd, "half.txt"))).toBe(false);
        if (!stop.signal.aborted) {
          writeFileSync(join(task.cwd, "half.txt"), "half\n");
          stop.abort();
        }
      }
      return writeOwn(task);
    });
    toy.file("own.txt", "the run's own\n");
    await expect(toy.go(toy.workflow, { signal: stop.signal })).resolves.toMatchObject({ kind: "interrupted" });
    expect((await toy.workspaces.sideWorktrees.list()).length).toBe(2);
    await expect(toy.go(toy.workflow)).resolves.toMatchObject({ kind: "done" });
    expect(calls).toBeGreaterThanOrEqual(3);
    expect(seen.merges).toMatchObject([{ files: ["x.txt"] }, { files: ["y.txt"] }]);
    expect([inRun(toy, "half.txt"), inRun(toy, "own.txt")]).toEqual([null, "the run's own\n"]);
    expect(await pinned(toy, "half.txt")).toEqual(["half\n"]);
    expect(await toy.workspaces.sideWorktrees.list()).toEqual([]);
  });

  test("continues with its session and its files if the agent can", async () => {
    const seen = nothing();
    const sessions: (string | null)[] = [];
    const stop = new AbortController();
    const toy = await started(
      sideBySide(seen, ["x"]),
      (task) => {
        sessions.push(task.session);
        task.onEvent({ kind: "session", id: "s" });
        if (task.session === null) {
          writeFileSync(join(task.cwd, "half.txt"), "half\n");
          stop.abort();
        } else expect(readFileSync(join(task.cwd, "half.txt"), "utf8")).toBe("half\n");
        return { session: "s" };
      },
      { resume: true },
    );
    await toy.go(toy.workflow, { signal: stop.signal });
    const latest = await toy.store.latest(ID);
    expect(latest?.planes.position.stageAttempt).toMatchObject({
      sessions: { "work x": "s" },
      sideWorktrees: { "work x": "x" },
    });
    await toy.go(toy.workflow);
    expect(sessions).toEqual([null, "s"]);
    expect(seen.merges).toEqual([{ kind: "merged", files: ["half.txt"] }]);
  });

  test("is tried again from its beginning when the provider failed", async () => {
    const seen = nothing();
    let tries = 0;
    const toy = await started(sideBySide(seen, ["x"]), (task) => {
      tries += 1;
      expect(existsSync(join(task.cwd, "half.txt"))).toBe(false);
      if (tries > 1) return writeOwn(task);
      writeFileSync(join(task.cwd, "half.txt"), "half\n");
      return { kind: "failed", cause: "network", message: "cut off" };
    });
    await toy.go(toy.workflow);
    expect(tries).toBe(2);
    expect(seen.merges).toEqual([{ kind: "merged", files: ["x.txt"] }]);
  });
});

test("an agent that deletes its working folder has failed, and the run continues", async () => {
  const reports: AgentReport[] = [];
  const work: StageFunction<State> = async ({ sideWorktree, agent, dropSideWorktree, mergeSideWorktree }) => {
    for (const attempt of ["1", "2"]) {
      const place = await sideWorktree(`x${attempt}`);
      const report = await agent({ ...CALL, name: `work ${attempt}`, sideWorktree: place, env: { WHAT: place.name } });
      reports.push(report);
      if (report.commit === null) await dropSideWorktree(place);
      else await mergeSideWorktree("merge", { sideWorktree: place, commit: report.commit });
    }
    return DONE;
  };
  const toy = await started(work, (task) => {
    if (task.env["WHAT"] === "x2") return writeOwn(task);
    rmSync(task.cwd, { recursive: true });
    return { text: "done" };
  });
  await expect(toy.go(toy.workflow)).resolves.toMatchObject({ kind: "done" });
  expect(reports).toMatchObject([
    { outcome: "failed", cause: "crash", commit: null, message: expect.stringContaining("is gone") },
    { outcome: "completed", changed: true },
  ]);
  expect(inRun(toy, "x2.txt")).toBe("x2\n");
  expect(await toy.workspaces.sideWorktrees.list()).toEqual([]);
});

test("no timer checkpoint holds half of a merge", async () => {
  const toy = await started(sideBySide(nothing(), ["x"]), writeOwn);
  const timers = async () => (await toy.store.listCheckpoints({ run: ID, trigger: "timer" })).length;
  let meanwhile: number | undefined;
  const find: TestWorktree["workspaces"]["find"] = async (run) => {
    const workspace = await toy.workspaces.find(run);
    if (workspace === undefined) return undefined;
    return {
      ...workspace,
      async applyRestore(plan) {
        const before = await timers();
        await new Promise((resolve) => setTimeout(resolve, 300));
        meanwhile = (await timers()) - before;
        return await workspace.applyRestore(plan);
      },
    };
  };
  const adapters = { ...toy.adapters, workspaces: { ...toy.workspaces, find }, checkpointEveryMs: 1 };
  await expect(toy.go(toy.workflow, { adapters })).resolves.toMatchObject({ kind: "done" });
  expect(meanwhile).toBe(0);
});

describe("a run that is restored or forked", () => {
  const park = async ({ checkpoint }: StageContext<State>): Promise<void> => checkpoint({ trigger: "manual" });

  test("restored to where a side worktree was open, it is created again and merged again", async () => {
    const seen = nothing();
    let calls = 0;
    const toy = await started(sideBySide(seen, ["x"], park), (task) => {
      calls += 1;
      return writeOwn(task);
    });
    await toy.go(toy.workflow);
    const all = await toy.store.listCheckpoints({ run: ID, limit: 20 });
    const open = all.find(({ trigger }) => trigger === "manual")?.sequence ?? 0;
    const run = await toy.store.createRun({ id: ID, workflow: "toy", work: { kind: "none" } });
    await using handle = new RunHandle(toy.adapters, run);
    await handle.restore({ sequence: open });
    await handle.close();
    expect(inRun(toy, "x.txt")).toBe(null);
    const lease = await toy.store.takeLease({ run: ID, label: "test" });
    await toy.store.commit({ lease, entries: [{ kind: "run.reopened", body: { reason: "restored" } }] });
    await toy.store.releaseLease(lease);
    await expect(toy.go(toy.workflow)).resolves.toMatchObject({ kind: "done" });
    expect(inRun(toy, "x.txt")).toBe("x\n");
    expect(calls).toBe(1);
    expect(seen.merges).toEqual([
      { kind: "merged", files: ["x.txt"] },
      { kind: "merged", files: ["x.txt"] },
    ]);
  });

  test("forked while a call ran in a side worktree, the fork has its own side worktree and calls again", async () => {
    const roots: string[] = [];
    const sessions: (string | null)[] = [];
    const stop = new AbortController();
    const seen = nothing();
    const toy = await started(
      sideBySide(seen, ["x"]),
      (task) => {
        roots.push(task.cwd);
        sessions.push(task.session);
        task.onEvent({ kind: "session", id: `s${roots.length}` });
        if (!stop.signal.aborted) {
          writeFileSync(join(task.cwd, "half.txt"), "half\n");
          stop.abort();
        }
        return writeOwn(task);
      },
      { resume: true },
    );
    await toy.go(toy.workflow, { signal: stop.signal });
    const sequence = (await toy.store.latest(ID))?.sequence ?? 0;
    const run = await toy.store.createRun({ id: ID, workflow: "toy", work: { kind: "none" } });
    await using handle = new RunHandle(toy.adapters, run);
    const { id } = await handle.fork({ sequence, id: "forked" });
    await expect(toy.go(toy.workflow, { run: id })).resolves.toMatchObject({ kind: "done" });
    expect(sessions).toEqual([null, null]);
    expect(roots[1]).not.toBe(roots[0]);
    const forked = await toy.workspaces.find(id);
    expect(readdirSync(forked?.root ?? "").toSorted()).toEqual([".git", ".gitignore", "a.txt", "x.txt"]);
    expect(readFileSync(join(roots[0] ?? "", "half.txt"), "utf8")).toBe("half\n");
    await expect(toy.go(toy.workflow)).resolves.toMatchObject({ kind: "done" });
    expect(sessions).toEqual([null, null, "s1"]);
    rmSync(forked?.root ?? "", { recursive: true, force: true });
  });

  test("forked while a node that must not run twice worked in a side worktree, the fork asks whether it happened", async () => {
    const stop = new AbortController();
    let calls = 0;
    const toy = await started(
      async (context) => {
        await runGraph(context, {
          graph: sampleGraph([sampleNode("once", [], { idempotent: false })]),
          limit: 1,
          work: async (_node, scope) => {
            const beside = await context.sideWorktree(scope.name("side-worktree"));
            await context.agent({ ...CALL, name: scope.name("agent"), sideWorktree: beside });
            return { kind: "complete", result: null };
          },
        });
        return DONE;
      },
      () => {
        calls += 1;
        stop.abort();
        return {};
      },
    );
    await toy.go(toy.workflow, { signal: stop.signal });
    const sequence = (await toy.store.latest(ID))?.sequence ?? 0;
    const run = await toy.store.createRun({ id: ID, workflow: "toy", work: { kind: "none" } });
    await using handle = new RunHandle(toy.adapters, run);
    const { id } = await handle.fork({ sequence, id: "forked" });
    await expect(toy.go(toy.workflow, { run: id })).resolves.toMatchObject({ kind: "waiting", for: "you" });
    expect(calls).toBe(1);
    rmSync((await toy.workspaces.find(id))?.root ?? "", { recursive: true, force: true });
  });
});
