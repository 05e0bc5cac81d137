/**
 * What a run costs from `start` to `done`, and what one durable step costs, against one raw durable insert and three durable engines. On
 * PostgreSQL also what a checkpoint of 1 KB costs, against DBOS, whose checkpoint is the result of a step.
 * Each engine has its own process; they take turns in every round, so that the load of the machine affects all alike.
 *
 *   node bench/start.mjs [rounds]                             Holdfast and raw inserts, on SQLite and on PostgreSQL if it is installed
 *   (cd bench/peers && npm ci) && node bench/start.mjs        and OpenWorkflow, DBOS (needs PostgreSQL) and Restate
 *   HOLDFAST_BEFORE=<folder of a built package> node bench/start.mjs    and that build of Holdfast
 */
import "./supported-node.mjs";
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { print, printLoad, printTarget, quantile, spread } from "./report.mjs";

const rounds = Number(process.argv[2] ?? 15);
/** Rounds that only let V8 compile. */
const WARM_ROUNDS = 3;
const LOADS = {
  one: { runs: 1, steps: 1 },
  twenty: { runs: 1, steps: 20 },
  many: { runs: 64, steps: 20 },
  saves: { runs: 1, steps: 20, bytes: 1000 },
  manySaves: { runs: 64, steps: 20, bytes: 1000 },
};
/** Engines that are asked for checkpoints as well. */
const SAVES = ["Holdfast on PG", "DBOS"];
const peers = join(import.meta.dirname, "peers");
const hasPeers = existsSync(join(peers, "node_modules"));
const hasPostgres = existsSync("/usr/lib/postgresql");
const before = process.env["HOLDFAST_BEFORE"];
const ENGINES = [
  { name: "raw insert", module: "raw.mjs" },
  { name: "Holdfast", module: "holdfast.mjs" },
  ...(hasPostgres ? [{ name: "insert on PG", module: "raw-postgres.mjs" }] : []),
  ...(hasPostgres ? [{ name: "Holdfast on PG", module: "holdfast-postgres.mjs" }] : []),
  ...(before === undefined ? [] : [{ name: "before", module: "holdfast.mjs", build: before }]),
  ...(hasPeers ? [{ name: "OpenWorkflow", module: "openworkflow.mjs" }] : []),
  ...(hasPeers ? [{ name: "DBOS", module: "dbos.mjs" }] : []),
  ...(hasPeers ? [{ name: "Restate", module: "restate.mjs" }] : []),
];

const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
// PostgreSQL runs as another user when we are root.
chmodSync(directory, 0o755);
const engines = [];
try {
  printLoad();
  for (const engine of ENGINES) engines.push(await startEngine(engine));
  for (const { name, durability } of engines) print(`${name.padEnd(14)} ${durability}`);
  for (let round = 0; round < WARM_ROUNDS + rounds; round += 1) {
    for (const load of Object.keys(LOADS)) {
      for (const { name, run, samples } of engines) {
        if (LOADS[load].bytes !== undefined && !SAVES.includes(name)) continue;
        const { ms, processes } = await run(LOADS[load]);
        if (round >= WARM_ROUNDS) samples[load].push(ms);
        else if (round === 0 && load === "one") samples.first.push(ms);
        samples.processes.push(processes);
      }
    }
  }
  report();
  printLoad();
} finally {
  for (const { stop } of engines) await stop();
  rmSync(directory, { recursive: true, force: true });
}

function report() {
  print("\nMedian (10th to 90th percentile):");
  const heads = ["one run of 1 step, ms", "one run of 20 steps, ms", "64 runs of 20 steps, steps/s", "first run, ms"];
  print(["".padEnd(14), ...heads.map((head) => head.padEnd(30))].join(" "));
  for (const { name, samples } of engines) {
    const cells = [spread(samples.one), spread(samples.twenty), spread(rates(samples)), spread(samples.first)];
    print([name.padEnd(14), ...cells.map((cell) => cell.padEnd(30))].join(" "));
  }
  print("");
  const of = (name) => engines.find((engine) => engine.name === name)?.samples;
  const one = quantile(of("Holdfast").one, 0.5);
  printTarget({ what: "one run of one step", value: one, unit: "ms", atMost: 10 });
  const processes = Math.max(...of("Holdfast").processes);
  printTarget({ what: "processes started by any round", value: processes, unit: "", atMost: 0 });
  printStep("Holdfast", of("Holdfast"), of("raw insert"));
  for (const name of ["OpenWorkflow", "DBOS", "Restate", "before"])
    printAgainst({ name: "Holdfast", ours: of("Holdfast"), other: name, theirs: of(name), longer: 2, faster: 5 });
  const onPostgres = of("Holdfast on PG");
  if (onPostgres === undefined) return;
  printStep("Holdfast on PG", onPostgres, of("insert on PG"));
  printAgainst({ name: "Holdfast on PG", ours: onPostgres, other: "DBOS", theirs: of("DBOS"), longer: 2, faster: 2 });
  printSaves(onPostgres, of("DBOS"));
}

function printSaves(ours, dbos) {
  for (const [what, load] of [
    ["1 run", "saves"],
    ["64 runs", "manySaves"],
  ]) {
    const rate = ({ [load]: times }) => times.map((ms) => (LOADS[load].runs * LOADS[load].steps * 1000) / ms);
    print(`${what} of 20 checkpoints of 1 KB: Holdfast on PG ${spread(rate(ours))} checkpoints/s`);
    if (dbos === undefined) continue;
    const value = quantile(rate(ours), 0.5) / quantile(rate(dbos), 0.5);
    printTarget({ what: `the same: Holdfast on PG / DBOS`, value, unit: "×", atLeast: 2 });
  }
}

function printStep(name, ours, raw) {
  const { one, twenty } = LOADS;
  // The difference leaves out what a run costs besides its steps.
  const step = (quantile(ours.twenty, 0.5) - quantile(ours.one, 0.5)) / (twenty.steps - one.steps);
  const insert = quantile(raw.twenty, 0.5) / twenty.steps;
  printTarget({ what: `${name}: a durable step / a raw durable insert`, value: step / insert, unit: "×", atMost: 2.2 });
}

function printAgainst({ name, ours, other, theirs, longer, faster }) {
  if (theirs === undefined) return;
  const time = quantile(theirs.twenty, 0.5) / quantile(ours.twenty, 0.5);
  printTarget({ what: `one run of 20 steps: ${other} / ${name}`, value: time, unit: "×", atLeast: longer });
  const rate = quantile(rates(ours), 0.5) / quantile(rates(theirs), 0.5);
  printTarget({ what: `64 runs of 20 steps: ${name} / ${other}`, value: rate, unit: "×", atLeast: faster });
}

function rates({ many }) {
  return many.map((ms) => (LOADS.many.runs * LOADS.many.steps * 1000) / ms);
}

async function startEngine({ name, module, build }) {
  const place = join(directory, name.replaceAll(" ", "-"));
  mkdirSync(place);
  const child = spawn(process.execPath, [join(peers, "worker.mjs"), join(peers, module), place], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, NODE_NO_WARNINGS: "1", ...(build === undefined ? {} : { HOLDFAST_PACKAGE: build }) },
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async () => {
    for (;;) {
      const { value, done } = await lines.next();
      if (done) throw new Error(`${name} exited before it answered`);
      if (value.startsWith("@")) return JSON.parse(value.slice(1));
    }
  };
  return {
    name,
    ...(await answer()),
    samples: { one: [], twenty: [], many: [], saves: [], manySaves: [], first: [], processes: [] },
    async run(load) {
      child.stdin.write(`${JSON.stringify(load)}\n`);
      return await answer();
    },
    async stop() {
      child.stdin.end();
      await ended;
    },
  };
}
