import { DBOS } from "@dbos-inc/dbos-sdk";
import { createMarks } from "../engine/marks.ts";
import { startPostgres } from "./postgres.mjs";

/** DBOS Transact on a PostgreSQL of its own with Debian's defaults: fsync and synchronous_commit are on. */
export async function open(directory) {
  const postgres = await startPostgres(directory);
  const marks = createMarks();
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: postgres.url, logLevel: "error", runAdminServer: false });
  const workflow = DBOS.registerWorkflow(
    async (index, steps) => {
      for (let at = 0; at < steps; at += 1) {
        await DBOS.runStep(
          async () => {
            marks.hit(index);
            return at;
          },
          { name: `step-${at}` },
        );
      }
    },
    { name: "steps" },
  );
  await DBOS.launch();
  return {
    durability: "PostgreSQL 15, fsync=on, synchronous_commit=on",
    servers: postgres.pids,
    async run({ workflows, steps }) {
      marks.reset(workflows);
      const handles = await Promise.all(
        Array.from({ length: workflows }, (_, at) => DBOS.startWorkflow(workflow)(at, steps)),
      );
      await Promise.all(handles.map((handle) => handle.getResult()));
      return marks.all();
    },
    async close() {
      await DBOS.shutdown();
      postgres.stop();
    },
  };
}
