import { readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "@holdfast/platform/clock";
import { RUN, type StoppedRun, createStoppedRun } from "@holdfast/test-support/core/resume-scene";
import { damageCheckpoints } from "@holdfast/test-support/edit-store";
import { openSqliteStore } from "./store-sql/open.ts";
import { NO_WORKTREE, WORKTREE } from "./adapters.ts";
import { emptyPlanes } from "./checkpoint.ts";
import { findRunFor } from "./control-run.ts";
import { defaultFindingPolicy } from "./findings.ts";
import { findStart } from "./recovery.ts";
import { fork } from "./fork.ts";
import { planRunRemoval } from "./remove-run.ts";
import { checkResume } from "./resume.ts";
import { RunHandle } from "./run-handle.ts";
import { type Store, knownRun } from "./store.ts";

describe("find start", () => {
  const directoryOf = (scene: StoppedRun): string => scene.repo.path(".git/holdfast");

  /** A store on disk with a run of three checkpoints, closed. */
  async function saveOnDisk(scene: StoppedRun): Promise<string> {
    const directory = directoryOf(scene);
    const store = await openSqliteStore({ directory, create: true, clock: systemClock });
    await store.createRun({ id: RUN, workflow: "impl", work: { kind: "issue", number: 42 } });
    const lease = await store.takeLease({ run: RUN, label: "test" });
    for (const round of [1, 2, 3]) {
      const planes = { ...emptyPlanes(), context: { values: { text: `round ${round} `.repeat(2000) }, tokens: {} } };
      await store.commit({ lease, checkpoint: { trigger: "stage", planes } });
    }
    await store.close();
    return directory;
  }

  async function reopen(directory: string): Promise<Store> {
    const store = await openSqliteStore({ directory, create: true, clock: systemClock });
    onTestFinished(async () => store.close());
    return store;
  }

  describe("silent fresh start: never", () => {
    const damages: readonly (readonly [string, (directory: string) => void])[] = [
      [
        "the database is gone",
        (directory) =>
          readdirSync(directory)
            .filter((name) => name.startsWith("store.db"))
            .forEach((name) => rmSync(join(directory, name))),
      ],
      ["the database is empty", (directory) => truncateSync(join(directory, "store.db"))],
      [
        "the database is no database",
        (directory) => writeFileSync(join(directory, "store.db"), "garbage ".repeat(1000)),
      ],
      [
        "the marker is of another version",
        (directory) => {
          const path = join(directory, "store.json");
          const marker: unknown = JSON.parse(readFileSync(path, "utf8"));
          writeFileSync(path, JSON.stringify({ ...(marker as object), format: 999 }));
        },
      ],
    ];
    test.each(damages)("%s: an error", async (_name, damage) => {
      const scene = await createStoppedRun();
      const directory = await saveOnDisk(scene);
      damage(directory);
      await expect(openSqliteStore({ directory, create: true, clock: systemClock })).rejects.toMatchObject({
        code: expect.stringMatching(/^STORE_(MISSING|CORRUPT|CUT|TOO_NEW)$/),
      });
    });

    test("every checkpoint is damaged: STORE_CORRUPT, and no plan that would start over", async () => {
      const scene = await createStoppedRun();
      const directory = await saveOnDisk(scene);
      expect(damageCheckpoints(directory, [1, 2, 3])).toBe(3);
      const store = await reopen(directory);
      const adapters = { ...scene.adapters, store };
      await expect(findStart({ adapters, run: RUN })).rejects.toMatchObject({ code: "STORE_CORRUPT" });
      const { current } = scene;
      const params = { adapters, run: RUN, current, policy: defaultFindingPolicy, answers: {}, force: false };
      await expect(checkResume(params)).rejects.toMatchObject({ code: "STORE_CORRUPT" });
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "one" });
    });

    test("the newest ones are damaged: the newest intact one, with each of the others named", async () => {
      const scene = await createStoppedRun();
      const directory = await saveOnDisk(scene);
      expect(damageCheckpoints(directory, [3])).toBe(1);
      const start = await findStart({ adapters: { ...scene.adapters, store: await reopen(directory) }, run: RUN });
      expect(start).toMatchObject({
        kind: "found",
        from: { kind: "newest_intact", sequence: 2 },
        checkpoint: { sequence: 2 },
        findings: [{ kind: "store_damaged", expected: { sequence: 3 } }],
      });
    });

    test("the files of the newest one are on another machine: TREE_MISSING, unless the caller passes over it", async () => {
      const scene = await createStoppedRun();
      const newest = await scene.store.latest(RUN);
      const { workspaces } = scene.adapters;
      if (workspaces === null) throw new Error("the scene has a repository");
      const has: typeof workspaces.has = async (files) =>
        files.snapshot !== newest?.planes.files?.snapshot && (await workspaces.has(files));
      const adapters = { ...scene.adapters, ownsRefs: false, workspaces: { ...workspaces, has } };
      await expect(findStart({ adapters, run: RUN })).rejects.toMatchObject({ code: "TREE_MISSING" });
      const damaged = { code: "STORE_CORRUPT" };
      await expect(findStart({ adapters, run: RUN, passOver: true })).rejects.toMatchObject(damaged);
      const own = { ...adapters, ownsRefs: true };
      await expect(findStart({ adapters: own, run: RUN })).rejects.toMatchObject(damaged);
    });

    test("a run without checkpoints reports that there is nothing to resume", async () => {
      const scene = await createStoppedRun();
      await scene.store.createRun({ id: "empty", workflow: "impl", work: { kind: "issue", number: 5 } });
      expect(await findStart({ adapters: scene.adapters, run: "empty" })).toEqual({ kind: "none" });
    });

    test("a fork that died before its first checkpoint names the command that completes it", async () => {
      const { adapters, current, store } = await createStoppedRun();
      const source = await store.getCheckpoint({ run: RUN, sequence: 1 });
      const { workflow, work } = await knownRun(store, RUN);
      await store.createRun({ id: "half", workflow, work, forkedFrom: { id: source.id, digest: source.digest } });
      const params = { adapters, run: "half", current, policy: defaultFindingPolicy, answers: {}, force: false };
      await expect(checkResume(params)).rejects.toMatchObject({
        code: "NOTHING_TO_RESUME",
        hint: `Complete the fork: \`holdfast fork ${source.id} --as half\`. Or remove it: \`holdfast rm half\`.`,
      });
    });

    test("such a fork takes no checkpoint of its own, which would keep the same fork from completing it", async () => {
      const scene = await createStoppedRun();
      const { adapters, store } = scene;
      const source = await scene.save({ text: "then" });
      const sourceRun = await knownRun(store, RUN);
      const { workflow, work } = sourceRun;
      const forkedFrom = { id: source.id, digest: source.digest };
      const labels = { [WORKTREE]: NO_WORKTREE };
      const half = await store.createRun({ id: "half", workflow, work, forkedFrom, labels });
      const handle = new RunHandle(adapters, half);
      onTestFinished(() => handle.close());
      for (const refused of [() => handle.save({ values: {} }), () => handle.planSave({})])
        await expect(refused()).rejects.toMatchObject({ code: "NOTHING_TO_RESUME" });
      await handle.close();
      expect((await planRunRemoval(adapters, { run: await knownRun(store, "half"), forge: null })).reasons).toEqual([]);
      await fork({ adapters, source, sourceRun, id: "half", worktree: false });
      expect(await store.latest("half")).toMatchObject({ trigger: "fork", planes: { context: source.planes.context } });
    });

    test("a missing run is not invented", async () => {
      const scene = await createStoppedRun();
      const { adapters, current } = scene;
      const params = { adapters, run: "no-such", current, policy: defaultFindingPolicy, answers: {}, force: false };
      await expect(checkResume(params)).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
    });
  });

  describe("the run of an issue", () => {
    test("exact: issue 4 is not issue 42; ended runs are listed, several are a question", async () => {
      const scene = await createStoppedRun();
      const { adapters, store } = scene;
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "one", run: { id: RUN } });
      expect(await findRunFor({ adapters, issue: 4 })).toEqual({ kind: "none", ended: [] });
      await store.createRun({ id: "issue-4-42", workflow: "impl", work: { kind: "issue", number: 4 } });
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "one", run: { id: RUN } });
      expect(await findRunFor({ adapters, issue: 42, workflow: "other" })).toEqual({ kind: "none", ended: [] });
      await store.createRun({ id: "again", workflow: "impl", work: { kind: "issue", number: 42 } });
      const lease = await store.takeLease({ run: "again", label: "test" });
      await store.commit({
        lease,
        checkpoint: { trigger: "stage", planes: emptyPlanes({ workflow: "impl", stage: "setup" }) },
      });
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "several", runs: [{}, {}] });
      await scene.append({ kind: "run.ended", body: { outcome: "done" } });
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({ kind: "one", run: { id: "again" } });
    });

    test("died before its first checkpoint: neither resumable nor ended", async () => {
      const { adapters, store } = await createStoppedRun();
      await store.createRun({ id: "born", workflow: "impl", work: { kind: "issue", number: 7 } });
      expect(await findRunFor({ adapters, issue: 7 })).toEqual({ kind: "none", ended: [] });
    });
  });
});
