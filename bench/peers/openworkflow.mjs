import { join } from "node:path";
import { OpenWorkflow } from "openworkflow";
import { BackendSqlite } from "openworkflow/sqlite";
import { createMarks } from "../engine/marks.ts";

/** OpenWorkflow on its SQLite backend, as it comes: WAL, and the journal's own synchronous setting. */
export async function open(directory) {
  const marks = createMarks();
  const backend = BackendSqlite.connect(join(directory, "openworkflow.db"));
  const client = new OpenWorkflow({ backend });
  const workflow = client.defineWorkflow({ name: "steps" }, async ({ input, step }) => {
    for (let at = 0; at < input.steps; at += 1) {
      await step.run({ name: `step-${at}` }, async () => {
        marks.hit(input.workflow);
        return at;
      });
    }
    return null;
  });
  const worker = client.newWorker({ concurrency: 64 });
  await worker.start();
  return {
    durability: "SQLite WAL, two commits a step (attempt, completion)",
    async run({ workflows, steps }) {
      marks.reset(workflows);
      const handles = await Promise.all(
        Array.from({ length: workflows }, (_, at) => workflow.run({ workflow: at, steps })),
      );
      await Promise.all(handles.map((handle) => handle.result()));
      return marks.all();
    },
    async close() {
      await worker.stop();
      await backend.stop();
    },
  };
}
