import { z } from "zod";
import {
  type Checkpoint,
  type Holdfast,
  type Json,
  type JsonObject,
  type RunHandle,
  type StageContext,
  type StageFunction,
  type StageResult,
  type StateSchema,
  type Workflow,
  defineWorkflow,
  open,
} from "../../src/index.ts";

/** Never run: what the compiler must accept, must refuse, and must infer. */

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function is<A, B>(same: Same<A, B>): void;

interface Address {
  readonly street: string;
}
interface Person {
  name: string;
  age: number | null;
  note?: string;
  homes: Address[];
  byName: Record<string, Address>;
  friends: readonly Person[];
}
const person: Person = { name: "Ada", age: null, homes: [], byName: {}, friends: [] };
const PersonSchema = z.object({ name: z.string(), age: z.number().nullable(), note: z.string().optional() });

const table = {
  name: "greet",
  initial: "greet",
  transitions: { greet: { greeted: "done" } },
  ends: { done: "done" },
} as const;

export async function typedRuns(): Promise<void> {
  await using holdfast = await open({ store: "./state" });
  const plain = await holdfast.createRun({ id: "plain" });
  is<typeof plain, RunHandle>(true);
  await plain.save({ values: { any: ["json", { at: null }] } });
  is<Awaited<ReturnType<typeof plain.latest>>, Checkpoint | undefined>(true);

  const typed = await holdfast.createRun<Person>({ id: "typed" });
  await typed.save({ values: person });
  await typed.save({ stage: "without values" });
  const stored = (await typed.get(1)).planes.context.values;
  is<typeof stored, Person>(true);
  const fork = await typed.fork({ sequence: 1 });
  is<typeof fork, RunHandle<Person>>(true);
  is<Awaited<ReturnType<typeof holdfast.run<Person>>>, RunHandle<Person>>(true);

  const checked = await holdfast.createRun({ id: "checked", values: PersonSchema });
  await checked.save({ values: { name: "Ada", age: 36 } });
  const values = (await checked.latest())?.planes.context.values;
  is<typeof values, { name: string; age: number | null; note?: string | undefined } | undefined>(true);
  const again = await holdfast.run("plain");
  is<typeof again, RunHandle>(true);

  // @ts-expect-error age is a number or null
  await typed.save({ values: { ...person, age: "36" } });
  // @ts-expect-error a field is missing
  await checked.save({ values: { name: "Ada" } });
  // @ts-expect-error a Date is not JSON
  await holdfast.createRun<{ when: Date }>();
  // @ts-expect-error neither is a Map, at any depth
  await holdfast.createRun<{ list: { map: Map<string, string> }[] }>();
  // @ts-expect-error a method is not JSON
  await holdfast.run<{ greet(): string }>("typed");
  // @ts-expect-error undefined is not JSON
  await holdfast.createRun<{ name: string | undefined }>();
  // @ts-expect-error a schema whose result is not JSON
  await holdfast.createRun({ values: z.object({ when: z.date() }) });
  // @ts-expect-error not a schema
  await holdfast.createRun({ values: { name: "Ada" } });
  // @ts-expect-error a function is not JSON
  await plain.save({ values: { f: () => 1 } });
}

export async function typedWorkflows(holdfast: Holdfast): Promise<void> {
  const greet: StageFunction<Person> = async ({ state, step }) => {
    const homes = await step("homes", () => state.homes);
    is<typeof homes, Address[]>(true);
    return { event: "greeted", reason: state.name, state: { ...state, homes } };
  };
  const named = defineWorkflow<Person>({ ...table, stages: { greet }, initialState: () => person });
  is<typeof named, Workflow<Person>>(true);
  const inferred = defineWorkflow({
    ...table,
    initialState: () => person,
    stages: { greet: async ({ state }) => ({ event: "greeted", reason: state.homes[0]?.street ?? "none" }) },
    reduce: (state, event) => ({ ...state, name: String(event) }),
  });
  is<typeof inferred, Workflow<Person>>(true);
  const checked = defineWorkflow({
    ...table,
    state: PersonSchema,
    initialState: () => ({ name: "Ada", age: null }),
    stages: {
      async greet({ state }) {
        is<typeof state, { name: string; age: number | null; note?: string | undefined }>(true);
        return { event: "greeted", reason: state.name, state: { ...state, age: 36 } };
      },
    },
  });
  const any: readonly Workflow[] = [named, inferred, checked];
  for (const workflow of any) await holdfast.start({ workflow, work: { kind: "none" } });
  const schema: StateSchema<{ name: string }> = z.object({ name: z.string() });
  defineWorkflow({ ...table, state: schema, initialState: () => ({ name: "Ada" }), stages: {} });

  // @ts-expect-error a Date is not JSON
  defineWorkflow<{ when: Date }>({ ...table, stages: {}, initialState: () => ({ when: new Date() }) });
  // @ts-expect-error neither is a bigint that is inferred
  defineWorkflow({ ...table, stages: {}, initialState: () => ({ count: 1n }) });
  // @ts-expect-error the initial state must match the schema
  defineWorkflow({ ...table, stages: {}, state: PersonSchema, initialState: () => ({ name: 7, age: null }) });
  // @ts-expect-error the schema's result is not JSON
  defineWorkflow({ ...table, stages: {}, state: z.object({ at: z.date() }), initialState: () => ({ at: new Date() }) });
  // @ts-expect-error a stage returns another state
  const wrong: StageResult<Person> = { event: "greeted", reason: "", state: { name: "Ada" } };
  void wrong;
}

export async function typedSteps(context: StageContext<Person>, json: Json, object: JsonObject): Promise<void> {
  is<typeof context.state, Person>(true);
  const one = await context.step("one", () => person);
  is<typeof one, Person>(true);
  const later = await context.step("later", async (): Promise<Person | null> => person);
  is<typeof later, Person | null>(true);
  const many = await context.step("many", () => [person]);
  is<typeof many, Person[]>(true);
  const anything = await context.step("json", () => json);
  is<typeof anything, Json>(true);
  const kind = await context.step("kind", async () =>
    one.age === null ? { kind: "a" as const } : { kind: "b" as const },
  );
  const word: "a" | "b" = kind.kind;
  const recorded = await context.record("event", person);
  is<typeof recorded, Person>(true);
  const outcome = await context.effect({
    purpose: "greet",
    kind: "greeting",
    target: "Ada",
    payload: object,
    lookUp: async () => ({ kind: "absent" }),
    act: async () => ({ kind: "done", receipt: person }),
  });
  if (outcome.kind === "done") is<typeof outcome.receipt, Person>(true);

  // @ts-expect-error a step must return something that JSON holds
  await context.step("nothing", () => undefined);
  // @ts-expect-error a step must return something
  await context.step("void", async () => {});
  // @ts-expect-error a Date is not JSON
  await context.step("date", () => new Date());
  // @ts-expect-error a function is not JSON
  await context.step("function", () => () => 1);
  // @ts-expect-error a Set is not JSON, at any depth
  await context.step("deep", () => ({ list: [{ set: new Set<string>() }] }));
  // @ts-expect-error a bigint is not JSON
  await context.record("bigint", 1n);
  // @ts-expect-error unknown may be anything
  await context.record("unknown", { it: object as unknown });
  void word;
}
