import { existsSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { openHoldfast } from "../app.ts";
import { emptyPlanes } from "../core/checkpoint/checkpoint.ts";
import type { JsonObject } from "../core/json.ts";
import type { Store } from "../ports/store.ts";
import { openMemoryStore } from "../stores/memory/memory-store.ts";
import { createMemoryWorld } from "../stores/memory/world.ts";
import { openSqliteStore } from "../stores/sqlite/open.ts";
import { scratchDirectory } from "../testing/store-contract/scratch-directory.ts";
import { createTestRepository, userState } from "../testing/workspace/workspace-repository.ts";
import { CheckpointStore } from "./checkpoint-store.ts";
import type { SaveParams } from "./checkpoint-store.ts";
import { Checkpoint } from "./checkpoint.ts";
import { Context } from "./context.ts";

const step = (n: number): SaveParams => ({ values: { step: n }, tokenUsage: { input_tokens: 100 * n } });

/** Further handles on the same data, as other processes would have. */
const KINDS: readonly { readonly kind: string; readonly handles: () => () => Promise<Store> }[] = [
  {
    kind: "memory",
    handles: () => {
      const world = createMemoryWorld();
      return () => Promise.resolve(openMemoryStore({ world }));
    },
  },
  {
    kind: "sqlite",
    handles: () => {
      const directory = join(scratchDirectory(onTestFinished), "store");
      return () => openSqliteStore({ directory });
    },
  },
];

describe.each(KINDS)("in $kind", ({ handles }) => {
  async function places(): Promise<() => Promise<Store>> {
    const open = handles();
    return async () => {
      const store = await open();
      onTestFinished(() => store.close());
      return store;
    };
  }

  async function fresh(taskId = "task-1"): Promise<CheckpointStore> {
    const store = await CheckpointStore.open(taskId, { store: await (await places())() });
    onTestFinished(() => store.close());
    return store;
  }

  test("versions count from 1, and what was saved is there again", async () => {
    const store = await fresh();
    const first = await store.save({ ...step(1), metadata: { description: "After step 1" } });
    const second = await store.save(step(2));
    expect([first.version, second.version]).toEqual([1, 2]);
    expect(await store.get(1)).toEqual(first);
    expect((await store.latest())?.equals(second)).toBe(true);
    expect([await store.listVersions(), await store.size(), await store.version()]).toEqual([[1, 2], 2, 2]);
    expect(await Array.fromAsync(store)).toEqual([first, second]);
    expect(first.metadata).toEqual({ description: "After step 1" });
    expect(second.metadata).toEqual({});
    expect([String(store), inspect(store)]).toEqual(Array(2).fill('CheckpointStore(taskId="task-1", checkpoints=2)'));
  });

  test("an empty one has nothing, and leaves nothing behind when it is only looked at", async () => {
    const handle = await (await places())();
    const store = await CheckpointStore.open("task-1", { store: handle });
    expect(await store.latest()).toBeUndefined();
    expect([await store.listVersions(), await store.size(), await store.version()]).toEqual([[], 0, 0]);
    expect(await Array.fromAsync(store)).toEqual([]);
    expect(String(store)).toBe('CheckpointStore(taskId="task-1", checkpoints=0)');
    expect(await handle.listRuns()).toEqual([]);
  });

  test.each([0, -1, 3, 1.5, Number.NaN, "1" as unknown as number])(
    "version %s is not there: a hint and data",
    async (version) => {
      const store = await fresh();
      await expect(store.get(version)).rejects.toMatchObject({
        code: "CHECKPOINT_NOT_FOUND",
        hint: "It has none yet: save one first.",
        data: { taskId: "task-1", version, newest: 0, size: 0 },
      });
      await store.save(step(1));
      await store.save(step(2));
      await expect(store.get(version)).rejects.toMatchObject({
        message: `Task "task-1" has no version ${version}`,
        hint: "It has 2 up to version 2, from 1 on; listVersions() names them.",
        data: { taskId: "task-1", version, newest: 2, size: 2 },
      });
    },
  );

  test("what is given is copied at the call, nested values and metadata too", async () => {
    const store = await fresh();
    const values = { list: [1] };
    const metadata = { tags: ["a"] };
    const saving = store.save({ values, metadata, tokenUsage: {} });
    values.list.push(2);
    metadata.tags.push("b");
    const saved = await saving;
    expect([saved.values, saved.metadata]).toEqual([{ list: [1] }, { tags: ["a"] }]);
    expect(await store.get(1)).toEqual(saved);
  });

  test("saves that overlap are versions in the order of the calls, the very first ones too", async () => {
    const store = await fresh();
    const saved = await Promise.all(Array.from({ length: 20 }, (_, n) => store.save(step(n + 1))));
    expect(saved.map(({ version, values }) => [version, values["step"]])).toEqual(
      Array.from({ length: 20 }, (_, n) => [n + 1, n + 1]),
    );
    expect((await store.get(7)).values).toEqual({ step: 7 });
  });

  test("what cannot be saved is refused, nothing is written, and the next version is the next", async () => {
    const store = await fresh();
    await store.save(step(1));
    const wrong: readonly [unknown, string][] = [
      [{ ...step(2), values: { f: () => 1 } }, "NOT_JSON"],
      [{ ...step(2), metadata: { when: new Date(0) } }, "NOT_JSON"],
      [{ ...step(2), tokenUsage: { a: -1 } }, "USAGE"],
      [{ ...step(2), values: 7 }, "USAGE"],
      [{ ...step(2), metadata: "text" }, "USAGE"],
      [{ ...step(2), after: -2 }, "USAGE"],
      [{ values: {}, token_usage: {} }, "USAGE"],
    ];
    for (const [params, code] of wrong) {
      await expect(store.save(params as SaveParams)).rejects.toMatchObject({ code });
    }
    expect((await store.save(step(2))).version).toBe(2);
  });

  test("any text can be a task id; different ones are different tasks", async () => {
    const store = await fresh("Büro / Rechnung №5");
    const ids = ["buro-rechnung-5", "Buro Rechnung 5", "büro rechnung 5", "a".repeat(200), "__proto__", " "];
    for (const [index, id] of ids.entries()) await store.task(id).save(step(index));
    for (const [index, id] of ids.entries()) {
      expect((await store.task(id).latest())?.toJSON()).toMatchObject({
        task_id: id,
        values: { step: index },
        version: 1,
      });
    }
    expect(await store.size()).toBe(0);
  });

  test("an empty task id is refused", async () => {
    const handle = await (await places())();
    await expect(CheckpointStore.open("", { store: handle })).rejects.toMatchObject({
      code: "USAGE",
      hint: expect.stringContaining("task-1"),
    });
    await expect(CheckpointStore.open(7 as unknown as string, { store: handle })).rejects.toMatchObject({
      code: "USAGE",
    });
    expect(() => CheckpointStore.inMemory("")).toThrow(/cannot be a task id/);
  });

  test("a run of the store that is no task of ours is not written into", async () => {
    const handle = await (await places())();
    await handle.createRun({ id: "task-1", workflow: "impl", work: { kind: "none" } });
    await expect(CheckpointStore.open("task-1", { store: handle })).rejects.toMatchObject({
      code: "RUN_EXISTS",
      data: { taskId: "task-1", run: "task-1" },
    });
  });

  test("a run that was imported for the task is the task", async () => {
    const handle = await (await places())();
    const labels = { imported: "from elsewhere" };
    await handle.createRun({ id: "task-1", workflow: "none", work: { kind: "task", text: "task-1" }, labels });
    const lease = await handle.takeLease({ run: "task-1", label: "import" });
    const planes = { ...emptyPlanes(), context: { values: { a: 1 }, tokens: { t: 2 } } };
    await handle.commit({ lease, checkpoint: { trigger: "import", planes } });
    const store = await CheckpointStore.open("task-1", { store: handle });
    expect(await store.get(1)).toMatchObject({ values: { a: 1 }, tokenUsage: { t: 2 }, metadata: {} });
    expect((await (await store.context()).snapshot()).version).toBe(2);
  });

  test("another handle sees what was saved, and goes on counting", async () => {
    const next = await places();
    const first = await CheckpointStore.open("task-1", { store: await next() });
    await first.save(step(1));
    const second = await CheckpointStore.open("task-1", { store: await next() });
    expect(String(second)).toContain("checkpoints=1");
    expect((await second.latest())?.values).toEqual({ step: 1 });
    await first.close();
    expect((await second.save(step(2))).version).toBe(2);
  });

  test("two writers of one task: the second is told so, by save and already by context", async () => {
    const next = await places();
    const first = await CheckpointStore.open("task-1", { store: await next() });
    const second = await CheckpointStore.open("task-1", { store: await next() });
    await first.context();
    for (const attempt of [() => second.save(step(9)), () => second.context()]) {
      await expect(attempt()).rejects.toMatchObject({
        code: "LEASE_HELD",
        message: 'Task "task-1" is already being written by another store of this process',
        hint: expect.stringContaining("store.task(taskId)"),
        retry: "later",
        data: { taskId: "task-1", owner: { pid: process.pid } },
      });
    }
    await first.save(step(1));
    await first.close();
    expect((await (await second.context()).snapshot()).version).toBe(2);
  });

  test("with leaseWaitMs the second waits for the first", async () => {
    const next = await places();
    const first = await CheckpointStore.open("task-1", { store: await next() });
    const second = await CheckpointStore.open("task-1", { store: await next(), leaseWaitMs: 30_000 });
    await first.save(step(1));
    const waiting = second.save(step(2));
    await first.close();
    expect((await waiting).version).toBe(2);
  });

  test("a version that retention removed is told as such; the others keep their numbers", async () => {
    const handle = await (await places())();
    const store = await CheckpointStore.open("task-1", { store: handle });
    for (const n of [1, 2, 3]) await store.save(step(n));
    await handle.drop({ run: "task-1", drops: [{ sequence: 2, why: "test" }] });
    expect([await store.listVersions(), await store.size(), await store.version()]).toEqual([[1, 3], 2, 3]);
    await expect(store.get(2)).rejects.toMatchObject({
      code: "CHECKPOINT_DROPPED",
      data: { taskId: "task-1", why: "test" },
    });
    expect((await Array.fromAsync(store)).map(({ version }) => version)).toEqual([1, 3]);
    expect((await store.save(step(4))).version).toBe(4);
    await expect(store.get(9)).rejects.toMatchObject({ hint: "It has 3 up to version 4; listVersions() names them." });
  });

  test("a history that began elsewhere goes on from the number that it had", async () => {
    const store = await fresh();
    const document = new Checkpoint({ taskId: "task-1", version: 7, values: { a: 1 }, tokenUsage: { t: 5 } });
    const context = Context.restore(document, { store });
    expect((await context.snapshot()).version).toBe(8);
    expect((await context.snapshot()).version).toBe(9);
    expect([await store.listVersions(), await store.size(), await store.version()]).toEqual([[8, 9], 2, 9]);
    expect((await store.get(8)).tokenUsage).toEqual({ t: 5 });
    await expect(store.get(7)).rejects.toMatchObject({
      hint: "It has 2 up to version 9, from 8 on; listVersions() names them.",
    });
    await expect(store.get(1)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });

  test("closing lets go; a store of one's own stays open, and a further task closes only itself", async () => {
    const handle = await (await places())();
    const store = await CheckpointStore.open("task-1", { store: handle });
    const other = store.task("task-2");
    await store.save(step(1));
    await other.save(step(1));
    await other.close();
    expect(await handle.getLease("task-2")).toBeUndefined();
    expect(await handle.getLease("task-1")).toBeDefined();
    expect((await other.save(step(2))).version).toBe(2);
    await store.close();
    expect([await handle.getLease("task-1"), await handle.getLease("task-2")]).toEqual([undefined, undefined]);
    expect((await handle.listRuns()).length).toBe(2);
  });
});

describe("where it is kept", () => {
  test("in a directory: still there when it is opened again", async () => {
    const directory = join(scratchDirectory(onTestFinished), "state");
    {
      await using store = await CheckpointStore.open("task-1", { store: directory });
      await store.save(step(1));
    }
    await using store = await CheckpointStore.open("task-1", { store: directory });
    expect((await store.latest())?.values).toEqual({ step: 1 });
    await store.close();
    await expect(store.latest()).rejects.toMatchObject({ code: "USAGE", message: expect.stringContaining("closed") });
  });

  test("in a repository: in its own store by default, without touching files or refs, and Holdfast knows the run", async () => {
    const repository = createTestRepository();
    onTestFinished(() => repository.dispose());
    const git = (): readonly string[] =>
      Object.entries(userState(join(repository.root, ".git")))
        .map((entry) => entry.join(" "))
        .filter((entry) => !entry.startsWith("holdfast/"));
    const before = git();
    {
      await using store = await CheckpointStore.open("task-1", { cwd: repository.root });
      await store.save({ ...step(1), metadata: { note: "x" } });
    }
    expect(existsSync(join(repository.root, ".git/holdfast/store.db"))).toBe(true);
    expect(git()).toEqual(before);
    expect(repository.git("for-each-ref")).toBe("");
    await using holdfast = await openHoldfast({ cwd: repository.root });
    const latest = await (await holdfast.run("task-1")).latest();
    expect(latest).toMatchObject({ id: "task-1@1", planes: { files: null, context: { values: { step: 1 } } } });
    const events = await Array.fromAsync(holdfast.verify());
    expect(events.filter(({ kind }) => kind === "problem")).toEqual([]);
  });

  test("neither: told what can be done", async () => {
    const cwd = scratchDirectory(onTestFinished);
    await expect(CheckpointStore.open("task-1", { cwd })).rejects.toMatchObject({
      code: "NOT_A_REPOSITORY",
      hint: expect.stringContaining("CheckpointStore.inMemory"),
    });
  });

  test("in memory: the same, until it is closed", async () => {
    const store = CheckpointStore.inMemory("task-1");
    expect((await store.save(step(1))).version).toBe(1);
    expect(await CheckpointStore.inMemory("task-1").size()).toBe(0);
    await store.close();
    await expect(store.latest()).rejects.toMatchObject({ code: "USAGE" });
  });

  test("a misspelt option is named", async () => {
    await expect(CheckpointStore.open("t", { directory: "./x" } as JsonObject)).rejects.toMatchObject({
      code: "USAGE",
    });
  });
});

test("a writer that was taken over is told, writes nothing, and can only open again", async () => {
  const world = createMemoryWorld();
  const dead = { host: "here", pid: 1, started: "1", boot: "other" };
  const stolen = openMemoryStore({ world, identity: { ...dead } });
  const first = await CheckpointStore.open("task-1", { store: stolen });
  await first.save(step(1));
  const held = world.runs.get("task-1");
  if (held === undefined) throw new Error("no run");
  // What a laptop that slept for too long looks like from another host.
  held.lease = null;
  const second = await CheckpointStore.open("task-1", { store: openMemoryStore({ world }) });
  await second.save(step(2));
  for (let i = 0; i < 2; i++) {
    await expect(first.save(step(3))).rejects.toMatchObject({
      code: "LEASE_LOST",
      message: 'Another process has taken over task "task-1"; nothing was saved',
      data: { taskId: "task-1" },
    });
  }
  expect(await second.listVersions()).toEqual([1, 2]);
});
