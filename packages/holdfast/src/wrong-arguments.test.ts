import { join } from "node:path";
import { resumePoint } from "@holdfast/core/position";
import { isEnded } from "@holdfast/core/run";
import { runGraph } from "@holdfast/core/run-graph";
import { parseValues } from "@holdfast/core/state-schema";
import { isHeld, statusWord, waitsForYou } from "@holdfast/core/status";
import { openMemoryStore } from "@holdfast/core/store-memory";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import { type StageContext, defineWorkflow } from "@holdfast/core/workflow";
import { HoldfastError } from "@holdfast/platform/error";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CheckpointStore, Context } from "./context/index.ts";
import type { Holdfast } from "./holdfast.ts";
import { doctor } from "./doctor.ts";
import { parseFindTarget } from "./find-run.ts";
import { ImplState, loadCheckpoint, saveCheckpoint } from "./interop/impl-state.ts";
import { type OpenParams, openHoldfast } from "./open.ts";

const workflow = defineWorkflow({
  name: "one-step",
  initial: "work",
  stages: { work: async () => ({ event: "worked", reason: "hello" }) },
  transitions: { work: { worked: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
});

/** Values that plain JavaScript can pass where the types ask for something else. */
const cyclic: Record<string, unknown> = {};
cyclic["self"] = cyclic;
const WRONG: readonly unknown[] = [
  null,
  Number.NaN,
  -1,
  1.5,
  10n,
  Symbol("s"),
  () => 1,
  cyclic,
  Object.create(null),
  new Map(),
  new Date(0),
  "a\0b",
];
const noText = (value: unknown): boolean => typeof value !== "string";
const noFunction = (value: unknown): boolean => typeof value !== "function";
const noNullOrText = (value: unknown): boolean => noText(value) && value !== null;
const noObject = (value: unknown): boolean => typeof value !== "object" || value === null;
const noPlain = (value: unknown): boolean => noObject(value) || value instanceof Map || value instanceof Date;
const noAmount = (value: unknown): boolean => value !== 1.5;
const all = (): boolean => true;

const cleanUps: (() => void)[] = [];
const directory = scratchDirectory((dispose) => void cleanUps.push(dispose));
let holdfast: Holdfast;

beforeAll(async () => {
  holdfast = await openHoldfast({ cwd: directory, store: join(directory, "store") });
  const run = await holdfast.createRun({ id: "base" });
  await run.save({ values: { page: 1 } });
});
afterAll(async () => {
  await holdfast.close();
  for (const cleanUp of cleanUps) cleanUp();
});

/** What an untyped caller does. Each row: the call, which of the values are wrong for it, the call itself. */
type Call = (value: never) => unknown;
const openWith = (name: keyof OpenParams) => async (value: never) => {
  const store = join(directory, "other");
  await using other = await openHoldfast({ cwd: directory, store, [name]: value });
  return other;
};
const onRun = async () => await holdfast.run("base");
let count = 0;
const begin = (changes: object) =>
  holdfast.start({ workflow, work: { kind: "none" }, id: `begun-${(count += 1)}`, ...changes });

const CALLS: Readonly<Record<string, readonly [(value: unknown) => boolean, Call]>> = {
  "open()": [noPlain, (value) => openHoldfast(value)],
  "open cwd": [all, openWith("cwd")],
  "open store": [all, openWith("store")],
  "open create": [all, openWith("create")],
  "open readOnly": [all, openWith("readOnly")],
  "open leaseWaitMs": [noAmount, openWith("leaseWaitMs")],
  "open adapters": [noFunction, openWith("adapters")],
  "open loops": [noObject, openWith("loops")],
  "createRun()": [noPlain, (value) => holdfast.createRun(value)],
  "createRun id": [all, (value) => holdfast.createRun({ id: value })],
  "createRun workspace": [all, (value) => holdfast.createRun({ workspace: value })],
  "createRun labels": [noPlain, (value) => holdfast.createRun({ labels: value })],
  "createRun issue": [all, (value) => holdfast.createRun({ work: { kind: "issue", number: value } })],
  "createRun task": [noText, (value) => holdfast.createRun({ work: { kind: "task", text: value } })],
  "run()": [all, (value) => holdfast.run(value)],
  "resolve()": [all, (value) => holdfast.resolve(value)],
  "listRuns()": [noObject, (value) => holdfast.listRuns(value)],
  "listRuns limit": [all, (value) => holdfast.listRuns({ limit: value })],
  "listRuns workflow": [noText, (value) => holdfast.listRuns({ workflow: value })],
  "diff()": [noObject, (value) => holdfast.diff(value)],
  "compare()": [all, (value) => holdfast.compare(value)],
  "compare text": [all, (value) => holdfast.compare(["base", "base"], { text: value })],
  "diff format": [all, (value) => holdfast.diff({ from: "base", format: value })],
  "planGc policy": [noObject, (value) => holdfast.planGc({ policy: value })],
  "applyGc()": [noObject, (value) => holdfast.applyGc(value)],
  "planRemoval()": [noText, (value) => holdfast.planRemoval(value)],
  "removeRun()": [noObject, (value) => holdfast.removeRun(value, { by: "a test" })],
  "repair()": [all, (value) => holdfast.repair(value)],
  "find()": [noObject, (value) => holdfast.find(value)],
  "undo effect": [all, (value) => holdfast.undo("base", value)],
  "verify()": [noObject, async (value) => await Array.fromAsync(holdfast.verify(value))],
  "save()": [noPlain, async (value) => (await onRun()).save(value)],
  "save trigger": [all, async (value) => (await onRun()).save({ trigger: value })],
  "get()": [all, async (value) => (await onRun()).get(value)],
  "list limit": [all, async (value) => (await onRun()).list({ limit: value })],
  "list trigger": [all, async (value) => (await onRun()).list({ trigger: value })],
  "list stage": [noText, async (value) => (await onRun()).list({ stage: value })],
  "log after": [all, async (value) => Array.fromAsync((await onRun()).log({ after: value }))],
  "watch()": [all, async (value) => Array.fromAsync((await onRun()).watch(value))],
  "tag name": [all, async (value) => (await onRun()).tag(1, value)],
  "tag from": [all, async (value) => (await onRun()).tag(1, "t", { from: value })],
  "planRestore()": [noObject, async (value) => (await onRun()).planRestore(value)],
  "planRestore only": [all, async (value) => (await onRun()).planRestore({ sequence: 1, only: value })],
  "patches()": [all, async (value) => (await onRun()).patches(value)],
  "choosePatches()": [all, async (value) => (await onRun()).choosePatches(value, [])],
  "choosePatches patches": [all, async (value) => (await onRun()).choosePatches(await restorePlan(), value)],
  "choosePatches patch": [noPlain, async (value) => (await onRun()).choosePatches(await restorePlan(), [value])],
  "createRun values": [all, (value) => holdfast.createRun({ values: value })],
  "the result of a schema": [all, (value) => checked(() => value)],
  "the issues of a schema": [all, (value) => checked(() => ({ issues: value }))],
  "an issue of a schema": [all, (value) => checked(() => ({ issues: [value] }))],
  "the path of an issue": [all, (value) => checked(() => ({ issues: [{ message: "m", path: value }] }))],
  "a part of the path of an issue": [all, (value) => checked(() => ({ issues: [{ message: "m", path: [value] }] }))],
  "a schema that throws": [all, (value) => checked(() => raise(value))],
  "a schema that is a thenable": [all, (value) => checked(() => ({ [THEN]: () => value }))],
  "a schema whose getter throws": [
    all,
    (value) =>
      holdfast.createRun({ values: Object.defineProperty({}, "~standard", { get: () => raise(value) }) as never }),
  ],
  "applyRestore()": [noObject, async (value) => (await onRun()).applyRestore(value)],
  "preview()": [all, async (value) => (await onRun()).preview(value)],
  "fork()": [noObject, async (value) => (await onRun()).fork(value)],
  "fork id": [all, async (value) => (await onRun()).fork({ sequence: 1, id: value })],
  "start()": [noObject, (value) => holdfast.start(value)],
  "start workflow": [all, (value) => begin({ workflow: value })],
  "start work": [noObject, (value) => begin({ work: value })],
  "start agent": [noNullOrText, (value) => begin({ agent: value })],
  "start mode": [all, (value) => begin({ mode: value })],
  "start workspace": [all, (value) => begin({ workspace: value })],
  "start signal": [all, (value) => begin({ signal: value })],
  "start labels": [noObject, (value) => begin({ labels: value })],
  "start options": [noObject, (value) => begin({ options: value })],
  "start limit": [noObject, (value) => begin({ limit: value })],
  "the result of a stage": [all, (value) => begin({ workflow: withStage(async () => value) })],
  "step name": [all, (value) => inStage((context) => context.step(value, () => 1))],
  "step function": [noFunction, (value) => inStage((context) => context.step("s", value))],
  "step options": [noObject, (value) => inStage((context) => context.step("s", () => 1, value))],
  "step artifacts": [all, (value) => inStage((context) => context.step("s", () => 1, { artifacts: value }))],
  "effect()": [noObject, (value) => inStage((context) => context.effect(value))],
  "effect purpose": [all, (value) => inStage((context) => context.effect({ ...effect, purpose: value }))],
  "effect lookUp": [noFunction, (value) => inStage((context) => context.effect({ ...effect, lookUp: value }))],
  "effect act": [noFunction, (value) => inStage((context) => context.effect({ ...effect, act: value }))],
  "agent()": [noObject, (value) => inStage((context) => context.agent(value))],
  "agent prompt": [noText, (value) => inStage((context) => context.agent({ ...call, prompt: value }))],
  "sleep name": [all, (value) => inStage((context) => context.sleep(value, 1))],
  "sleep time": [noAmount, (value) => inStage((context) => context.sleep("s", value))],
  "wait()": [noObject, (value) => inStage((context) => context.wait(value))],
  "decide()": [noObject, (value) => inStage((context) => context.decide(value))],
  "decide options": [
    all,
    (value) => inStage((context) => context.decide({ name: "q", question: "?", options: value })),
  ],
  "checkpoint()": [noObject, (value) => inStage((context) => context.checkpoint(value))],
  "record name": [all, (value) => inStage((context) => context.record(value, 1))],
  "note()": [noText, (value) => inStage((context) => context.note(value))],
  "mask text": [noText, (value) => inStage((context) => context.mask("it", value))],
  "fence()": [noText, (value) => inStage(async (context) => context.fence(value))],
  "restoreFiles()": [noObject, (value) => inStage((context) => context.restoreFiles("r", value))],
  "sideWorktree()": [all, (value) => inStage((context) => context.sideWorktree(value))],
  "graph.set": [noObject, (value) => inStage((context) => context.graph.set(value))],
  "new ImplState()": [noObject, (value) => new ImplState(value)],
  "ImplState issueNo": [all, (value) => new ImplState({ issueNo: value, worktree: "." })],
  "ImplState.load": [all, (value) => ImplState.load(value)],
  "ImplState.save": [all, (value) => new ImplState({ issueNo: 1, worktree: "." }).save(value)],
  "ImplState.with": [noObject, (value) => new ImplState({ issueNo: 1, worktree: "." }).with(value)],
  "loadCheckpoint()": [all, (value) => loadCheckpoint(value)],
  "saveCheckpoint()": [noObject, (value) => saveCheckpoint(value, join(directory, "impl.json"))],
  "openSqliteStore()": [noObject, (value) => openSqliteStore(value)],
  "openSqliteStore directory": [all, (value) => openSqliteStore({ directory: value })],
  "resume()": [noObject, (value) => holdfast.resume(value)],
  "resume run": [all, (value) => holdfast.resume({ run: value, workflow })],
  "doctor()": [noPlain, (value) => doctor(value)],
  "doctor cwd": [all, (value) => doctor({ cwd: value })],
  "openMemoryStore()": [noPlain, (value) => openMemoryStore(value)],
  "openMemoryStore database": [noPlain, (value) => openMemoryStore({ database: value })],
  "isEnded()": [noPlain, (value) => isEnded(value)],
  "isHeld()": [noPlain, (value) => isHeld(value)],
  "statusWord()": [noPlain, (value) => statusWord(value)],
  "waitsForYou()": [noPlain, (value) => waitsForYou(value)],
  "resumePoint()": [all, (value) => resumePoint(value)],
  "runGraph()": [all, (value) => runGraph(value, value)],
  "runGraph options": [all, (value) => inStage((context) => runGraph(context, value))],
  "parseFindTarget()": [noText, (value) => parseFindTarget(value)],
  "defineWorkflow()": [noObject, (value) => defineWorkflow(value)],
  "defineWorkflow events": [all, (value) => defineWorkflow({ ...given, events: value })],
  "defineWorkflow required": [all, (value) => defineWorkflow({ ...given, required: value })],
  "CheckpointStore.open()": [noText, (value) => CheckpointStore.inMemory(value)],
  "CheckpointStore.open store": [all, (value) => CheckpointStore.open("t", { store: value })],
  "new Context()": [noText, (value) => new Context(value)],
  "Context.addTokens": [all, (value) => new Context("t").addTokens({ input_tokens: value })],
  "Context.restore": [all, (value) => Context.restore(value)],
  "context.fork": [noText, (value) => new Context("t").fork(value)],
};

const effect = {
  purpose: "greet",
  kind: "greeting",
  target: "you",
  payload: null,
  lookUp: async () => ({ kind: "absent" as const }),
  act: async () => ({ kind: "done" as const, receipt: null }),
};
const call = { name: "ask", role: "impl", prompt: "Hello", model: null, yolo: false } as const;

const restorePlan = async () => (await onRun()).planRestore({ sequence: 1 });

function checked(validate: () => unknown): unknown {
  const schema = { "~standard": { version: 1, vendor: "a test", validate } } as never;
  return parseValues(schema, {}, { what: "the values", hint: "Change them." });
}

/** A property of this name makes an object look like a promise. */
const THEN = ["th", "en"].join("");

function raise(value: unknown): never {
  throw value;
}

/** Calls a function of the stage context in a run of its own. */
function inStage(work: (context: StageContext<object>) => Promise<unknown>): Promise<unknown> {
  const stage = async (context: StageContext<object>): Promise<never> => {
    throw new Error(`not refused: ${JSON.stringify(await work(context))}`);
  };
  return begin({ workflow: defineWorkflow({ ...given, stages: { work: stage } }) });
}

function withStage(work: () => Promise<never>): ReturnType<typeof defineWorkflow> {
  return defineWorkflow({ ...given, stages: { work } });
}

const given = {
  name: "w",
  initial: "work",
  stages: { work: async () => ({ event: "worked", reason: "hello" }) },
  transitions: { work: { worked: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
} as const;

describe("a wrong argument is a HoldfastError with a hint", () => {
  test.for(Object.entries(CALLS))("%s", async ([name, [isWrong, call]]) => {
    for (const value of WRONG.filter(isWrong)) {
      const error = await thrownBy(() => call(value as never));
      expect.soft(error, `${name} of ${describeKind(value)}`).toBeInstanceOf(HoldfastError);
      if (!(error instanceof HoldfastError)) continue;
      expect.soft(error.code, error.message).not.toBe("INTERNAL");
      expect.soft(error.hint, error.message).toBeTypeOf("string");
    }
  });

  test("and a wrong call creates no run", async () => {
    const created = (await holdfast.listRuns()).filter((run) => run.workflow !== given.name);
    expect(created.map(({ id }) => id)).toEqual(["base"]);
  });
});

function describeKind(value: unknown): string {
  return value === null ? "null" : typeof value === "object" ? "an object" : String(value);
}

async function thrownBy(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return "nothing was thrown";
  } catch (error) {
    return error;
  }
}
