/**
 * The store on PostgreSQL: what a durable save of 1 KB costs, and how `list`, `latest` and a claim grow with the number of runs. The baseline of a
 * save is one prepared INSERT of the same bytes in autocommit on the same server. Both sides take turns in one loop, so that the load of the
 * machine affects both alike. `start.mjs` compares steps with DBOS.
 *
 *   node bench/postgres.mjs [rounds] [runs] [checkpoints]
 *   node bench/postgres.mjs 500 100000 100                    ten million checkpoints: takes minutes, and 7 GB of disk
 */
import "./supported-node.mjs";
import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "./peers/postgres.mjs";
import { openRaw } from "./peers/raw-postgres.mjs";
import { print, printLoad, printTarget, quantile, spread } from "./report.mjs";

const { open } = await import("holdfast");
const rounds = Number(process.argv[2] ?? 500);
const MANY = Number(process.argv[3] ?? 100_000);
/** Of each run that is copied. */
const CHECKPOINTS = Number(process.argv[4] ?? 1);
const FEW = 1000;
const WRITERS = 64;
const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
process.env["XDG_STATE_HOME"] = join(directory, "state");
// PostgreSQL runs as another user when we are root.
chmodSync(directory, 0o755);
const postgres = await startPostgres(directory);
try {
  printLoad();
  await saves();
  await sizes();
  await storage();
  await growth();
  printLoad();
} finally {
  await postgres.stop();
  rmSync(directory, { recursive: true, force: true });
}

function openStore(schema) {
  return open({ cwd: directory, store: `${postgres.url}?schema=${schema}` });
}

async function saves() {
  const holdfast = await openStore("saves");
  const run = await holdfast.createRun({ id: "small" });
  const { client, insert } = await openRaw(postgres.url);
  const [ours, raw, rates] = [[], [], []];
  for (let round = 0; round < rounds; round += 1) {
    const values = { note: note(round), round };
    await time(raw, () => insert(JSON.stringify(values)));
    await time(ours, () => run.save({ values }));
  }
  await client.end();
  const [slow, fast] = [ours, raw].map((times) => times.slice(rounds / 10));
  print(`save of a 1 KB state: ${spread(slow)} µs; raw insert: ${spread(fast)} µs`);
  const value = quantile(slow, 0.5) / quantile(fast, 0.5);
  printTarget({ what: "a durable 1 KB save / a raw durable insert", value, unit: "×", atMost: 2.5 });
  const runs = await Promise.all(Array.from({ length: WRITERS }, (_, at) => holdfast.createRun({ id: `run-${at}` })));
  for (let round = 0; round < Math.max(20, rounds / 20); round += 1) {
    const began = performance.now();
    await Promise.all(runs.map((one) => one.save({ values: { note: note(round), round } })));
    rates.push((WRITERS * 1000) / (performance.now() - began));
  }
  print(`${WRITERS} writers: ${spread(rates.slice(rates.length / 10))} saves/s`);
  await holdfast.close();
}

/** What docs/operations.md computes with: bytes in the database, and connections of one process. */
async function sizes() {
  const holdfast = await openStore("sizes");
  const count = WRITERS * 20;
  const bytes = async () => (await holdfast.store.stats()).bytes;
  const runs = await Promise.all(Array.from({ length: WRITERS }, (_, at) => holdfast.createRun({ id: `run-${at}` })));
  const saveAll = async (values) => {
    const before = await bytes();
    for (let round = 0; round < count / WRITERS; round += 1)
      await Promise.all(runs.map((run, at) => run.save({ values: values(round, at) })));
    return ((await bytes()) - before) / count;
  };
  print(`a checkpoint of 1 KB: ${Math.round(await saveAll((round, at) => ({ note: note(round), round, at })))} bytes`);
  // What grows is written once: each round adds 1 KB to the values of its run.
  const lines = runs.map(() => []);
  const grown = await saveAll((round, at) => {
    lines[at].push({ round, text: randomBytes(512).toString("hex") });
    return { lines: lines[at] };
  });
  print(`a checkpoint of up to 20 KB that grew by 1 KB: ${Math.round(grown)} bytes`);
  const { client } = await openRaw(postgres.url);
  const { rows } = await client.query("SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = 'holdfast'");
  print(`connections of one process that works on ${WRITERS} runs: ${rows[0].n}`);
  await client.end();
  await holdfast.close();
}

/** How the server stores long chunks: `EXTERNAL`, which Holdfast sets, against the server's own settings. Each round adds 64 KB of text that hardly compresses. */
async function storage() {
  const kinds = [];
  for (const [name, setting] of [
    ["EXTERNAL", null],
    ["EXTENDED, pglz", "EXTENDED"],
    ["EXTENDED, lz4", "EXTENDED, ALTER COLUMN bytes SET COMPRESSION lz4"],
  ]) {
    const schema = `toast_${kinds.length}`;
    const holdfast = await openStore(schema);
    const { client } = await openRaw(postgres.url);
    if (setting !== null) await client.query(`ALTER TABLE ${schema}.chunks ALTER COLUMN bytes SET STORAGE ${setting}`);
    await client.end();
    const run = await holdfast.createRun({ id: "large" });
    kinds.push({ name, holdfast, run, before: (await holdfast.store.stats()).bytes, writes: [], reads: [] });
  }
  const count = Math.max(20, Math.min(rounds, 200));
  for (let round = 0; round < count; round += 1) {
    const values = { text: randomBytes(48 * 1024).toString("base64") };
    for (const { run, writes, reads } of kinds) {
      await time(writes, () => run.save({ values }));
      await time(reads, () => run.latest());
    }
  }
  for (const { name, holdfast, before, writes, reads } of kinds) {
    const bytes = Math.round(((await holdfast.store.stats()).bytes - before) / count);
    print(`a checkpoint of 64 KB, ${name}: save ${spread(writes)} µs, read ${spread(reads)} µs, ${bytes} bytes`);
    await holdfast.close();
  }
}

async function growth() {
  const stores = [];
  for (const count of [FEW, MANY]) stores.push({ holdfast: await fill(count), times: new Map() });
  for (let round = 0; round < rounds; round += 1) {
    for (const { holdfast, times } of stores) {
      const id = `run-${(round * 7919) % FEW}`;
      const handle = await holdfast.run(id);
      const of = (name) => times.get(name) ?? times.set(name, []).get(name);
      await time(of("list of 20"), () => holdfast.listRuns({ limit: 20 }));
      await time(of("latest"), () => handle.latest());
      let lease;
      await time(of("claim"), async () => (lease = await holdfast.store.takeLease({ run: id, label: "bench" })));
      await holdfast.store.releaseLease(lease);
      await handle.close();
    }
  }
  const [few, many] = stores;
  for (const [name, slow] of many.times) {
    const [a, b] = [few.times.get(name), slow].map((times) => times.slice(rounds / 10));
    print(`${name}: ${spread(a)} µs with ${FEW} runs, ${spread(b)} µs with ${MANY}`);
    const value = quantile(b, 0.5) / quantile(a, 0.5);
    printTarget({ what: `${name}: ${MANY} runs / ${FEW} runs`, value, unit: "×", atMost: 2 });
  }
  for (const { holdfast } of stores) await holdfast.close();
}

/** Runs with one checkpoint each, written as any program writes them. The rest are copies of their rows. */
async function fill(count) {
  const schema = `runs_${count}`;
  const holdfast = await openStore(schema);
  let next = 0;
  const write = async () => {
    while (next < FEW) {
      const run = await holdfast.createRun({ id: `run-${next++}` });
      await run.save({ values: { note: note(next) } });
      await run.close();
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, write));
  await copyRows(schema, count - FEW);
  return holdfast;
}

async function copyRows(schema, count) {
  const { client } = await openRaw(postgres.url);
  const source = "runs o ON o.run = t.run AND o.id = 'run-0' JOIN runs r ON r.id LIKE 'copy-%'";
  await client.query(`SET search_path TO ${schema};
    INSERT INTO runs (id, workflow, birth, epoch, entries, head, sequence, digest, checkpoints, state)
      SELECT 'copy-' || n, workflow, replace(birth, '"run-0"', '"copy-' || n || '"'), epoch, entries, head, sequence, digest, checkpoints, state
      FROM runs, generate_series(1, ${count}) n WHERE id = 'run-0';
    INSERT INTO entries (run, entry, kind, at, epoch, hash, step, started, summary, size, body, content)
      SELECT r.run, t.entry, t.kind, t.at, t.epoch, t.hash, t.step, t.started, t.summary, t.size, t.body, t.content FROM entries t JOIN ${source};
    INSERT INTO checkpoints (run, sequence, entry, cause, stage, quarantined)
      SELECT r.run, t.sequence, t.entry, t.cause, t.stage, t.quarantined FROM checkpoints t JOIN ${source};
    INSERT INTO entries (run, entry, kind, at, epoch, hash, step, started, summary, size, body, content)
      SELECT r.run, r.entries + n, t.kind, t.at, t.epoch, t.hash, t.step, t.started, t.summary, t.size, t.body, t.content
      FROM entries t JOIN ${source}, generate_series(1, ${CHECKPOINTS - 1}) n WHERE t.kind = 'checkpoint';
    INSERT INTO checkpoints (run, sequence, entry, cause, stage, quarantined)
      SELECT r.run, t.sequence + n, r.entries + n, t.cause, t.stage, t.quarantined
      FROM checkpoints t JOIN ${source}, generate_series(1, ${CHECKPOINTS - 1}) n;
    UPDATE runs SET sequence = ${CHECKPOINTS}, checkpoints = ${CHECKPOINTS}, entries = entries + ${CHECKPOINTS - 1} WHERE id LIKE 'copy-%';`);
  await client.query("VACUUM ANALYZE");
  await client.end();
}

async function time(times, work) {
  const began = performance.now();
  await work();
  times.push((performance.now() - began) * 1000);
}

function note(round) {
  return `${round} `.repeat(1000).slice(0, 1000);
}
