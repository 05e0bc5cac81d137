import { readFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Json, JsonObject } from "@holdfast/core/json";
import {
  Checkpoint,
  CheckpointError,
  CheckpointStore,
  Context,
  type ContextConfig,
  ContextError,
  HoldfastError,
} from "./index.ts";

// Every public name of orbiter's context package: each test has the name of its row in docs/context.md.

const page = readFileSync(join(import.meta.dirname, "../../../../docs/context.md"), "utf8");

function memory(taskId = "task-1"): CheckpointStore {
  const store = CheckpointStore.inMemory(taskId);
  onTestFinished(() => store.close());
  return store;
}

const fields = {
  taskId: "task-1",
  version: 1,
  values: { step: 1, data: "initial" },
  tokenUsage: { input_tokens: 100, output_tokens: 50 },
};
const usage = expect.objectContaining({ code: "USAGE" });

/** A root with `a`, and its fork with `b`. */
function family(): { readonly parent: Context; readonly child: Context } {
  const parent = new Context("release");
  parent.state.set("a", 1);
  const child = parent.fork("review");
  child.state.set("b", 2);
  return { parent, child };
}

const ROWS: Readonly<Record<string, () => void | Promise<void>>> = {
  "Checkpoint(…)": () => {
    expect(new Checkpoint(fields)).toMatchObject({ ...fields, metadata: {} });
    expect(() => new Checkpoint({ ...fields, taskId: "" })).toThrow(usage);
  },
  "Checkpoint.task_id": () => expect(new Checkpoint(fields).taskId).toBe("task-1"),
  "Checkpoint.version": () => expect(new Checkpoint(fields).version).toBe(1),
  "Checkpoint.values": () => {
    const { values } = new Checkpoint(fields);
    expect(values).toEqual({ step: 1, data: "initial" });
    expect(() => Object.assign(values, { step: 2 })).toThrow(TypeError);
  },
  "Checkpoint.token_usage": () =>
    expect(new Checkpoint(fields).tokenUsage).toEqual({ input_tokens: 100, output_tokens: 50 }),
  "Checkpoint.metadata": () => {
    expect(new Checkpoint(fields).metadata).toEqual({});
    expect(new Checkpoint({ ...fields, metadata: { description: "After step 1" } }).metadata).toEqual({
      description: "After step 1",
    });
  },
  "Checkpoint.created_at": () => {
    const createdAt = "2026-02-17T10:11:12.123456+00:00";
    expect(new Checkpoint({ ...fields, createdAt }).createdAt).toBe(createdAt);
    expect(new Checkpoint(fields).createdAt).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  },
  "Checkpoint.to_dict()": () =>
    expect(Object.keys(new Checkpoint(fields).toJSON())).toEqual([
      "task_id",
      "version",
      "values",
      "token_usage",
      "metadata",
      "created_at",
    ]),
  "Checkpoint.from_dict(data)": () => {
    const checkpoint = new Checkpoint(fields);
    expect(Checkpoint.fromJSON(checkpoint.toJSON()).equals(checkpoint)).toBe(true);
    expect(Checkpoint.fromJSON({ task_id: "task-1", version: 1 })).toMatchObject({ values: {}, tokenUsage: {} });
    expect(() => Checkpoint.fromJSON({ task_id: "task-1", version: "x" })).toThrow(
      expect.objectContaining({ code: "FORMAT_INVALID" }),
    );
  },
  "repr(checkpoint)": () => {
    expect(String(new Checkpoint(fields))).toBe('Checkpoint(taskId="task-1", version=1, keys=2)');
    expect(inspect(new Checkpoint(fields))).toContain("step: 1");
  },
  "checkpoint == other": () => {
    const checkpoint = new Checkpoint(fields);
    const { createdAt } = checkpoint;
    expect(checkpoint.equals(new Checkpoint({ ...fields, createdAt }))).toBe(true);
    expect(checkpoint.equals(new Checkpoint({ ...fields, createdAt, version: 2 }))).toBe(false);
  },
  "CheckpointStore(task_id)": () => {
    expect(memory("task-1")).toBeInstanceOf(CheckpointStore);
    expect(() => CheckpointStore.inMemory("")).toThrow(CheckpointError);
  },
  "CheckpointStore.task_id": () => expect(memory("task-1").taskId).toBe("task-1"),
  "CheckpointStore.version": async () => {
    const store = memory();
    expect(await store.version()).toBe(0);
    await store.save(fieldsToSave());
    expect(await store.version()).toBe(1);
  },
  "CheckpointStore.latest": async () => {
    const store = memory();
    expect(await store.latest()).toBeUndefined();
    const saved = await store.save(fieldsToSave());
    expect((await store.latest())?.equals(saved)).toBe(true);
  },
  "CheckpointStore.save(…)": async () => {
    const store = memory();
    const first = await store.save({ ...fieldsToSave(), metadata: { description: "After step 1" } });
    expect([first.version, first.metadata]).toEqual([1, { description: "After step 1" }]);
    expect((await store.save(fieldsToSave())).version).toBe(2);
  },
  "CheckpointStore.get(version)": async () => {
    const store = memory();
    const saved = await store.save(fieldsToSave());
    expect((await store.get(1)).equals(saved)).toBe(true);
    await expect(store.get(2)).rejects.toBeInstanceOf(CheckpointError);
  },
  "CheckpointStore.list_versions()": async () => {
    const store = memory();
    await store.save(fieldsToSave());
    await store.save(fieldsToSave());
    expect(await store.listVersions()).toEqual([1, 2]);
  },
  "len(store)": async () => {
    const store = memory();
    await store.save(fieldsToSave());
    expect(await store.size()).toBe(1);
  },
  "repr(store)": async () => {
    const store = memory();
    await store.save(fieldsToSave());
    expect([String(store), inspect(store)]).toEqual(Array(2).fill('CheckpointStore(taskId="task-1", checkpoints=1)'));
  },
  CheckpointError: () => expect(CheckpointError).toBe(HoldfastError),
  ContextError: () => {
    expect(ContextError).toBe(HoldfastError);
    expect(() => new Context("")).toThrow(ContextError);
  },
  "Context(task_id, config, parent, state)": () => {
    const context = new Context("task-1", { config: { mode: "copilot" } });
    context.state.update({ a: 1 });
    expect([context.parent, context.children, context.state.size]).toEqual([null, [], 1]);
    expect(() => new Context("task-1", { config: [] as unknown as ContextConfig })).toThrow(usage);
    expect(() => new Context("task-1", { config: { f: () => 1 } as unknown as ContextConfig })).toThrow(
      expect.objectContaining({ code: "NOT_JSON" }),
    );
  },
  "Context.task_id": () => expect(new Context("task-1").taskId).toBe("task-1"),
  "Context.config": async () => {
    const given = { mode: "copilot", thresholds: [1] };
    const store = memory();
    const context = await store.context("task-1", { config: given });
    given.thresholds.push(2);
    expect(context.config).toEqual({ mode: "copilot", thresholds: [1] });
    expect(Object.isFrozen(context.config["thresholds"])).toBe(true);
    expect(context.fork("child").fork("grandchild").config).toBe(context.config);
    expect(new Context("task-1").config).toEqual({});
    await context.snapshot();
    expect((await store.context()).config).toEqual({});
  },
  "Context.parent": () => {
    const { parent, child } = family();
    expect([child.parent, parent.parent]).toEqual([parent, null]);
  },
  "Context.state": () => expect(family().child.state.toJSON()).toEqual({ a: 1, b: 2 }),
  "Context.children": () => {
    const { parent, child } = family();
    expect(parent.children).toEqual([child]);
    parent.merge(child);
    expect(parent.children).toEqual([]);
  },
  "Context.token_usage": () => {
    const { parent } = family();
    parent.addTokens({ input: 3 });
    expect(parent.fork("other").addTokens({ input: 2 }).tokenUsage).toEqual({ input: 5 });
  },
  "Context.add_tokens(usage)": () => {
    const context = new Context("task-1").addTokens({ input: 3 }).addTokens({ input: 2, output: 1 });
    expect(context.tokenUsage).toEqual({ input: 5, output: 1 });
    expect(() => context.addTokens({ input: -1 })).toThrow(usage);
  },
  "Context.fork(task_id)": () => {
    const { parent, child } = family();
    expect([child.taskId, child.state.get("a"), parent.state.has("b")]).toEqual(["review", 1, false]);
  },
  "Context.merge(child)": () => {
    const { parent, child } = family();
    child.addTokens({ input: 5 });
    parent.merge(child);
    expect([parent.state.toJSON(), parent.tokenUsage]).toEqual([{ a: 1, b: 2 }, { input: 5 }]);
    expect(() => parent.merge(child)).toThrow(usage);
    expect(() => new Context("stranger").merge(child)).toThrow(usage);
    // Two siblings that set one key: orbiter keeps the last, Holdfast asks for the winner.
    const [one, two] = [parent.fork("one"), parent.fork("two")];
    one.state.set("a", "one");
    two.state.set("a", "two");
    parent.merge(one);
    expect(() => parent.merge(two)).toThrow(expect.objectContaining({ code: "CONFLICT" }));
    parent.merge(two, { onConflict: "child_wins" });
    expect(parent.state.get("a")).toBe("two");
  },
  "Context.checkpoints": () => {
    const store = memory();
    expect(new Context("task-1", { store }).checkpoints).toBe(store);
    expect(new Context("task-1").checkpoints).toBeNull();
  },
  "Context.snapshot(metadata)": async () => {
    const context = await memory().context();
    context.state.set("progress", "step 1");
    const checkpoint = await context.addTokens({ input_tokens: 100 }).snapshot({ metadata: { step: 1 } });
    expect(checkpoint).toMatchObject({ version: 1, values: { progress: "step 1" }, metadata: { step: 1 } });
    expect(checkpoint.tokenUsage).toEqual({ input_tokens: 100 });
  },
  "Context.restore(checkpoint, config)": () => {
    const checkpoint = new Checkpoint(fields);
    const restored = Context.restore(checkpoint, { config: { mode: "pilot" } });
    expect([restored.state.toJSON(), restored.tokenUsage, restored.config]).toEqual([
      fields.values,
      fields.tokenUsage,
      { mode: "pilot" },
    ]);
    expect(Context.restore(checkpoint).config).toEqual({});
    expect(() => Context.restore("task-1" as unknown as Checkpoint)).toThrow(CheckpointError);
  },
  "repr(context)": () => {
    const { parent, child } = family();
    expect([parent, child].map(String)).toEqual([
      'Context(taskId="release", children=1)',
      'Context(taskId="review", parent="release")',
    ]);
    expect(inspect(parent)).toBe(String(parent));
    parent.merge(child);
    expect(inspect(child)).toBe('Context(taskId="review", parent="release")');
  },
  "ContextState(data, parent)": () => {
    const { child } = family();
    expect(child.state.local).toEqual({ b: 2 });
  },
  "state.get(key, default)": () => {
    const { state } = family().child;
    expect([state.get("a"), state.get("b"), state.get("c"), state.get("c", 42)]).toEqual([1, 2, undefined, 42]);
  },
  "state[key]": () => {
    const { state } = family().child;
    expect([state.get("a"), state.has("c")]).toEqual([1, false]);
  },
  "state.set(key, value)": () => {
    const { parent, child } = family();
    child.state.set("a", 9);
    expect([child.state.get("a"), parent.state.get("a")]).toEqual([9, 1]);
  },
  "key in state": () => {
    const { state } = family().child;
    expect([state.has("a"), state.has("c")]).toEqual([true, false]);
  },
  "state.delete(key)": () => {
    const { child } = family();
    child.state.set("a", 9);
    expect([child.state.delete("a"), child.state.get("a"), child.state.delete("c")]).toEqual([true, 1, false]);
    expect(() => child.state.delete("a")).toThrow(usage);
  },
  "state.pop(key, default)": () => {
    const { parent, child } = family();
    expect([child.state.pop("b"), child.state.has("b")]).toEqual([2, false]);
    expect([child.state.pop("c", "default"), child.state.pop("c", undefined)]).toEqual(["default", undefined]);
    expect([child.state.pop("a", 7), parent.state.get("a")]).toEqual([7, 1]);
    expect(() => child.state.pop("a")).toThrow(usage);
    expect(() => child.state.pop("c")).toThrow(usage);
    child.state.set("a", null);
    expect([child.state.pop("a", 7), child.state.get("a")]).toEqual([null, 1]);
    parent.merge(child);
    expect(() => child.state.pop("a", 7)).toThrow(usage);
  },
  "state.clear()": () => {
    const { state } = family().child;
    state.clear();
    expect([state.local, state.toJSON()]).toEqual([{}, { a: 1 }]);
  },
  "state.update(…)": () => {
    const { child } = family();
    const other = new Context("other");
    other.state.update({ x: 10 }).update(child.state);
    expect(other.state.toJSON()).toEqual({ b: 2, x: 10 });
    expect(() => other.state.update({ y: 1, bad: undefined as unknown as Json })).toThrow(HoldfastError);
    expect(other.state.has("y")).toBe(false);
  },
  "state.parent": () => {
    const { parent, child } = family();
    expect(child.parent?.state).toBe(parent.state);
  },
  "state.local_dict()": () => expect(family().child.state.local).toEqual({ b: 2 }),
  "state.to_dict()": () => expect(family().child.state.toJSON()).toEqual({ a: 1, b: 2 }),
  "state.keys()": () => expect(family().child.state.keys()).toEqual(["a", "b"]),
  "len(state)": () => {
    const { state } = family().child;
    state.set("a", 9);
    expect(state.size).toBe(2);
  },
  "iter(state)": () => {
    const pairs: JsonObject = Object.fromEntries(family().child.state);
    expect(pairs).toEqual({ a: 1, b: 2 });
  },
  "bool(state)": () =>
    expect([new Context("task-1").state.size > 0, family().child.state.size > 0]).toEqual([false, true]),
  "repr(state)": () => {
    const { parent, child } = family();
    child.state.set("a", 9);
    expect([parent, child].map(({ state }) => String(state))).toEqual([
      "ContextState(local=1)",
      "ContextState(local=2, inherited=0)",
    ]);
    parent.merge(child);
    expect(inspect(child.state)).toBe("ContextState(closed)");
  },
  ContextConfig: () => {
    const config: ContextConfig = { mode: "navigator", history_rounds: 10, neuron_names: ["task"] };
    expect(new Context("task-1", { config }).config).toEqual(config);
  },
};

function fieldsToSave(): { readonly values: JsonObject; readonly tokenUsage: Readonly<Record<string, number>> } {
  const { values, tokenUsage } = fields;
  return { values, tokenUsage };
}

describe("names of orbiter's classes", () => {
  test.each(Object.entries(ROWS))("%s", async (_name, check) => {
    await check();
  });

  test("the table in docs/context.md has a row for each, and no other", () => {
    const section = page.split("\n## ").find((part) => part.startsWith("Coming from orbiter")) ?? "";
    const names = [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name);
    expect(names).toEqual(Object.keys(ROWS));
  });
});
