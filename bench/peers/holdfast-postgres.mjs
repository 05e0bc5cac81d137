// Holdfast through its public API, with its store on a PostgreSQL server of its own.
import { openOn } from "./holdfast.mjs";
import { startPostgres } from "./postgres.mjs";

export async function open(directory) {
  const postgres = await startPostgres(directory);
  const engine = await openOn(postgres.url, directory);
  return {
    durability: "PostgreSQL, fsync=on, synchronous_commit=on, one commit a step, shared by runs that commit together",
    run: engine.run,
    async close() {
      await engine.close();
      await postgres.stop();
    },
  };
}
