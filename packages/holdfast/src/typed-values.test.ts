import { join } from "node:path";
import { type WorkflowParams, defineWorkflow } from "@holdfast/core/workflow";
import type { StateSchema } from "@holdfast/core/state-schema";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import type { Holdfast } from "./holdfast.ts";
import { openHoldfast } from "./open.ts";

interface Page {
  page: number;
  seen: string[];
  note?: string;
}

const Pages = z.object({ page: z.number().int(), seen: z.array(z.string()), note: z.string().optional() });
const cleanUps: (() => void)[] = [];
let holdfast: Holdfast;

beforeEach(async () => {
  const directory = scratchDirectory((dispose) => void cleanUps.push(dispose));
  holdfast = await openHoldfast({ cwd: directory, store: join(directory, "store") });
});
afterEach(async () => {
  await holdfast.close();
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

describe("the values of a run", () => {
  test("have the type that createRun was given, an interface included", async () => {
    await using run = await holdfast.createRun<Page>({ id: "crawl" });
    await run.save({ values: { page: 1, seen: ["/"] } });
    const latest = await run.latest();
    expect(latest?.planes.context.values.seen.map((path) => path.length)).toEqual([1]);
    const again = await holdfast.run<Page>("crawl");
    expect((await again.get(1)).planes.context.values.page + 1).toBe(2);
  });

  test("are returned as the schema parses them, deeply frozen", async () => {
    await using plain = await holdfast.createRun({ id: "crawl" });
    await plain.save({ values: { page: 1 } });
    await plain.close();
    const WithDefaults = Pages.extend({ seen: z.array(z.string()).default([]) });
    await using run = await holdfast.createRun({ id: "crawl", values: WithDefaults });
    const values = (await run.latest())?.planes.context.values;
    expect(values).toEqual({ page: 1, seen: [] });
    expect(() => values?.seen.push("/")).toThrow(TypeError);
  });

  test("are not saved when the schema rejects them", async () => {
    await using run = await holdfast.createRun({ id: "crawl", values: Pages });
    await run.save({ values: { page: 1, seen: [] } });
    const wrong = { page: 2, seen: ["/", 3] } as never;
    expect(await errorOf(run.save({ values: wrong }))).toMatchObject({
      code: "VALUES_INVALID",
      message: expect.stringContaining("The values to save in run crawl do not match the schema at /seen/1"),
      data: { path: "/seen/1", problems: [{ path: "/seen/1" }] },
    });
    expect(await errorOf(run.save({ values: { page: "2" } as never }))).toMatchObject({
      data: { problems: [{ path: "/page" }, { path: "/seen" }] },
    });
    await run.save({ stage: "later" });
    expect((await run.list()).map(({ sequence }) => sequence)).toEqual([2, 1]);
    expect((await run.latest())?.planes.context.values).toEqual({ page: 1, seen: [] });
  });

  test("a first save without values does not pass a schema that needs some", async () => {
    await using run = await holdfast.createRun({ id: "crawl", values: Pages });
    expect(await errorOf(run.save({ stage: "first" }))).toMatchObject({ code: "VALUES_INVALID" });
    expect(await run.list()).toEqual([]);
  });

  test("that another program stored are neither returned nor saved over when they do not fit", async () => {
    await using other = await holdfast.createRun({ id: "crawl" });
    await other.save({ values: { page: "seven", seen: [] } });
    await other.close();
    await using run = await holdfast.run("crawl", { values: Pages });
    const stored = { code: "VALUES_INVALID", message: expect.stringContaining("The values of crawl@1") };
    expect(await errorOf(run.latest())).toMatchObject({ ...stored, data: { path: "/page" } });
    expect(await errorOf(run.get(1))).toMatchObject(stored);
    expect(await errorOf(run.save({ values: { page: 7, seen: [] } }))).toMatchObject(stored);
    await run.close();
    // The remedy of the hint: read without the schema, convert, save.
    await using plain = await holdfast.run("crawl");
    const values = (await plain.latest())?.planes.context.values ?? {};
    await plain.save({ values: { ...values, page: 7 } });
    await plain.close();
    await run.save({ values: { page: 8, seen: [] } });
    expect((await run.list()).map(({ sequence }) => sequence)).toEqual([3, 2, 1]);
  });

  test("a checkpoint without values, such as one of files, holds nothing that a save could bury", async () => {
    await using plain = await holdfast.createRun({ id: "crawl" });
    await plain.save();
    await plain.close();
    await using run = await holdfast.run("crawl", { values: Pages });
    await run.save({ values: { page: 1, seen: [] } });
    expect((await run.latest())?.planes.context.values.page).toBe(1);
  });

  test("a restore and a fork need no fitting values, and a fork keeps the schema", async () => {
    await using plain = await holdfast.createRun({ id: "crawl" });
    await plain.save({ values: { page: "seven" } });
    await plain.save({ values: { page: 7, seen: [] } });
    await plain.close();
    await using run = await holdfast.run("crawl", { values: Pages });
    await using fork = await run.fork({ sequence: 1, id: "old" });
    expect(await errorOf(fork.latest())).toMatchObject({ code: "VALUES_INVALID" });
    await run.restore({ sequence: 1 });
    expect(await errorOf(run.latest())).toMatchObject({ code: "VALUES_INVALID" });
  });
});

describe("a schema", () => {
  test.each([
    ["an asynchronous one", z.object({}).refine(async () => true), "USAGE"],
    ["one that returns what is not JSON", z.object({ page: z.number().transform((n) => new Date(n)) }), "NOT_JSON"],
    [
      "one that throws",
      standard(() => {
        throw new Error("boom");
      }),
      "VALUES_INVALID",
    ],
    ["one that rejects without a path", standard(() => ({ issues: [{ message: "no" }] })), "VALUES_INVALID"],
  ])("%s is an error, and nothing is written", async (_, schema, code) => {
    await using run = await holdfast.createRun({ id: "crawl", values: schema as never });
    expect(await errorOf(run.save({ values: { page: 1 } as never }))).toMatchObject({ code });
    expect(await run.list()).toEqual([]);
  });

  test("of another library works by its `~standard` member, also as a function", async () => {
    const schema = Object.assign(
      () => undefined,
      standard((value) => ({ value: value as Page })),
    );
    await using run = await holdfast.createRun({ id: "crawl", values: schema as StateSchema<Page> });
    await run.save({ values: { page: 1, seen: [] } });
    expect((await run.latest())?.planes.context.values.page).toBe(1);
  });

  test("a path with keys of objects becomes a JSON pointer", async () => {
    const schema = standard(() => ({ issues: [{ message: "no", path: ["a/b", { key: 0 }] }] }));
    await using run = await holdfast.createRun({ values: schema });
    expect(await errorOf(run.save({ values: {} as never }))).toMatchObject({ data: { path: "/a~1b/0" } });
  });
});

describe("a workflow with a schema", () => {
  const work = { kind: "task", text: "Crawl" } as const;

  test("runs with an interface as its state, without a cast", async () => {
    const workflow = crawl({});
    expect((await holdfast.start({ workflow, work, id: "crawl" })).outcome).toMatchObject({ kind: "done" });
    const run = await holdfast.run<Page>("crawl");
    expect((await run.latest())?.planes.context.values).toEqual({ page: 2, seen: ["/", "/1"] });
  });

  test("does not begin with an initial state that does not match it", async () => {
    const workflow = crawl({ initialState: () => ({ page: 0.5, seen: [] }) });
    expect(await errorOf(holdfast.start({ workflow, work, id: "crawl" }))).toMatchObject({
      code: "VALUES_INVALID",
      message: expect.stringContaining("initialState of workflow crawl"),
      data: { path: "/page" },
    });
    expect(await holdfast.listRuns()).toEqual([]);
  });

  test("does not write the state of a stage that does not match it, and continues with a corrected one", async () => {
    const broken = crawl({
      stages: {
        read: async ({ state }) => ({ event: "read", reason: "read", state: { ...state, page: "2" as never } }),
      },
    });
    expect(await errorOf(holdfast.start({ workflow: broken, work, id: "crawl" }))).toMatchObject({
      code: "VALUES_INVALID",
      message: expect.stringContaining("stage read of workflow crawl"),
      data: { path: "/page" },
    });
    expect((await (await holdfast.run("crawl")).latest())?.planes.context.values).toEqual({ page: 0, seen: [] });
    expect((await holdfast.start({ workflow: crawl({}), work, id: "crawl" })).outcome).toMatchObject({ kind: "done" });
  });

  test("does not record an event whose result does not match it", async () => {
    const broken = crawl({ reduce: (state) => ({ ...state, seen: [1 as never] }) });
    expect(await errorOf(holdfast.start({ workflow: broken, work, id: "crawl" }))).toMatchObject({
      data: { path: "/seen/0" },
    });
    const kinds = await Array.fromAsync((await holdfast.run("crawl")).log(), ({ kind }) => kind);
    expect(kinds).not.toContain("step.finished");
  });

  test("does not continue from a stored state that does not match it, and leaves that state as it is", async () => {
    const fails = crawl({
      stages: {
        read: async () => {
          throw new Error("offline");
        },
      },
    });
    expect(await errorOf(holdfast.start({ workflow: fails, work, id: "crawl" }))).toMatchObject({ message: "offline" });
    const before = await (await holdfast.run("crawl")).latest();
    const newer = defineWorkflow({ ...definition, state: Pages.extend({ total: z.number() }), ...withTotal });
    expect(await errorOf(holdfast.start({ workflow: newer, work, id: "crawl" }))).toMatchObject({
      code: "VALUES_INVALID",
      message: expect.stringContaining("The stored values of workflow crawl"),
      data: { path: "/total" },
    });
    const after = await (await holdfast.run("crawl")).latest();
    expect(after?.planes.context.values).toEqual(before?.planes.context.values);
    const tolerant = Pages.extend({ total: z.number().default(0) });
    const fixed = defineWorkflow({ ...definition, state: tolerant, ...withTotal });
    expect((await holdfast.start({ workflow: fixed, work, id: "crawl" })).outcome).toMatchObject({ kind: "done" });
  });

  test("and parseState exclude each other", () => {
    expect(() => crawl({ parseState: () => ({ page: 0, seen: [] }) })).toThrow(
      expect.objectContaining({ code: "WORKFLOW_INVALID", message: expect.stringContaining("exclude each other") }),
    );
  });
});

const definition = {
  name: "crawl",
  initial: "read",
  transitions: { read: { read: "done" } },
  ends: { done: "done", fatal: "failed" },
} as const;

const withTotal = {
  initialState: () => ({ page: 0, seen: [], total: 0 }),
  stages: { read: async () => ({ event: "read", reason: "read" }) },
} as const;

function crawl(changes: Partial<WorkflowParams<Page>>): ReturnType<typeof defineWorkflow<Page>> {
  return defineWorkflow<Page>({
    ...definition,
    state: Pages as StateSchema<Page>,
    stages: {
      async read({ record, state }) {
        await record("first", "/");
        const visited = await record("second", { path: "/1" });
        return { event: "read", reason: visited.path, state: { page: 2, seen: [...state.seen, "/", visited.path] } };
      },
    },
    reduce: (state) => state,
    initialState: () => ({ page: 0, seen: [] }),
    ...changes,
  });
}

/** A schema without a library. */
function standard(validate: StateSchema<Page>["~standard"]["validate"]): StateSchema<Page> {
  return { "~standard": { version: 1, vendor: "test", validate } };
}

async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => new Error("nothing was thrown"),
    (error: unknown) => error,
  );
}
