import { Checkpoint, CheckpointError, CheckpointStore, Context } from "../../src/context/index.ts";
import type {
  CheckpointDocument,
  ContextConfig,
  ContextConflict,
  ContextState,
  HoldfastError,
  Json,
  JsonObject,
  TokenUsage,
} from "../../src/context/index.ts";

/** Never run: what the compiler must accept, must refuse, and must infer. */

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function is<A, B>(same: Same<A, B>): void;

export async function inferred(): Promise<void> {
  await using store = await CheckpointStore.open("task-1", { store: "./state", leaseWaitMs: 10 });
  const saved = await store.save({ values: { a: [1, { b: null }] }, tokenUsage: { input: 1 } });
  is<typeof saved, Checkpoint>(true);
  is<Awaited<ReturnType<typeof store.latest>>, Checkpoint | undefined>(true);
  is<Awaited<ReturnType<typeof store.listVersions>>, readonly number[]>(true);
  is<Awaited<ReturnType<typeof store.size>>, number>(true);
  for await (const checkpoint of store) is<typeof checkpoint, Checkpoint>(true);
  is<typeof saved.values, JsonObject>(true);
  is<ReturnType<typeof saved.toJSON>, CheckpointDocument>(true);
  is<CheckpointDocument["token_usage"], Readonly<Record<string, number>>>(true);

  const context = await store.context();
  is<typeof context, Context>(true);
  is<typeof context.state, ContextState>(true);
  is<typeof context.tokenUsage, TokenUsage>(true);
  is<typeof context.store, CheckpointStore | null>(true);
  is<typeof context.parent, Context | null>(true);
  const found = context.state.get("a");
  is<typeof found, Json | undefined>(true);
  const fallen = context.state.get("a", "none" as const);
  is<typeof fallen, Json>(true);
  const dated = context.state.get("a", new Date(0));
  is<typeof dated, Json | Date>(true);
  const popped = context.state.pop("a");
  is<typeof popped, Json>(true);
  const poppedDate = context.state.pop("a", new Date(0));
  is<typeof poppedDate, Json | Date>(true);
  is<typeof context.config, ContextConfig>(true);
  const conflicts = context.merge(context.fork("x"), { onConflict: "child_wins" });
  is<typeof conflicts, readonly ContextConflict[]>(true);
  const again = Context.restore(saved, { store }).restore(saved, { tokens: "keep" });
  is<typeof again, Context>(true);
  const chained = context.addTokens({ input: 1 }).state.set("a", 1).set("b", 2);
  is<typeof chained, ContextState>(true);
  const error: unknown = undefined;
  if (error instanceof CheckpointError) is<typeof error, HoldfastError>(true);
}

export async function refused(store: CheckpointStore, context: Context, checkpoint: Checkpoint): Promise<void> {
  // @ts-expect-error a store belongs to a task
  await CheckpointStore.open();
  // @ts-expect-error it is made by open or inMemory
  void new CheckpointStore("task-1");
  // @ts-expect-error tokens are counted
  await store.save({ values: {} });
  // @ts-expect-error spelt otherwise
  await store.save({ values: {}, token_usage: {} });
  // @ts-expect-error a function is not JSON
  await store.save({ values: { f: () => 1 }, tokenUsage: {} });
  // @ts-expect-error counters are numbers
  await store.save({ values: {}, tokenUsage: { input: "1" } });
  // @ts-expect-error a version is a number
  await store.get("1");
  // @ts-expect-error asking takes time: it is a method
  const size: number = store.size;
  // @ts-expect-error there may be none
  const latest: Checkpoint = await store.latest();

  // @ts-expect-error immutable
  checkpoint.version = 2;
  // @ts-expect-error immutable, deeply
  checkpoint.values["a"] = 1;
  // @ts-expect-error immutable, deeply
  checkpoint.tokenUsage["input"] = 1;
  // @ts-expect-error a checkpoint belongs to a task
  void new Checkpoint({ version: 1, values: {}, tokenUsage: {} });

  // @ts-expect-error a Date is not JSON
  context.state.set("when", new Date(0));
  // @ts-expect-error undefined is not JSON
  context.state.set("nothing", undefined);
  // @ts-expect-error it may not be there, and may be anything
  const text: string = context.state.get("a");
  // @ts-expect-error read-only
  context.state = new Map();
  // @ts-expect-error one of three words
  context.merge(context, { onConflict: "me" });
  // @ts-expect-error a version is read first: restore(await store.get(1))
  context.restore(1);
  // @ts-expect-error documents are read with fromJSON
  Context.restore(checkpoint.toJSON());
  // @ts-expect-error metadata is an object
  await context.snapshot({ metadata: "step 1" });
  // @ts-expect-error counters are numbers
  context.addTokens({ input: 1n });
  void [size, latest, text];
}
