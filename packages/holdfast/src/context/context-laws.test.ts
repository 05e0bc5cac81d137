import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Json, JsonObject } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { withoutProtoKey } from "@holdfast/test-support/core/json-sample";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import type { Checkpoint } from "./checkpoint.ts";
import { CheckpointStore, Context } from "./context.ts";

/** The same acts on the embedded store and in memory, step by step: what the one answers, the other answers. */

const FULL = process.env["HOLDFAST_FULL"] === "1";
const TIMEOUT_MS = FULL ? 1_200_000 : 60_000;
const cleanUps: (() => unknown)[] = [];
let disk: CheckpointStore;
let cases = 0;
beforeAll(async () => {
  disk = await CheckpointStore.open("first", {
    store: join(
      scratchDirectory((remove) => void cleanUps.push(remove)),
      "store",
    ),
  });
});
afterAll(async () => {
  await disk.close();
  for (const cleanUp of cleanUps) await cleanUp();
});

const someValue = withoutProtoKey(fc.jsonValue({ maxDepth: 3 })).map(
  (value) => JSON.parse(JSON.stringify(value)) as Json,
);
const someKey = fc.constantFrom("a", "b", "constructor");
const someTokens = fc.dictionary(fc.constantFrom("input", "output"), fc.nat(1000), { maxKeys: 2 });
const who = fc.nat(9);
const someAct = fc.oneof(
  fc.record({ kind: fc.constant("set" as const), who, key: someKey, value: someValue }),
  fc.record({ kind: fc.constant("delete" as const), who, key: someKey }),
  fc.record({ kind: fc.constant("pop" as const), who, key: someKey }),
  fc.record({ kind: fc.constant("tokens" as const), who, tokens: someTokens }),
  fc.record({ kind: fc.constant("fork" as const), who, name: fc.constantFrom<string>("sub", "other") }),
  fc.record({ kind: fc.constant("merge" as const), who, wins: fc.constantFrom("refuse", "child_wins", "parent_wins") }),
  fc.record({ kind: fc.constant("discard" as const), who }),
  fc.record({ kind: fc.constant("snapshot" as const), who }),
  fc.record({ kind: fc.constant("snapshot" as const), who }),
  fc.record({ kind: fc.constant("save" as const), values: fc.dictionary(someKey, someValue), tokens: someTokens }),
  fc.record({ kind: fc.constant("rewind" as const), who, version: fc.integer({ min: 0, max: 6 }) }),
  fc.record({ kind: fc.constant("restore" as const), version: fc.integer({ min: 0, max: 6 }) }),
  fc.record({ kind: fc.constant("reopen" as const) }),
);
type Act = typeof someAct extends fc.Arbitrary<infer T> ? T : never;

/** One world: a store with its contexts. Contexts keep their place in the row, so that both worlds mean the same one. */
class World {
  readonly store: CheckpointStore;
  readonly contexts: Context[] = [];

  constructor(store: CheckpointStore) {
    this.store = store;
  }

  /** What came of it, as something that can be compared: a time is a label and differs. */
  async act(one: Act): Promise<Json> {
    try {
      return await this.#do(one);
    } catch (error) {
      // Anything else is a defect.
      if (!(error instanceof HoldfastError)) throw error;
      return `${error.code}: ${error.message.replaceAll(/case-\d+/g, "task")}`;
    }
  }

  async #do(one: Act): Promise<Json> {
    const context = this.#pick("who" in one ? one.who : 0);
    switch (one.kind) {
      case "set":
        context.state.set(one.key, one.value);
        return context.state.toJSON();
      case "delete":
        return context.state.delete(one.key);
      case "pop":
        return pop(context, one.key);
      case "tokens":
        return context.addTokens(one.tokens).tokenUsage;
      case "fork":
        this.contexts.push(context.fork(one.name));
        return this.contexts.length;
      case "merge":
        return this.#merge(context, one.wins as "refuse");
      case "discard":
        context.parent?.discard(context);
        return null;
      case "snapshot":
        return shown(await context.snapshot({ metadata: { n: this.contexts.length } }));
      case "save":
        return shown(await this.store.save({ values: one.values, tokenUsage: one.tokens }));
      case "rewind":
        return this.#rewind(context, one.version);
      case "restore":
        this.contexts.push(Context.restore(await this.store.get(one.version), { store: this.store }));
        return this.contexts.at(-1)?.state.toJSON() ?? null;
      case "reopen":
        this.contexts.push(await this.store.context());
        return this.contexts.at(-1)?.state.toJSON() ?? null;
    }
  }

  #pick(at: number): Context {
    const context = this.contexts[at % this.contexts.length];
    if (context === undefined) throw new Error("no context");
    return context;
  }

  /** Tokens are never lost and never counted twice, whichever side wins. */
  #merge(child: Context, onConflict: "refuse" | "child_wins" | "parent_wins"): Json {
    const { parent } = child;
    if (parent === null) return null;
    const [before, own] = [total(parent), child.state.local];
    const conflicts = parent.merge(child, { onConflict });
    const lost = new Set(onConflict === "parent_wins" ? conflicts.map(({ key }) => key) : []);
    for (const [key, value] of Object.entries(own)) {
      if (!lost.has(key)) expect(parent.state.get(key)).toEqual(value);
    }
    expect(total(parent)).toBeGreaterThanOrEqual(before);
    expect(() => parent.merge(child)).toThrow(/already been merged/);
    return [parent.state.toJSON(), parent.tokenUsage, conflicts.map(({ key }) => key)];
  }

  async #rewind(context: Context, version: number): Promise<Json> {
    const checkpoint = await (context.store ?? this.store).get(version);
    context.restore(checkpoint);
    if (context.parent === null) {
      expect([context.state.toJSON(), context.tokenUsage]).toEqual([checkpoint.values, checkpoint.tokenUsage]);
    }
    return [context.state.toJSON(), context.tokenUsage];
  }
}

test(
  "memory and sqlite agree on every operation, and versions are 1 to n without gaps",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(someAct, { minLength: 5, maxLength: 30 }), async (acts) => {
        const taskId = `case-${(cases += 1)}`;
        // Forks are tasks of the same store, so each case has its own store in memory and its own names on disk.
        await using memory = CheckpointStore.inMemory(taskId);
        const [left, right] = [new World(memory), new World(disk.task(taskId))];
        for (const world of [left, right]) world.contexts.push(await world.store.context());
        for (const act of acts) {
          const own = "name" in act ? { ...act, name: `${act.name}-${taskId}` } : act;
          expect(await right.act(own), JSON.stringify(own)).toEqual(await left.act(own));
        }
        const tasks = new Set([left, right].flatMap(({ contexts }) => contexts.map((context) => context.taskId)));
        for (const task of tasks) {
          const [inMemory, onDisk] = [memory.task(task), disk.task(task)];
          const versions = await onDisk.listVersions();
          expect(versions).toEqual(versions.map((_, index) => index + 1));
          expect(await inMemory.listVersions()).toEqual(versions);
          expect([await onDisk.size(), await onDisk.version()]).toEqual([versions.length, versions.length]);
          const all = await Array.fromAsync(onDisk);
          expect(all.map(shown)).toEqual((await Array.fromAsync(inMemory)).map(shown));
          await onDisk.close();
        }
      }),
      { numRuns: FULL ? 500 : 60 },
    );
  },
  TIMEOUT_MS,
);

test("a restored snapshot equals the context, also after it is saved and read", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.dictionary(someKey, someValue),
      someTokens,
      fc.dictionary(someKey, someValue),
      async (values, tokens, metadata) => {
        const store = disk.task(`case-${(cases += 1)}`);
        const context = new Context(store.taskId, { store }).addTokens(tokens);
        context.state.update(values);
        const checkpoint = await context.snapshot({ metadata });
        expect(checkpoint).toMatchObject({ values: context.state.toJSON(), tokenUsage: tokens, metadata });
        expect(await store.get(1)).toEqual(checkpoint);
        const restored = Context.restore(checkpoint);
        expect([restored.state.toJSON(), restored.tokenUsage]).toEqual([values, tokens]);
        const again = await restored.snapshot({ metadata });
        expect({ ...shown(again), version: 1 }).toEqual(shown(checkpoint));
        await store.close();
      },
    ),
    { numRuns: 40 },
  );
});

test("forking and merging immediately changes nothing; forking, setting and merging is setting", () => {
  fc.assert(
    fc.property(
      fc.dictionary(someKey, someValue),
      fc.dictionary(someKey, someValue),
      someTokens,
      (before, set, tokens) => {
        const context = new Context("task");
        context.state.update(before);
        context.merge(context.fork("idle"));
        expect([context.state.toJSON(), context.tokenUsage]).toEqual([before, {}]);
        const child = context.fork("child").addTokens(tokens);
        child.state.update(set);
        expect(context.state.toJSON()).toEqual(before);
        expect(child.state.toJSON()).toEqual({ ...before, ...set });
        expect(context.merge(child)).toEqual([]);
        expect([context.state.toJSON(), context.tokenUsage]).toEqual([{ ...before, ...set }, tokens]);
      },
    ),
  );
});

test("siblings that set different keys merge to the same in either order", () => {
  fc.assert(
    fc.property(someValue, someValue, someTokens, someTokens, (left, right, usedLeft, usedRight) => {
      const outcomes = [["x", "y"] as const, ["y", "x"] as const].map((order) => {
        const context = new Context("task");
        const children = { x: context.fork("x").addTokens(usedLeft), y: context.fork("y").addTokens(usedRight) };
        children.x.state.set("left", left);
        children.y.state.set("right", right);
        for (const name of order) context.merge(children[name]);
        return [context.state.toJSON(), context.tokenUsage];
      });
      expect(outcomes[0]).toEqual(outcomes[1]);
    }),
  );
});

function shown(checkpoint: Checkpoint): JsonObject {
  const { created_at: _when, ...rest } = checkpoint.toJSON();
  return rest;
}

/** Returns what was set in this context, or the fallback, and leaves no value of its own behind. */
function pop(context: Context, key: string): Json {
  const { state } = context;
  const { local } = state;
  const popped = state.pop(key, "fallback");
  expect(popped).toEqual(Object.hasOwn(local, key) ? local[key] : "fallback");
  expect(Object.hasOwn(state.local, key)).toBe(false);
  return popped;
}

function total(context: Context): number {
  return Object.values(context.tokenUsage).reduce((sum, amount) => sum + amount, 0);
}
