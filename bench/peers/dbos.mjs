// DBOS Transact on its own PostgreSQL server with default settings: fsync and synchronous_commit are on.
import { DBOS } from "@dbos-inc/dbos-sdk";
import { startPostgres } from "./postgres.mjs";

export async function open(directory) {
  const postgres = await startPostgres(directory);
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: postgres.url, logLevel: "error", runAdminServer: false });
  const workflow = DBOS.registerWorkflow(
    async (steps, bytes) => {
      const result = (at) => (bytes === undefined ? at : { at, note: `${at} `.repeat(bytes).slice(0, bytes) });
      for (let at = 0; at < steps; at += 1) await DBOS.runStep(async () => result(at), { name: `step-${at}` });
    },
    { name: "steps" },
  );
  await DBOS.launch();
  return {
    durability: "PostgreSQL, fsync=on, synchronous_commit=on",
    async run({ runs, steps, bytes }) {
      const handles = await Promise.all(Array.from({ length: runs }, () => DBOS.startWorkflow(workflow)(steps, bytes)));
      await Promise.all(handles.map((handle) => handle.getResult()));
    },
    async close() {
      await DBOS.shutdown();
      await postgres.stop();
    },
  };
}
