// OpenWorkflow on its SQLite backend with its default settings.
import { join } from "node:path";
import { OpenWorkflow } from "openworkflow";
import { BackendSqlite } from "openworkflow/sqlite";

export async function open(directory) {
  const backend = BackendSqlite.connect(join(directory, "openworkflow.db"));
  const client = new OpenWorkflow({ backend });
  const workflow = client.defineWorkflow({ name: "steps" }, async ({ input, step }) => {
    for (let at = 0; at < input.steps; at += 1) await step.run({ name: `step-${at}` }, async () => at);
    return null;
  });
  const worker = client.newWorker({ concurrency: 64 });
  await worker.start();
  return {
    durability: "SQLite WAL, two commits a step (attempt, completion)",
    async run({ runs, steps }) {
      const handles = await Promise.all(Array.from({ length: runs }, () => workflow.run({ steps })));
      await Promise.all(handles.map((handle) => handle.result()));
    },
    async close() {
      await worker.stop();
      await backend.stop();
    },
  };
}
