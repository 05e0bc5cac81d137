// The least that a durable step on PostgreSQL can cost: one prepared INSERT in autocommit, one after the other, on one connection.
import { startPostgres } from "./postgres.mjs";

export async function open(directory) {
  const postgres = await startPostgres(directory);
  const { client, insert } = await openRaw(postgres.url);
  return {
    durability: "PostgreSQL, fsync=on, synchronous_commit=on, one INSERT a step",
    async run({ runs, steps }) {
      for (let at = 0; at < runs * steps; at += 1)
        await insert(JSON.stringify({ run: "run", kind: "step.finished", step: `step-${at}`, result: at }));
    },
    async close() {
      await client.end();
      await postgres.stop();
    },
  };
}

export async function openRaw(url) {
  const { default: pg } = await import("pg");
  const client = new pg.Client(url);
  await client.connect();
  await client.query("CREATE TABLE IF NOT EXISTS t (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body TEXT)");
  return {
    client,
    insert: (body) => client.query({ name: "insert", text: "INSERT INTO t (body) VALUES ($1)", values: [body] }),
  };
}
