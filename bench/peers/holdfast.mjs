// Holdfast through its public API. HOLDFAST_PACKAGE names the folder of another build of the package.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const build = process.env["HOLDFAST_PACKAGE"];
const { defineWorkflow, open: openHoldfast } = await import(
  build === undefined ? "holdfast" : pathToFileURL(join(build, "dist/index.js")).href
);

export async function open(directory) {
  return {
    durability: "SQLite WAL, synchronous=FULL, one commit a step, shared by runs that commit together",
    ...(await openOn(join(directory, "store"), directory)),
  };
}

/** `store`: a directory or a URL. */
export async function openOn(store, directory) {
  const holdfast = await openHoldfast({ cwd: directory, store });
  let started = 0;
  const workflowOf = (steps) =>
    defineWorkflow({
      name: "steps",
      initial: "work",
      stages: {
        work: async (context) => {
          for (let at = 0; at < steps; at += 1) await context.step(`step-${at}`, () => at);
          return { event: "worked", reason: "all steps are done" };
        },
      },
      transitions: { work: { worked: "done" } },
      ends: { done: "done" },
      initialState: () => ({}),
    });
  /** Checkpoints of a state of so many bytes, and no workflow. */
  async function save({ steps, bytes }) {
    await using run = await holdfast.createRun({ id: `saved-${started++}` });
    for (let at = 0; at < steps; at += 1)
      await run.save({ values: { at, note: `${at} `.repeat(bytes).slice(0, bytes) } });
  }
  return {
    async run({ runs, steps, bytes }) {
      if (bytes !== undefined)
        return void (await Promise.all(Array.from({ length: runs }, () => save({ steps, bytes }))));
      const workflow = workflowOf(steps);
      const reports = await Promise.all(
        Array.from({ length: runs }, () =>
          holdfast.start({ workflow, work: { kind: "none" }, id: `run-${started++}` }),
        ),
      );
      for (const { outcome } of reports) if (outcome.kind !== "done") throw new Error(JSON.stringify(outcome));
    },
    close: () => holdfast.close(),
  };
}
