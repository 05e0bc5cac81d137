/**
 * What a run costs from `start` to `done`, and what one durable step costs, against one raw durable insert and three durable engines.
 * Each engine has its own process; they take turns in every round, so that the load of the machine affects all alike.
 *
 *   node bench/start.mjs [rounds]                             Holdfast and the raw insert
 *   (cd bench/peers && npm ci) && node bench/start.mjs        and OpenWorkflow, DBOS (needs PostgreSQL) and Restate
 *   HOLDFAST_BEFORE=<folder of a built package> node bench/start.mjs    and that build of Holdfast
 */
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
};
const peers = join(import.meta.dirname, "peers");
const hasPeers = existsSync(join(peers, "node_modules"));
const before = process.env["HOLDFAST_BEFORE"];
const ENGINES = [
  { name: "raw insert", module: "raw.mjs" },
  { name: "Holdfast", module: "holdfast.mjs" },
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
  for (const { name, durability } of engines) print(`${name.padEnd(13)} ${durability}`);
  for (let round = 0; round < WARM_ROUNDS + rounds; round += 1) {
    for (const load of Object.keys(LOADS)) {
      for (const { run, samples } of engines) {
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
  print(["".padEnd(13), ...heads.map((head) => head.padEnd(30))].join(" "));
  for (const { name, samples } of engines) {
    const cells = [spread(samples.one), spread(samples.twenty), spread(rates(samples)), spread(samples.first)];
    print([name.padEnd(13), ...cells.map((cell) => cell.padEnd(30))].join(" "));
  }
  print("");
  const of = (name) => engines.find((engine) => engine.name === name)?.samples;
  const ours = of("Holdfast");
  const [one, twenty, rate] = [ours.one, ours.twenty, rates(ours)].map((values) => quantile(values, 0.5));
  const insert = quantile(of("raw insert").twenty, 0.5) / LOADS.twenty.steps;
  printTarget({ what: "one run of one step", value: one, unit: "ms", atMost: 10 });
  printTarget({ what: "processes started by any round", value: Math.max(...ours.processes), unit: "", atMost: 0 });
  // The difference leaves out what a run costs besides its steps.
  const step = (twenty - one) / (LOADS.twenty.steps - LOADS.one.steps);
  printTarget({ what: "a durable step / a raw durable insert", value: step / insert, unit: "×", atMost: 2.2 });
  for (const name of ["OpenWorkflow", "DBOS", "Restate", "before"]) {
    const theirs = of(name);
    if (theirs === undefined) continue;
    const longer = quantile(theirs.twenty, 0.5) / twenty;
    printTarget({ what: `one run of 20 steps: ${name} / Holdfast`, value: longer, unit: "×", atLeast: 2 });
    const faster = rate / quantile(rates(theirs), 0.5);
    printTarget({ what: `64 runs of 20 steps: Holdfast / ${name}`, value: faster, unit: "×", atLeast: 5 });
  }
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
    samples: { one: [], twenty: [], many: [], first: [], processes: [] },
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
