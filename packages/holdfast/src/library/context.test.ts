import { describe, expect, onTestFinished, test } from "vitest";
import type { Json } from "../core/json.ts";
import { CheckpointStore } from "./checkpoint-store.ts";
import { Checkpoint } from "./checkpoint.ts";
import { Context } from "./context.ts";

function memory(taskId = "task-1"): CheckpointStore {
  const store = CheckpointStore.inMemory(taskId);
  onTestFinished(() => store.close());
  return store;
}

describe("state", () => {
  test("is like a Map, with what a parent has behind it", () => {
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
    expect([child.state.has("list"), child.state.has("gone"), child.state.has("nothing")]).toEqual([true, true, false]);
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

  test("what goes in is copied, what comes out is frozen", () => {
    const context = new Context("task-1");
    const list: Json[] = [{ deep: [1] }];
    context.state.set("list", list);
    list.push(2);
    const seen = context.state.get("list");
    expect(seen).toEqual([{ deep: [1] }]);
    expect(() => (seen as Json[]).push(2)).toThrow(TypeError);
    expect(() => Object.assign(context.state.local, { x: 1 })).toThrow(TypeError);
  });

  test("what is no JSON is refused whole", () => {
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
  test("a child's values and net tokens come back once: 50, 30 and 20 are 100", () => {
    const root = new Context("root").addTokens({ input: 50 });
    const child = root.fork("child").addTokens({ input: 30 });
    const grandchild = child.fork("grandchild").addTokens({ input: 20 });
    grandchild.state.set("found", ["x"]);
    expect([child.parent, root.children, grandchild.tokenUsage]).toEqual([root, [child], { input: 100 }]);
    child.merge(grandchild);
    root.merge(child);
    expect([root.tokenUsage, root.state.get("found"), root.children]).toEqual([{ input: 100 }, ["x"], []]);
  });

  test("twice is refused (orbiter counted tokens twice), and what was merged is closed", () => {
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

  test("its name is free again; the old one does not stand for the new", () => {
    const root = new Context("root");
    const first = root.fork("worker");
    expect(() => root.fork("worker")).toThrow(/a context worker in this tree already/);
    expect(root.children).toEqual([first]);
    root.merge(first);
    const second = root.fork("worker");
    second.state.set("a", 1);
    expect(() => root.merge(first)).toThrow(/already been merged/);
    expect(() => first.state.get("a")).toThrow(/already been merged/);
    root.merge(second);
    expect(root.state.get("a")).toBe(1);
  });

  test("only a parent merges its own child, and only when that has no open forks", () => {
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

  test("what both changed is refused with the conflict, unless told who wins", () => {
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

  test("a discarded child's values are forgotten, its tokens and those below it are not", () => {
    const root = new Context("root");
    const child = root.fork("child").addTokens({ input: 3 });
    const below = child.fork("below").addTokens({ input: 4 });
    below.state.set("a", 1);
    root.discard(child);
    expect([root.tokenUsage, root.state.size, root.children]).toEqual([{ input: 7 }, 0, []]);
    expect(() => below.state.get("a")).toThrow(/already been discarded/);
    expect(() => root.discard(child)).toThrow(/already been discarded/);
  });

  test("a family does not grow with the forks that it had", () => {
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

  test("numbers go on and history stays after a restore (orbiter began at 1 again, with none)", async () => {
    const store = memory();
    const context = await store.context();
    const first = await context.snapshot();
    await context.snapshot();
    const restored = Context.restore(first, { store });
    expect((await restored.snapshot()).version).toBe(3);
    // Without saying so, it goes on where the checkpoint came from.
    expect((await Context.restore(await store.get(1)).snapshot()).version).toBe(4);
    expect(await restored.store?.listVersions()).toEqual([1, 2, 3, 4]);
  });

  test("in place: the context that others hold goes back (in orbiter's guide it silently did not)", async () => {
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

  test("a fork's snapshot is of its own task, and holds what it sees", async () => {
    const store = memory("main");
    const context = await store.context();
    context.state.set("a", 1);
    context.addTokens({ input: 100 });
    const child = context.fork("sub").addTokens({ input: 5 });
    child.state.set("b", 2);
    const checkpoint = await child.snapshot();
    expect(checkpoint).toMatchObject({ taskId: "sub", version: 1, values: { a: 1, b: 2 }, tokenUsage: { input: 105 } });
    child.state.set("b", 3);
    child.restore(checkpoint);
    expect([child.state.get("b"), child.tokenUsage]).toEqual([2, { input: 105 }]);
    context.merge(child);
    expect(context.tokenUsage).toEqual({ input: 105 });
    expect([await store.size(), await store.task("sub").size()]).toEqual([0, 1]);
    expect((await (await store.context("sub")).snapshot()).version).toBe(2);
  });

  test("going on: a context begins where the newest checkpoint stands", async () => {
    const store = memory();
    const first = await store.context();
    first.state.set("page", 1);
    await first.addTokens({ input: 1 }).snapshot();
    const again = await store.context();
    expect([again.state.get("page"), again.tokenUsage]).toEqual([1, { input: 1 }]);
  });

  test("without a store everything works but the snapshot, which says why", async () => {
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

  test("what does not fit together is refused", async () => {
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
