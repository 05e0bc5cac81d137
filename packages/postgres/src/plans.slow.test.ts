import { expect, onTestFinished, test, vi } from "vitest";
import type { WriteTransaction } from "@holdfast/core/store-sql/driver";
import { openToken } from "@holdfast/core/store-sql/leases";
import { storeId } from "@holdfast/core/store-sql/schema";
import { createSqlStore } from "@holdfast/core/store-sql/store";
import { systemClock } from "@holdfast/platform/clock";
import { processIdentity } from "@holdfast/platform/identity";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { openTestStore } from "@holdfast/test-support/test-stores";
import { MOST_CONNECTIONS, connectDriver } from "./driver.ts";
import { parseTarget } from "./target.ts";

const missing = postgresMissing();
const RUNS = 1000;
const EACH = 50;

/** Copies of one run that was saved once. */
function fill(schema: string): string {
  return `SET search_path TO ${schema}; SET synchronous_commit TO off;
    INSERT INTO runs (id, workflow, birth, epoch, entries, head, sequence, digest, checkpoints, state)
      SELECT 'copy-' || n, workflow, replace(birth, '"sample"', '"copy-' || n || '"'), epoch, ${EACH}, head, ${EACH}, digest, ${EACH}, state
      FROM runs, generate_series(1, ${RUNS}) n WHERE id = 'sample';
    INSERT INTO entries (run, entry, kind, at, epoch, hash, step, summary, size, body, content)
      SELECT r.run, n, e.kind, e.at, e.epoch, e.hash, e.step, e.summary, e.size, e.body, NULL
      FROM runs r, generate_series(1, ${EACH}) n, (SELECT * FROM entries WHERE kind = 'checkpoint' LIMIT 1) e WHERE r.id LIKE 'copy-%';
    INSERT INTO checkpoints (run, sequence, entry, cause, stage)
      SELECT r.run, n, n, 'manual', 'work' FROM runs r, generate_series(1, ${EACH}) n WHERE r.id LIKE 'copy-%';
    INSERT INTO chunks (digest, sweep, bytes)
      SELECT sha256(n::text::bytea), 0, sha256(n::text::bytea) FROM generate_series(1, ${RUNS * EACH}) n;
    INSERT INTO tags (run, name, sequence) SELECT run, 'tag', 1 FROM runs;
    INSERT INTO effects (run, key, kind, target, payload, state, at, outcome)
      SELECT r.run, 'k' || n, 'push', 't', '', 'intended', '', '{}' FROM runs r, generate_series(1, 20) n;
    INSERT INTO tombstones (run, sequence, entry, dropped, why) SELECT run, 200, 1, 0, 'old' FROM runs;
    ANALYZE runs, entries, checkpoints, chunks, tags, effects, tombstones;`;
}

test("no statement of the usual calls reads a whole table, whatever its size", async ({ skip }) => {
  skip(missing !== null, missing ?? "");
  const server = await sharedPostgres();
  const url = server.url();
  const first = await openTestStore(url);
  await save(first, await leasedRun(first), { values: { n: 1 } });
  await first.close();
  const target = parseTarget(url);
  server.sql(fill(target.schema));

  const driver = await connectDriver({ target, highWater: () => null, ownClock: false, patienceMs: 0 });
  const asked: string[] = [];
  const read: typeof driver.read = (work) =>
    driver.read((tx) => work({ all: (sql, params) => (asked.push(sql), tx.all(sql, params)) }));
  const store = createSqlStore({
    driver: { ...driver, read },
    id: await driver.read(storeId),
    access: "write",
    directory: null,
    locks: false,
    token: openToken(),
    identity: processIdentity(),
    clock: systemClock,
  });
  onTestFinished(() => store.close());
  const lease = await leasedRun(store, "mine");
  const watching = new AbortController();
  let watched = 0;
  const watch = (async () => {
    for await (const _ of store.watch({ signal: watching.signal })) watched += 1;
  })();
  const long = Array.from({ length: 200 }, (_, i) => `line ${i} ${"text ".repeat(20)}`);
  for (let n = 1; n <= 3; n++) await save(store, lease, { values: { n, long: [...long, n] } });
  const intent = { key: "k", kind: "push", target: "t", payload: "a".repeat(64), detail: {} };
  await store.commit({ lease, entries: [{ kind: "effect.intended", body: intent }] });
  await store.renewLease(lease);
  await store.putSignal({ id: "s", run: "mine", kind: "checkpoint", epoch: 1, name: null });
  await store.moveSignal({ run: "mine", id: "s", from: "pending", to: null });
  await store.latest("mine");
  await store.getCheckpoint({ run: "mine", sequence: 1 });
  await store.listRuns({ limit: 10 });
  await store.listRuns({ limit: 10, workflow: "sample" });
  await store.listCheckpoints({ run: "copy-7", limit: 5, before: 40 }).catch(() => []);
  for await (const entry of store.readJournal({ run: "mine", after: 2 })) expect(entry.run).toBe("mine");
  await store.listEffects("mine");
  await store.listSignals("mine");
  await store.tag({ run: "mine", sequence: 1, name: "t" });
  await store.untag({ run: "mine", name: "t" });
  await store.drop({ run: "mine", drops: [{ sequence: 1, why: "test" }] });
  await store.listTombstones("mine");
  await store.getMeta("fact");

  await vi.waitFor(() => expect(watched).toBeGreaterThan(5), { timeout: 60_000 });
  watching.abort();
  await watch;
  // A watch of all runs reads all of them when it begins.
  expect(asked.filter((sql) => sql === "SELECT run, id, entries FROM runs ORDER BY run")).toHaveLength(1);
  expect(asked.filter((sql) => sql.includes("WHERE place > ?")).length).toBeGreaterThan(1);

  // Each connection of the pool has prepared its own; transactions at the same time are on different ones.
  const connections = Array.from({ length: MOST_CONNECTIONS });
  const plans = (await Promise.all(connections.map(() => driver.inTransaction("BEGIN READ ONLY", explainAll)))).flat();
  expect(new Set(plans.map(({ statement }) => statement)).size).toBeGreaterThan(30);
  /** Tables that grow with the history. The others have a row for each process, signal or fact. */
  const growing = /Seq Scan on (?:runs|entries|checkpoints|tombstones|chunks|effects|tags)\b/;
  expect(plans.filter(({ plan }) => growing.test(plan))).toEqual([]);
  const latest = plans.find(({ statement }) => statement.includes("ORDER BY c.sequence DESC LIMIT 1"))?.plan ?? "";
  expect(latest.match(/\w+ Scan.* on \w+/g)).toEqual([
    "Index Scan Backward using checkpoints_pkey on checkpoints",
    "Index Scan using entries_run_entry_key on entries",
    "Index Scan using entries_run_entry_key on entries",
  ]);
});

/** How the server executes each prepared statement of this connection, whatever its parameters are. */
async function explainAll(
  tx: WriteTransaction,
): Promise<readonly { readonly statement: string; readonly plan: string }[]> {
  tx.run("SET LOCAL plan_cache_mode TO force_generic_plan");
  const statements = await tx.all(
    "SELECT name, statement, cardinality(parameter_types) AS n FROM pg_prepared_statements WHERE name LIKE ? AND cardinality(parameter_types) > 0",
    ["holdfast_%"],
  );
  return Promise.all(
    statements.map(async ({ name, statement, n }) => {
      const nothing = Array.from({ length: Number(n) }, () => "NULL").join(", ");
      const rows = await tx.all(`EXPLAIN (COSTS OFF) EXECUTE ${String(name)}(${nothing})`);
      return { statement: String(statement), plan: rows.map((row) => String(row["QUERY PLAN"])).join("\n") };
    }),
  );
}
