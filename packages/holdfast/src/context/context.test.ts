import { existsSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Json, JsonObject } from "@holdfast/core/json";
import type { Store } from "@holdfast/core/store";
import { createMemoryDatabase, openMemoryStore } from "@holdfast/core/store-memory";
import { createTestRepository, userState } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { openHoldfast } from "../open.ts";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import { Checkpoint } from "./checkpoint.ts";
import { CheckpointStore, Context, type SaveParams } from "./context.ts";

describe("context", () => {
  function memory(taskId = "task-1"): CheckpointStore {
    const store = CheckpointStore.inMemory(taskId);
    onTestFinished(() => store.close());
    return store;
  }

  describe("state", () => {
    test("is like a Map, with the values of its parent behind it", () => {
      const parent = new Context("task-1");
      parent.state.set("a", 1).update({ list: [1], gone: null });
      const child = parent.fork("sub");
      child.state.set("a", 2).set("own", true);
      expect([child.state.get("a"), child.state.get("list"), child.state.get("gone")]).toEqual([2, [1], null]);
      expect([child.state.get("nothing"), child.state.get("nothing", 7), child.state.get("gone", 7)]).toEqual([
        undefined,
        7,
        null,
      ]);
      expect([child.state.has("list"), child.state.has("gone"), child.state.has("nothing")]).toEqual([
        true,
        true,
        false,
      ]);
      expect(child.state.keys()).toEqual(["a", "gone", "list", "own"]);
      expect([child.state.size, parent.state.size, child.state.local]).toEqual([4, 3, { a: 2, own: true }]);
      expect(Object.fromEntries(child.state)).toEqual(child.state.toJSON());
      expect(JSON.stringify(parent.state)).toBe('{"a":1,"gone":null,"list":[1]}');
      parent.state.set("late", "seen");
      expect(child.state.get("late")).toBe("seen");
    });

    test("deleting reveals the parent's value, and cannot delete it", () => {
      const parent = new Context("task-1");
      parent.state.set("a", 1);
      const child = parent.fork("sub");
      child.state.set("a", 2);
      expect([child.state.delete("a"), child.state.get("a"), child.state.delete("nothing")]).toEqual([true, 1, false]);
      expect(() => child.state.delete("a")).toThrow(
        expect.objectContaining({ code: "USAGE", hint: expect.stringContaining("null") }),
      );
      child.state.update({ x: 1, y: 2 }).clear();
      expect(child.state.toJSON()).toEqual({ a: 1 });
    });

    test("input is copied, output is frozen", () => {
      const context = new Context("task-1");
      const list: Json[] = [{ deep: [1] }];
      context.state.set("list", list);
      list.push(2);
      const seen = context.state.get("list");
      expect(seen).toEqual([{ deep: [1] }]);
      expect(() => (seen as Json[]).push(2)).toThrow(TypeError);
      expect(() => Object.assign(context.state.local, { x: 1 })).toThrow(TypeError);
    });

    test("a value that is not JSON is refused completely", () => {
      const context = new Context("task-1");
      expect(() => context.state.update({ good: 1, bad: undefined as unknown as Json })).toThrow(
        expect.objectContaining({ code: "NOT_JSON", data: { path: "/bad" } }),
      );
      expect(() => context.state.update([] as unknown as { a: 1 })).toThrow(expect.objectContaining({ code: "USAGE" }));
      expect(context.state.size).toBe(0);
    });
  });

  describe("tokens", () => {
    test("are added by name and shown as a copy", () => {
      const context = new Context("task-1");
      context.addTokens({ input_tokens: 100 }).addTokens({ input_tokens: 5, output_tokens: 1 });
      const seen = context.tokenUsage;
      expect(seen).toEqual({ input_tokens: 105, output_tokens: 1 });
      expect(Object.isFrozen(seen)).toBe(true);
    });

    test.each([{ input: -1 }, { input: 0.5 }, 5, null, [1]])("%j is refused", (tokens) => {
      expect(() => new Context("t").addTokens(tokens as { input: number })).toThrow(
        expect.objectContaining({ code: "USAGE" }),
      );
    });
  });

  describe("fork and merge", () => {
    test("a child's values and net tokens are merged once: 50, 30 and 20 are 100", () => {
      const root = new Context("root").addTokens({ input: 50 });
      const child = root.fork("child").addTokens({ input: 30 });
      const grandchild = child.fork("grandchild").addTokens({ input: 20 });
      grandchild.state.set("found", ["x"]);
      expect([child.parent, root.children, grandchild.tokenUsage]).toEqual([root, [child], { input: 100 }]);
      child.merge(grandchild);
      root.merge(child);
      expect([root.tokenUsage, root.state.get("found"), root.children]).toEqual([{ input: 100 }, ["x"], []]);
    });

    test("a second merge is refused (orbiter counted tokens twice), and a merged context is closed", () => {
      const root = new Context("root");
      const child = root.fork("child").addTokens({ input: 5 });
      root.merge(child);
      for (const act of [
        () => root.merge(child),
        () => child.state.set("a", 1),
        () => child.fork("x"),
        () => child.tokenUsage,
      ]) {
        expect(act).toThrow(
          expect.objectContaining({ code: "USAGE", message: expect.stringContaining("already been merged into root") }),
        );
      }
      expect(root.tokenUsage).toEqual({ input: 5 });
    });

    test("its name can be used again; the old context is not the new one", () => {
      const root = new Context("root");
      const first = root.fork("worker");
      expect(() => root.fork("worker")).toThrow(/Context worker already exists in this tree/);
      expect(root.children).toEqual([first]);
      root.merge(first);
      const second = root.fork("worker");
      second.state.set("a", 1);
      expect(() => root.merge(first)).toThrow(/already been merged/);
      expect(() => first.state.get("a")).toThrow(/already been merged/);
      root.merge(second);
      expect(root.state.get("a")).toBe(1);
    });

    test("only a parent merges its own child, and only if that has no open forks", () => {
      const root = new Context("root");
      const child = root.fork("child");
      const grandchild = child.fork("grandchild");
      const stranger = new Context("root").fork("child");
      for (const act of [
        () => root.merge(grandchild),
        () => root.merge(stranger),
        () => root.merge(root),
        () => child.discard(root),
      ]) {
        expect(act).toThrow(expect.objectContaining({ code: "USAGE", hint: expect.stringContaining("fork()") }));
      }
      expect(() => root.merge(child)).toThrow(/open fork grandchild/);
      expect(() => root.merge(undefined as unknown as Context)).toThrow(expect.objectContaining({ code: "USAGE" }));
    });

    test("changes on both sides are refused with the conflict, unless a rule decides", () => {
      const root = new Context("root");
      root.state.set("a", 0);
      const [x, y] = [root.fork("x"), root.fork("y")];
      x.state.set("a", 1);
      y.state.update({ a: 2, only: true });
      root.merge(x);
      const conflicts = [{ key: "a", base: 0, parent: 1, child: 2 }];
      expect(() => root.merge(y)).toThrow(
        expect.objectContaining({
          code: "CONFLICT",
          hint: expect.stringContaining("child_wins"),
          data: { parent: "root", child: "y", conflicts },
        }),
      );
      expect(root.state.has("only")).toBe(false);
      expect(() => root.merge(y, { onConflict: "me" as "refuse" })).toThrow(expect.objectContaining({ code: "USAGE" }));
      expect(root.merge(y, { onConflict: "child_wins" })).toEqual(conflicts);
      expect(root.state.toJSON()).toEqual({ a: 2, only: true });
    });

    test("a discarded child's values are dropped, its tokens and those below it are not", () => {
      const root = new Context("root");
      const child = root.fork("child").addTokens({ input: 3 });
      const below = child.fork("below").addTokens({ input: 4 });
      below.state.set("a", 1);
      root.discard(child);
      expect([root.tokenUsage, root.state.size, root.children]).toEqual([{ input: 7 }, 0, []]);
      expect(() => below.state.get("a")).toThrow(/already been discarded/);
      expect(() => root.discard(child)).toThrow(/already been discarded/);
    });

    test("memory does not grow with the number of past forks", () => {
      const root = new Context("root");
      for (let n = 0; n < 2000; n++) {
        const child = root.fork(`child-${n % 3}`);
        child.state.set("n", n);
        root.merge(child);
      }
      expect(root.state.get("n")).toBe(1999);
    });
  });

  describe("snapshot and restore", () => {
    test("the seed's own steps", async () => {
      const context = await memory().context();
      context.state.set("progress", "step 1");
      context.addTokens({ input_tokens: 100 });
      const checkpoint = await context.snapshot({ metadata: { step: 1 } });
      expect(checkpoint).toMatchObject({ version: 1, values: { progress: "step 1" }, metadata: { step: 1 } });
      const restored = Context.restore(checkpoint);
      expect(restored.state.get("progress")).toBe("step 1");
      expect([restored.tokenUsage, restored.parent, restored.children]).toEqual([{ input_tokens: 100 }, null, []]);
    });

    test("numbers and history continue after a restore (orbiter began at 1 again, with none)", async () => {
      const store = memory();
      const context = await store.context();
      const first = await context.snapshot();
      await context.snapshot();
      const restored = Context.restore(first, { store });
      expect((await restored.snapshot()).version).toBe(3);
      // By default it continues in the store that the checkpoint came from.
      expect((await Context.restore(await store.get(1)).snapshot()).version).toBe(4);
      expect(await restored.store?.listVersions()).toEqual([1, 2, 3, 4]);
    });

    test("in place: the context that others hold is restored (in orbiter's guide it silently was not)", async () => {
      const context = await memory().context();
      context.state.update({ step: 1, list: [1] });
      context.addTokens({ input: 10 });
      const checkpoint = await context.snapshot();
      context.state.update({ step: 2, list: [1, 2], extra: true });
      context.addTokens({ input: 5 });
      expect(context.restore(checkpoint)).toBe(context);
      expect([context.state.toJSON(), context.tokenUsage]).toEqual([{ step: 1, list: [1] }, { input: 10 }]);
      context.addTokens({ input: 5 });
      context.restore(checkpoint, { tokens: "keep" });
      expect(context.tokenUsage).toEqual({ input: 15 });
      expect((await context.snapshot()).version).toBe(2);
    });

    test("neither snapshot nor restored context shares anything with the live one", async () => {
      const context = await memory().context();
      const list = [1];
      context.state.set("list", list);
      const saving = context.snapshot();
      list.push(2);
      context.state.set("list", [9]);
      const checkpoint = await saving;
      const restored = Context.restore(checkpoint);
      restored.state.set("list", [7]);
      expect([checkpoint.values, context.state.get("list"), restored.state.get("list")]).toEqual([
        { list: [1] },
        [9],
        [7],
      ]);
    });

    test("a fork's snapshot belongs to its own task, and contains its visible values", async () => {
      const store = memory("main");
      const context = await store.context();
      context.state.set("a", 1);
      context.addTokens({ input: 100 });
      const child = context.fork("sub").addTokens({ input: 5 });
      child.state.set("b", 2);
      const checkpoint = await child.snapshot();
      expect(checkpoint).toMatchObject({
        taskId: "sub",
        version: 1,
        values: { a: 1, b: 2 },
        tokenUsage: { input: 105 },
      });
      child.state.set("b", 3);
      child.restore(checkpoint);
      expect([child.state.get("b"), child.tokenUsage]).toEqual([2, { input: 105 }]);
      context.merge(child);
      expect(context.tokenUsage).toEqual({ input: 105 });
      expect([await store.size(), await store.task("sub").size()]).toEqual([0, 1]);
      expect((await (await store.context("sub")).snapshot()).version).toBe(2);
    });

    test("resuming: a context starts with the newest checkpoint", async () => {
      const store = memory();
      const first = await store.context();
      first.state.set("page", 1);
      await first.addTokens({ input: 1 }).snapshot();
      const again = await store.context();
      expect([again.state.get("page"), again.tokenUsage]).toEqual([1, { input: 1 }]);
    });

    test("without a store everything works except the snapshot, which reports the reason", async () => {
      const made = new Context("task-1");
      const read = Context.restore(new Checkpoint({ taskId: "task-1", version: 7, values: { a: 1 }, tokenUsage: {} }));
      expect([made.store, read.state.get("a")]).toEqual([null, 1]);
      for (const context of [made, read, made.fork("sub")]) {
        await expect(context.snapshot()).rejects.toMatchObject({
          code: "USAGE",
          hint: expect.stringContaining("{ store }"),
        });
      }
    });

    test("conflicting options are refused", async () => {
      const store = memory();
      const checkpoint = await (await store.context()).snapshot();
      const other = new Context("other", { store: store.task("other") });
      expect(() => other.restore(checkpoint)).toThrow(
        expect.objectContaining({ code: "USAGE", data: { taskId: "task-1", contextTaskId: "other" } }),
      );
      expect(() => Context.restore(checkpoint, { store: store.task("other") })).toThrow(
        expect.objectContaining({ code: "USAGE", hint: expect.stringContaining('store.task("task-1")') }),
      );
      expect(() => Context.restore("checkpoint" as unknown as Checkpoint)).toThrow(/not from a value of type string/);
      expect(() => other.restore(checkpoint.toJSON() as unknown as Checkpoint)).toThrow(/fromJSON|from a Checkpoint/);
      expect(() => new Context("")).toThrow(expect.objectContaining({ code: "USAGE" }));
      await expect(other.snapshot({ meta: {} } as object)).rejects.toMatchObject({ code: "USAGE" });
    });
  });
});

describe("checkpoint store", () => {
  const step = (n: number): SaveParams => ({ values: { step: n }, tokenUsage: { input_tokens: 100 * n } });

  /** Further handles on the same data, as other processes would have. */
  const KINDS: readonly { readonly kind: string; readonly handles: () => () => Promise<Store> }[] = [
    {
      kind: "memory",
      handles: () => {
        const database = createMemoryDatabase();
        return () => Promise.resolve(openMemoryStore({ database }));
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

    test("versions count from 1, and a saved one is read back", async () => {
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

    test("an empty store has nothing, and reading it leaves nothing behind", async () => {
      const handle = await (await places())();
      const store = await CheckpointStore.open("task-1", { store: handle });
      expect(await store.latest()).toBeUndefined();
      expect([await store.listVersions(), await store.size(), await store.version()]).toEqual([[], 0, 0]);
      expect(await Array.fromAsync(store)).toEqual([]);
      expect(String(store)).toBe('CheckpointStore(taskId="task-1", checkpoints=0)');
      expect(await handle.listRuns()).toEqual([]);
    });

    test.each([0, -1, 3, 1.5, Number.NaN, "1" as unknown as number])(
      "version %s does not exist: a hint and data",
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
          message: `Task "task-1" has no version ${typeof version === "string" ? '"1"' : version}`,
          hint: "It has 2 up to version 2, from 1 on; listVersions() names them.",
          data: { taskId: "task-1", version, newest: 2, size: 2 },
        });
      },
    );

    test("input is copied at the call, including nested values and metadata", async () => {
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

    test("overlapping saves are versions in the order of the calls, also the very first ones", async () => {
      const store = await fresh();
      const saved = await Promise.all(Array.from({ length: 20 }, (_, n) => store.save(step(n + 1))));
      expect(saved.map(({ version, values }) => [version, values["step"]])).toEqual(
        Array.from({ length: 20 }, (_, n) => [n + 1, n + 1]),
      );
      expect((await store.get(7)).values).toEqual({ step: 7 });
    });

    test("an invalid save is refused, nothing is written, and the next version has the next number", async () => {
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

    test("a run of the store that is not a task is not written to", async () => {
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

    test("another handle sees the saved versions, and continues the numbers", async () => {
      const next = await places();
      const first = await CheckpointStore.open("task-1", { store: await next() });
      await first.save(step(1));
      const second = await CheckpointStore.open("task-1", { store: await next() });
      expect(String(second)).toContain("checkpoints=1");
      expect((await second.latest())?.values).toEqual({ step: 1 });
      await first.close();
      expect((await second.save(step(2))).version).toBe(2);
    });

    test("two writers of one task: the second gets an error, from save and already from context", async () => {
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

    test("a version that retention removed is reported as such; the others keep their numbers", async () => {
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
      await expect(store.get(9)).rejects.toMatchObject({
        hint: "It has 3 up to version 4; listVersions() names them.",
      });
    });

    test("a history that began elsewhere continues its numbers", async () => {
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

    test("closing releases the lease; a store of the caller stays open, and a further task closes only itself", async () => {
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

  describe("location", () => {
    test("in a directory: it persists", async () => {
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

    test("in a repository: in its own store by default, without touching files or refs, and Holdfast lists the run", async () => {
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

    test("neither: the hint lists the options", async () => {
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

  test("a writer whose lease was taken over gets an error, writes nothing, and can only open again", async () => {
    const database = createMemoryDatabase();
    const dead = { host: "here", pid: 1, started: "1", boot: "other" };
    const stolen = openMemoryStore({ database, identity: { ...dead } });
    const first = await CheckpointStore.open("task-1", { store: stolen });
    await first.save(step(1));
    // Simulates a laptop that slept too long, as another host sees it.
    database.connection.run("DELETE FROM leases");
    const second = await CheckpointStore.open("task-1", { store: openMemoryStore({ database }) });
    await second.save(step(2));
    for (let i = 0; i < 2; i++) {
      await expect(first.save(step(3))).rejects.toMatchObject({
        code: "LEASE_LOST",
        message: 'Another process has acquired task "task-1"; nothing was saved',
        data: { taskId: "task-1" },
      });
    }
    expect(await second.listVersions()).toEqual([1, 2]);
  });
});
