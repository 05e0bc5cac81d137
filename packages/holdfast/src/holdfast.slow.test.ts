import { chmodSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { defaultRetention } from "@holdfast/core/retention";
import type { VerifyEvent } from "@holdfast/core/store";
import {
  type TestRepository,
  createTestRepository,
  readWorktree,
  userState as gitState,
} from "@holdfast/test-support/git/repository";
import type { Holdfast } from "./holdfast.ts";
import { type OpenParams, openHoldfast } from "./open.ts";

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

describe("values only", () => {
  test("saved values are returned frozen, and later changes of the object change nothing", async () => {
    const { holdfast } = await library();
    const run = await holdfast.createRun({ id: "r" });
    const values = { page: 1, found: ["a"] };
    const saving = run.save({ values });
    values.page = 99;
    values.found.push("late");
    expect(await saving).toMatchObject({ id: "r@1", sequence: 1, trigger: "manual", parent: null });
    const latest = await run.latest();
    expect(latest?.planes.context.values).toEqual({ page: 1, found: ["a"] });
    expect(Object.isFrozen(latest?.planes.context.values["found"])).toBe(true);
  });

  test("planes that a save does not give are taken from the newest checkpoint", async () => {
    const { holdfast } = await library();
    const run = await holdfast.createRun({ id: "r" });
    await run.save({ values: { a: 1 }, tokens: { input: 5 }, stage: "impl", iteration: 1, score: 70 });
    await run.save({ stage: "review" });
    await run.save({ values: { a: 2 } });
    expect((await run.latest())?.planes).toMatchObject({
      context: { values: { a: 2 }, tokens: { input: 5 } },
      position: { stage: "review", iteration: 1, score: 70 },
    });
    expect((await run.get(2)).planes.context.values).toEqual({ a: 1 });
  });

  test("planes that the caller changes later are not taken over with the change", async () => {
    const { holdfast } = await library();
    const run = await holdfast.createRun({ id: "r" });
    const extensions = { team: { members: ["a"] } };
    await run.save({ values: {}, tokens: {}, planes: { extensions } });
    extensions.team.members.push("b");
    await run.save({ values: {}, tokens: {} });
    expect((await run.latest())?.planes.extensions).toEqual({ team: { members: ["a"] } });
  });

  test("overlapping saves all commit, in the order of the calls", async () => {
    const { holdfast } = await library();
    const run = await holdfast.createRun({ id: "r" });
    const saved = await Promise.all(Array.from({ length: 20 }, (_, n) => run.save({ values: { n }, tokens: {} })));
    expect(saved.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
    expect((await run.get(7)).planes.context.values).toEqual({ n: 6 });
    const all = [];
    for await (const { sequence } of run.checkpoints()) all.push(sequence);
    expect(all).toEqual(Array.from({ length: 20 }, (_, n) => 20 - n));
  });

  test("of overlapping saves, the later takes planes from the earlier", async () => {
    const { holdfast } = await library();
    const run = await holdfast.createRun({ id: "r" });
    await run.save({ values: { a: 1 } });
    await Promise.all([run.save({ stage: "review" }), run.save({ values: { a: 2 } })]);
    expect((await run.latest())?.planes).toMatchObject({
      position: { stage: "review" },
      context: { values: { a: 2 } },
    });
  });

  test("after a refused save the next one starts from the earlier state", async () => {
    const { holdfast } = await library();
    const run = await holdfast.createRun({ id: "r" });
    await run.save({ values: { a: 1 } });
    await expect(run.save({ values: { a: 2 }, trigger: "nonsense" as "manual" })).rejects.toMatchObject({
      code: "USAGE",
    });
    await expect(run.save({ values: { f: () => 1 } as unknown as JsonObject })).rejects.toMatchObject({
      code: "NOT_JSON",
    });
    await run.save({ stage: "x" });
    expect((await run.latest())?.planes.context.values).toEqual({ a: 1 });
  });

  test("unknown options are refused", async () => {
    const { holdfast, folder } = await library();
    const run = await holdfast.createRun();
    const calls: (() => Promise<unknown>)[] = [
      () => openHoldfast({ stor: folder } as OpenParams),
      () => holdfast.createRun({ workspace: "her" as "here" }),
      () => run.save({ value: {} } as object),
      () => run.save({ values: [1] as unknown as JsonObject }),
      () => holdfast.diff({ from: { run: "r" } as unknown as string, format: "stat" }),
    ];
    for (const call of calls) await expect(call()).rejects.toMatchObject({ code: "USAGE" });
  });

  test("one writer per run: another handle is refused until the first releases", async () => {
    const { holdfast, folder } = await library();
    const run = await holdfast.createRun({ id: "r" });
    await run.save({ values: {} });
    const other = await opened({ store: join(folder, "store"), cwd: folder });
    const theirs = await other.run("r");
    await expect(theirs.save({ values: {} })).rejects.toMatchObject({ code: "LEASE_HELD" });
    await run.close();
    expect(await theirs.save({ values: { b: 1 } })).toMatchObject({ sequence: 2 });
    await theirs.close();
    expect(await run.save({ stage: "x" })).toMatchObject({ sequence: 3 });
    expect((await run.latest())?.planes.context.values).toEqual({ b: 1 });
  });

  test("a restore returns the values; spending stays spent", async () => {
    const { holdfast } = await library();
    const run = await holdfast.createRun({ id: "r" });
    await run.save({ values: { a: 1 }, stage: "impl" });
    const first = await run.latest();
    const position = first?.planes.position;
    if (position === undefined) throw new Error("nothing saved");
    const budget = { ...position.budget, spent: { tokens: 10, microUsd: 20, milliseconds: 30 } };
    await run.save({ values: { a: 2 }, planes: { position: { ...position, stage: "review", budget } } });
    const report = await run.restore({ sequence: 1 });
    expect(report).toMatchObject({
      undo: { sequence: 3, trigger: "before_restore" },
      checkpoint: { sequence: 4, trigger: "restore" },
    });
    const now = (await run.latest())?.planes;
    expect(now?.context.values).toEqual({ a: 1 });
    expect(now?.position).toMatchObject({ stage: "impl", budget: { spent: { microUsd: 20 } } });
  });

  test("addresses: run, sequence, latest, tag; a typo gets the nearest suggestion", async () => {
    const { holdfast } = await library();
    const run = await holdfast.createRun({ id: "fix-login" });
    for (const n of [1, 2, 3]) await run.save({ values: { n } });
    await run.tag(2, "good");
    const sequences = ["fix-login", "fix-login@latest", "fix-login@1", "fix-login@good", "@2"].map(
      async (address) => (await holdfast.resolve(address)).sequence,
    );
    expect(await Promise.all(sequences)).toEqual([3, 3, 1, 2, 2]);
    const refused = async (address: string) => await holdfast.resolve(address).catch((error: unknown) => error);
    expect(await refused("fix-logn")).toMatchObject({ code: "RUN_NOT_FOUND", hint: "Did you mean fix-login?" });
    expect(await refused("fix-login@god")).toMatchObject({ hint: "Did you mean fix-login@good?" });
    expect(await refused("fix-login@9")).toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    expect(await refused("../x")).toMatchObject({ code: "USAGE" });
  });

  test("gc drops by the rules, leaves a tombstone, and is due once a day", async () => {
    const { holdfast } = await library(undefined, AT_ONCE);
    const run = await holdfast.createRun({ id: "r" });
    for (const n of Array.from({ length: 9 }, (_, i) => i)) await run.save({ values: { n }, trigger: "automatic" });
    await run.tag(1, "keep");
    const report = await holdfast.autoGc();
    expect(report?.dropped.map(({ sequence }) => sequence).toSorted()).toEqual([2, 3, 4]);
    expect(await holdfast.autoGc()).toBeNull();
    await expect(holdfast.resolve("r@3")).rejects.toMatchObject({ code: "CHECKPOINT_DROPPED" });
    expect((await problems(holdfast)).at(-1)).toMatchObject({ ok: true });
  });

  test("gc keeps the newest intact one, however many damaged ones are newer", async () => {
    const { holdfast } = await library(undefined, AT_ONCE);
    const run = await holdfast.createRun({ id: "r" });
    for (const n of Array.from({ length: 9 }, (_, i) => i)) await run.save({ values: { n }, trigger: "automatic" });
    await holdfast.store.quarantine({ run: "r", sequences: [5, 6, 7, 8, 9], reason: "damaged" });
    const report = await holdfast.autoGc();
    expect(report?.dropped.map(({ sequence }) => sequence).toSorted()).toEqual([1, 2, 3]);
    expect((await run.latest())?.sequence).toBe(4);
  });

  test("an absent store is reported as absent; one without its database is reported as missing", async () => {
    const folder = temporaryFolder();
    await expect(openHoldfast({ store: join(folder, "no"), cwd: folder, create: false })).rejects.toMatchObject({
      code: "STORE_ABSENT",
    });
    const { holdfast } = await library(folder);
    await (await holdfast.createRun({ id: "r" })).save({ values: {} });
    await holdfast.close();
    rmSync(join(folder, "store/store.db"));
    await expect(openHoldfast({ store: join(folder, "store"), cwd: folder })).rejects.toMatchObject({
      code: "STORE_MISSING",
    });
  });
});

describe("with a worktree", () => {
  test("files and values are restored together, and restored again", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    repo.write("new.txt", "untracked");
    await run.save({ values: { step: 1 } });
    const before = readWorktree(repo.root);
    const user = userState(repo.path(".git"));
    repo.write("a.txt", "changed");
    repo.remove("new.txt");
    repo.write("later/b.txt", "b");
    const after = readWorktree(repo.root);
    const plan = await run.planRestore({ sequence: 1 });
    expect(readWorktree(repo.root)).toEqual(after);
    const report = await run.applyRestore(plan);
    expect(readWorktree(repo.root)).toEqual(before);
    expect(report).toMatchObject({ undo: { sequence: 2, trigger: "before_restore" }, checkpoint: { sequence: 3 } });
    await run.restore({ sequence: 2 });
    expect(readWorktree(repo.root)).toEqual(after);
    expect(userState(repo.path(".git"))).toEqual(user);
    expect((await run.summary()).unfinishedRestore).toBeNull();
  });

  test("one path is restored, the rest and the position stay", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    repo.write("b.txt", "b1");
    await run.save({ values: { step: 1 } });
    repo.write("a.txt", "a2");
    repo.write("b.txt", "b2");
    await run.save({ values: { step: 2 } });
    await run.restore({ sequence: 1, paths: ["b.txt"] });
    expect([repo.read("a.txt"), repo.read("b.txt")]).toEqual(["a2", "b1"]);
    expect((await run.latest())?.planes.context.values).toEqual({ step: 2 });
  });

  test("an outdated plan is refused, and nothing changes", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    repo.write("a.txt", "changed");
    const plan = await run.planRestore({ sequence: 1 });
    repo.write("a.txt", "changed again");
    await expect(run.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    expect(repo.read("a.txt")).toBe("changed again");
    await run.restore({ sequence: 1 });
    expect(repo.read("a.txt")).toBe("one\n");
  });

  test("an interrupted restore is shown, and a repeated one completes it", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    const lease = await holdfast.store.getLease("r");
    if (lease === undefined) throw new Error("no lease");
    await holdfast.store.commit({
      lease,
      entries: [{ kind: "restore.started", body: { target: "r@1", paths: null } }],
    });
    expect((await run.summary()).unfinishedRestore).toBe("r@1");
    repo.write("a.txt", "half");
    await run.restore({ sequence: 1 });
    expect((await run.summary()).unfinishedRestore).toBeNull();
    expect(repo.read("a.txt")).toBe("one\n");
  });

  test("a fork has its own worktree with the same bytes; the same call returns the same fork", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    repo.write("new.txt", "untracked");
    await run.save({ values: { step: 1 } });
    repo.write("a.txt", "continues");
    const fork = await run.fork({ sequence: 1, id: "other" });
    const again = await run.fork({ sequence: 1, id: "other" });
    expect(again.id).toBe("other");
    const root = (await fork.workspace())?.root ?? "";
    expect(readFileSync(join(root, "a.txt"), "utf8")).toBe("one\n");
    expect(readFileSync(join(root, "new.txt"), "utf8")).toBe("untracked");
    expect(await fork.latest()).toMatchObject({ sequence: 1, trigger: "fork", parent: { id: "r@1" } });
    expect((await run.get(1)).tree).toBe((await fork.latest())?.tree);
    writeFileSync(join(root, "a.txt"), "another way");
    await fork.save({ values: { step: 2 } });
    expect(repo.read("a.txt")).toBe("continues");
    const { files, values } = await holdfast.diff({ from: "r@1", to: "other@2", format: "names" });
    expect(files?.files).toMatchObject([{ path: "a.txt", status: "modified" }]);
    expect(values).toEqual([{ path: "/context/values/step", from: 1, to: 2 }]);
  });

  test("a repository without any commit can be forked too, and a new run gets a worktree", async () => {
    const { holdfast, repo } = await repository({ commits: false });
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    repo.write("a.txt", "before the first commit");
    await run.save();
    const fork = await run.fork({ sequence: 1, id: "other" });
    const root = (await fork.workspace())?.root ?? "";
    expect(readFileSync(join(root, "a.txt"), "utf8")).toBe("before the first commit");
    expect(await fork.latest()).toMatchObject({ sequence: 1, trigger: "fork", parent: { id: "r@1" } });
    const fresh = await holdfast.createRun({ id: "fresh", workspace: "new" });
    expect(await fresh.workspace()).toBeDefined();
    expect((await problems(holdfast)).at(-1)).toMatchObject({ ok: true });
  });

  test("gc keeps a fork's parent, the only copy of replaced files, and commits that no other ref has", async () => {
    const { holdfast, repo } = await repository(AT_ONCE);
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    const save = async () => await run.save({ trigger: "automatic" });
    await save(); // 1: forked
    repo.git("checkout", "-q", "-b", "side");
    repo.write("side.txt", "work");
    repo.git("add", "-A");
    repo.git("commit", "-qm", "side work");
    await save(); // 2: on a commit that is about to lose its branch
    repo.git("checkout", "-q", "main");
    repo.git("branch", "-qD", "side");
    for (const n of [3, 4, 5]) {
      repo.write("a.txt", `${n}`);
      await save();
    }
    repo.write("a.txt", "precious");
    await run.restore({ sequence: 1 }); // 6: before_restore, 7: restore
    for (const n of [8, 9, 10, 11, 12, 13, 14]) {
      repo.write("a.txt", `${n}`);
      await save();
    }
    await run.fork({ sequence: 1, id: "other", worktree: false });
    const plan = await holdfast.planGc({ run: "r" });
    const kept = plan.plans[0]?.decisions.flatMap((d) => (d.action === "keep" ? [d.sequence] : [])) ?? [];
    expect(kept).toEqual(expect.arrayContaining([1, 2, 6, 14]));
    const report = await holdfast.applyGc(plan);
    expect(report.dropped.length).toBeGreaterThan(0);
    expect(
      (await holdfast.workspaces?.refs())
        ?.filter(({ run: id }) => id === "r")
        .map(({ sequence }) => sequence)
        .toSorted((a, b) => a - b),
    ).toEqual(kept.toSorted((a, b) => a - b));
    expect((await problems(holdfast)).at(-1)).toMatchObject({ ok: true });
  });

  test("verify names a checkpoint whose git objects are missing, and quarantine skips it", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    repo.write("a.txt", "two");
    const { tree } = await run.save();
    const path = repo.path(`.git/objects/${tree?.slice(0, 2)}/${tree?.slice(2)}`);
    rmSync(path);
    const events = await problems(holdfast);
    expect(events).toMatchObject([
      { kind: "problem", problem: { code: "TREE_MISSING", sequence: 2, newestIntact: 1 } },
      { kind: "summary", ok: false, problems: 1 },
    ]);
    expect(await holdfast.repair(events)).toEqual([{ run: "r", quarantined: [2], pinned: [], newestIntact: 1 }]);
    expect((await run.latest())?.sequence).toBe(1);
    // While the worktree holds the same files, reading it would write the tree again.
    repo.write("a.txt", "three");
    await expect(run.planRestore({ sequence: 2 })).rejects.toMatchObject({
      code: "TREE_MISSING",
      message: expect.stringContaining("r@2"),
    });
  });

  test("verify names a checkpoint that lost its ref while its objects are still there, and repair pins it again", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    const head = `refs/holdfast/r/head/${repo.git("rev-parse", "HEAD").trim()}`;
    for (const ref of ["refs/holdfast/r/1", head]) {
      repo.git("update-ref", "-d", ref);
      const events = await problems(holdfast);
      expect(events).toMatchObject([{ problem: { code: "PIN_MISSING", sequence: 1 } }, { ok: false }]);
      expect(await holdfast.repair(events)).toMatchObject([{ quarantined: [], pinned: [1] }]);
      expect(await problems(holdfast)).toMatchObject([{ ok: true }]);
    }
  });

  test("verify continues after a damaged commit of a snapshot, and names it", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    repo.write("a.txt", "two");
    await run.save();
    const commit = repo.git("rev-parse", "refs/holdfast/r/2").trim();
    const path = repo.path(`.git/objects/${commit.slice(0, 2)}/${commit.slice(2)}`);
    chmodSync(path, 0o644);
    writeFileSync(path, "not an object");
    expect(await problems(holdfast)).toMatchObject([
      { problem: { code: "TREE_MISSING", sequence: 2, newestIntact: 1 } },
      { ok: false, problems: 1 },
    ]);
    expect((await holdfast.planGc()).danglingRefs).toEqual([]);
  });

  test("a second store in the same repository never sweeps the snapshots of the first", async () => {
    const { holdfast, repo } = await repository();
    const at = "2020-01-01T00:00:00Z";
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    await run.close();
    const workspace = await run.workspace();
    await workspace?.snapshot({ run: "r", sequence: 2, message: "left by a crash", at });
    await workspace?.snapshot({ run: "stranger", sequence: 1, message: "of another store", at });
    const other = await opened({ cwd: repo.root, store: join(repo.root, "../other-store") });
    await other.createRun({ id: "r" });
    expect((await other.planGc()).danglingRefs).toEqual([]);
    const plan = await holdfast.planGc();
    expect(plan.danglingRefs).toEqual(["refs/holdfast/r/2"]);
    await holdfast.applyGc(plan);
    const head = repo.git("rev-parse", "HEAD").trim();
    expect(repo.git("for-each-ref", "--format=%(refname)", "refs/holdfast/r/")).toBe(
      `refs/holdfast/r/1\nrefs/holdfast/r/1-index\nrefs/holdfast/r/head/${head}\n`,
    );
  });

  test("a path that exists nowhere is refused, not silently restored", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    repo.write("dir/b.txt", "b");
    await run.save();
    await expect(run.planRestore({ sequence: 1, paths: ["nosuch"] })).rejects.toMatchObject({ code: "USAGE" });
    expect((await run.planRestore({ sequence: 1, paths: ["dir", "a.txt"] })).files?.changes).toEqual([]);
  });

  test("a fork that was killed while git held its branch's lock can be completed", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    mkdirSync(repo.path(".git/refs/heads/holdfast"), { recursive: true });
    writeFileSync(repo.path(".git/refs/heads/holdfast/other.lock"), "");
    const other = await run.fork({ sequence: 1, id: "other" });
    expect((await other.latest())?.tree).toBe((await run.latest())?.tree);
  });

  test.each(["", "oth"])("a fork that was killed while it recorded its owner (%j) can be completed", async (owner) => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    const path = join(repo.root, "../repo-worktrees/other");
    repo.git("worktree", "add", "-q", "--no-checkout", "-b", "holdfast/other", path);
    writeFileSync(repo.path(".git/worktrees/other/holdfast-making"), "");
    writeFileSync(repo.path(".git/worktrees/other/holdfast-run"), owner);
    const other = await run.fork({ sequence: 1, id: "other" });
    expect((await other.latest())?.tree).toBe((await run.latest())?.tree);
  });

  test.each(["empty", "absent"])(
    "a fork that was killed in `git worktree add` (commondir %s) can be completed",
    async (how) => {
      const { holdfast, repo } = await repository();
      const run = await holdfast.createRun({ id: "r", workspace: "here" });
      await run.save();
      const path = join(repo.root, "../repo-worktrees/other");
      repo.git("worktree", "add", "-q", "--no-checkout", "-b", "holdfast/other", path);
      writeFileSync(repo.path(".git/worktrees/other/locked"), "initializing");
      rmSync(repo.path(".git/worktrees/other/commondir"));
      if (how === "empty") writeFileSync(repo.path(".git/worktrees/other/commondir"), "");
      const other = await run.fork({ sequence: 1, id: "other" });
      expect((await other.latest())?.tree).toBe((await run.latest())?.tree);
      expect(repo.git("worktree", "list")).toContain("repo-worktrees/other");
    },
  );

  test("a fork or a run that cannot have a worktree is refused before it is created", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    mkdirSync(join(repo.root, "../repo-worktrees/taken"), { recursive: true });
    writeFileSync(join(repo.root, "../repo-worktrees/taken/theirs"), "x");
    repo.git("worktree", "add", "-q", "-b", "holdfast/in-use", join(repo.root, "../elsewhere"));
    for (const [id, code] of [
      ["taken", "USAGE"],
      ["in-use", "CONFLICT"],
    ] as const) {
      await expect(run.fork({ sequence: 1, id })).rejects.toMatchObject({ code });
      await expect(holdfast.createRun({ id, workspace: "new" })).rejects.toMatchObject({ code });
    }
    expect((await holdfast.listRuns()).map(({ id }) => id)).toEqual(["r"]);
    expect((await holdfast.workspaces?.refs())?.map(({ run: owner }) => owner)).toEqual(["r"]);
    rmSync(join(repo.root, "../repo-worktrees/taken/theirs"));
    expect((await (await run.fork({ sequence: 1, id: "taken" })).latest())?.tree).toBe((await run.latest())?.tree);
  });

  test("a run whose worktree is missing saves and restores nothing silently; a fork restores its files", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    const other = await run.fork({ sequence: 1, id: "other" });
    repo.git("worktree", "remove", "--force", (await other.workspace())?.root ?? "");
    const again = await holdfast.run("other");
    for (const attempt of [() => again.save(), () => again.restore({ sequence: 1 })]) {
      const hint = expect.stringContaining("restore other@latest");
      await expect(attempt()).rejects.toMatchObject({ code: "WORKSPACE_MISSING", hint });
    }
    const rescue = await again.fork({ sequence: 1, id: "rescue" });
    expect(readFileSync(join((await rescue.workspace())?.root ?? "", "a.txt"), "utf8")).toBe("one\n");
    const bare = await run.fork({ sequence: 1, id: "state-only", worktree: false });
    expect(await bare.save({ values: { a: 1 } })).toMatchObject({ tree: null });
  });

  test("a repository that was moved keeps its run", async () => {
    const { holdfast, repo } = await repository();
    await (await holdfast.createRun({ id: "r", workspace: "here" })).save();
    await holdfast.close();
    const moved = `${repo.root}-moved`;
    renameSync(repo.root, moved);
    const there = await opened({ cwd: moved });
    expect((await there.runHere())?.id).toBe("r");
    writeFileSync(join(moved, "a.txt"), "changed");
    await (await there.run("r")).restore({ sequence: 1 });
    expect(readFileSync(join(moved, "a.txt"), "utf8")).toBe("one\n");
  });

  test("a merge in progress is reported before anything is written", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    writeFileSync(repo.path(".git/MERGE_HEAD"), `${repo.git("rev-parse", "HEAD").trim()}\n`);
    await expect(run.restore({ sequence: 1 })).rejects.toMatchObject({ code: "WORKSPACE_BUSY" });
    expect((await run.list()).length).toBe(1);
  });

  test("@7 is refused if it could mean several runs", async () => {
    const { holdfast } = await repository();
    await (await holdfast.createRun({ id: "one", workspace: "here" })).save();
    expect((await holdfast.resolve("@1")).run).toBe("one");
    await (await holdfast.createRun({ id: "two", workspace: "here" })).save();
    await expect(holdfast.resolve("@1")).rejects.toMatchObject({
      code: "USAGE",
      hint: expect.stringContaining("one@1"),
    });
    expect((await holdfast.resolveRun()).id).toBe("two");
  });

  test("a second writer waits a little, and then gets an error with the owner of the run", async () => {
    const { holdfast, repo } = await repository();
    const run = await holdfast.createRun({ id: "r" });
    await run.save();
    const patient = await opened({ cwd: repo.root, leaseWaitMs: 20_000 });
    const waiting = (await patient.run("r")).save({ values: { a: 1 } });
    expect((await (await patient.run("r")).holder())?.alive).toBe("alive");
    await run.close();
    expect(await waiting).toMatchObject({ sequence: 2 });
  });

  test("a read leaves no ref behind", async () => {
    const { holdfast } = await repository();
    const run = await holdfast.createRun({ id: "r", workspace: "here" });
    await run.save();
    await run.planRestore({ sequence: 1 });
    expect((await holdfast.workspaces?.refs())?.map(({ ref }) => ref)).toEqual(["refs/holdfast/r/1"]);
  });
});

/** Rules of the user's own apply at once; the default policy keeps every run whole for 30 days. */
const AT_ONCE: OpenParams = { retention: defaultRetention };

async function library(
  folder = temporaryFolder(),
  params: OpenParams = {},
): Promise<{ holdfast: Holdfast; folder: string }> {
  return { holdfast: await opened({ store: join(folder, "store"), cwd: folder, ...params }), folder };
}

async function repository({ commits = true, ...params }: OpenParams & { commits?: boolean } = {}): Promise<{
  holdfast: Holdfast;
  repo: TestRepository;
}> {
  const repo = createTestRepository();
  cleanUps.push(repo.dispose);
  repo.write("a.txt", "one\n");
  repo.git("add", "-A");
  if (commits) repo.git("commit", "-qm", "first");
  return { holdfast: await opened({ cwd: repo.root, ...params }), repo };
}

async function opened(params: OpenParams): Promise<Holdfast> {
  const holdfast = await openHoldfast(params);
  cleanUps.push(() => holdfast.close());
  return holdfast;
}

/** All but our own store, which lives in the git directory too. */
function userState(gitDir: string): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(gitState(gitDir)).filter(([name]) => !name.startsWith("holdfast/")));
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-app-"));
  cleanUps.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function problems(holdfast: Holdfast): Promise<VerifyEvent[]> {
  const events: VerifyEvent[] = [];
  for await (const event of holdfast.verify()) if (event.kind !== "progress") events.push(event);
  return events;
}
