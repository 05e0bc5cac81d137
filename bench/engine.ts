import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { printRatio, quantile } from "./report.ts";

/**
 * What a durable step that does nothing costs, against the floor and three durable engines, rounds interleaved in one run.
 * A step's latency is the time between the bodies of two steps that follow each other in one workflow, alike for all.
 * Throughput is all steps of a round over the time from the first body to the last.
 *
 *   (cd bench/peers && npm ci) && node bench/engine.ts [rounds]
 */
const rounds = Number(process.argv[2] ?? 12);
const ALONE = { workflows: 1, steps: 200 };
/** So many rounds until V8 has compiled what a step runs through; alike for all. */
const WARM_ROUNDS = 15;
const TOGETHER = { workflows: 64, steps: 25 };
const here = import.meta.dirname;
const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-engine-"));
// PostgreSQL runs as another user when we are root.
chmodSync(directory, 0o755);

const MODULES = {
  raw: join(here, "engine/raw.ts"),
  holdfast: join(here, "engine/holdfast.ts"),
  openworkflow: join(here, "peers/openworkflow.mjs"),
  dbos: join(here, "peers/dbos.mjs"),
  restate: join(here, "peers/restate.mjs"),
} as const;
type Name = keyof typeof MODULES;
interface Round {
  readonly latencies: readonly number[];
  readonly rate: number;
  readonly cpuPerStep: number;
}

if (!existsSync(join(here, "peers/node_modules"))) {
  process.stdout.write(
    "The peers are not installed: (cd bench/peers && npm ci), and PostgreSQL from Debian's packages.\n",
  );
  process.exit(1);
}
const peers = new Map<Name, Awaited<ReturnType<typeof start>>>();
try {
  for (const name of Object.keys(MODULES) as Name[]) peers.set(name, await start(name));
  for (const [name, { durability }] of peers) process.stdout.write(`${name.padEnd(13)} ${durability}\n`);
  const alone = new Map<Name, Round[]>();
  const together = new Map<Name, Round[]>();
  const cold = new Map<Name, Round[]>();
  for (const [name, { run }] of peers) push(cold, name, await run(ALONE));
  for (const { run } of peers.values()) {
    for (let round = 0; round < WARM_ROUNDS; round += 1) await run(ALONE);
    await run(TOGETHER);
  }
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, { run }] of peers) push(alone, name, await run(ALONE));
    for (const [name, { run }] of peers) push(together, name, await run(TOGETHER));
  }
  reportCold(cold);
  report(alone, together);
  await countSyncs();
} finally {
  for (const { stop } of peers.values()) await stop();
  rmSync(directory, { recursive: true, force: true });
}

/** A process that has just started: what a step costs before anything is compiled. No aim is set for it. */
function reportCold(cold: Map<Name, Round[]>): void {
  const figures = [...cold].map(([name, rounds]) => {
    const p50 =
      quantile(
        rounds.flatMap((round) => round.latencies),
        0.5,
      ) * 1000;
    return `${name} ${p50.toFixed(0)} µs`;
  });
  process.stdout.write(`\nthe first ${ALONE.steps} steps of a new process, p50: ${figures.join(", ")}\n`);
}

function report(alone: Map<Name, Round[]>, together: Map<Name, Round[]>): void {
  const p50 = (name: Name) =>
    quantile(
      (alone.get(name) ?? []).flatMap((round) => round.latencies),
      0.5,
    ) * 1000;
  const rate = (name: Name) =>
    quantile(
      (together.get(name) ?? []).map((round) => round.rate),
      0.5,
    );
  const cpu = (rows: Map<Name, Round[]>, name: Name) =>
    quantile(
      (rows.get(name) ?? []).map((one) => one.cpuPerStep),
      0.5,
    );
  process.stdout.write("\n              alone p50   64 at once        processor a step (alone, 64 at once)\n");
  for (const name of peers.keys()) {
    const figures = [
      `${p50(name).toFixed(0)} µs`.padStart(10),
      `${rate(name).toFixed(0)} steps/s`.padStart(16),
      `${cpu(alone, name).toFixed(3)} ms`.padStart(12),
      `${cpu(together, name).toFixed(3)} ms`.padStart(12),
    ];
    process.stdout.write(`${name.padEnd(13)}${figures.join(" ")}\n`);
  }
  process.stdout.write("\n");
  const ours = p50("holdfast");
  printRatio({ what: "alone: holdfast / raw insert", ours, peer: p50("raw"), unit: "µs", atMost: 1.3 });
  printRatio({ what: "alone: OpenWorkflow / holdfast", ours: p50("openworkflow"), peer: ours, unit: "µs", atLeast: 2 });
  printRatio({ what: "alone: DBOS / holdfast", ours: p50("dbos"), peer: ours, unit: "µs", atLeast: 4 });
  printRatio({ what: "alone: Restate / holdfast", ours: p50("restate"), peer: ours, unit: "µs" });
  const best = Math.max(rate("openworkflow"), rate("dbos"), rate("restate"));
  printRatio({
    what: "64 at once: holdfast / best of the three",
    ours: rate("holdfast"),
    peer: best,
    unit: "steps/s",
    atLeast: 10,
  });
  const mine = Math.max(cpu(alone, "holdfast"), cpu(together, "holdfast"));
  printRatio({ what: "processor time a step / 0.3 ms", ours: mine, peer: 0.3, unit: "ms", atMost: 1 });
}

async function start(name: Name) {
  const place = join(directory, name);
  mkdirSync(place);
  const child = spawn(process.execPath, [join(here, "peers/worker.mjs"), MODULES[name], place], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, NODE_NO_WARNINGS: "1" },
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async (): Promise<Record<string, unknown>> => {
    for (;;) {
      const { value, done } = await lines.next();
      if (done === true) throw new Error(`${name} ended before it answered`);
      if (typeof value === "string" && value.startsWith("@"))
        return JSON.parse(value.slice(1)) as Record<string, unknown>;
    }
  };
  const ready = await answer();
  const servers = ready["servers"] as readonly number[];
  return {
    durability: String(ready["durability"]),
    async run(load: { readonly workflows: number; readonly steps: number }): Promise<Round> {
      const before = cpuOf(servers);
      child.stdin.write(`${JSON.stringify(load)}\n`);
      const { entered, cpuMs } = (await answer()) as { entered: number[][]; cpuMs: number };
      const steps = load.workflows * load.steps;
      const all = entered.flat();
      const span = Math.max(...all) - Math.min(...all);
      return {
        latencies: entered.flatMap((one) => one.slice(1).map((at, index) => at - (one[index] ?? at))),
        rate: steps / (span / 1000),
        cpuPerStep: (cpuMs + cpuOf(servers) - before) / steps,
      };
    },
    async stop(): Promise<void> {
      child.stdin.end();
      await ended;
    },
  };
}

/** Processor time of servers and all they started, in milliseconds. */
function cpuOf(servers: readonly number[]): number {
  if (servers.length === 0) return 0;
  const stats = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
          .replace(/^.*\) /s, "")
          .split(" ");
        return [{ pid: Number(pid), parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) }];
      } catch {
        return [];
      }
    });
  const family = new Set(servers);
  for (let size = 0; size !== family.size;) {
    size = family.size;
    for (const { pid, parent } of stats) if (family.has(parent)) family.add(pid);
  }
  return stats.filter(({ pid }) => family.has(pid)).reduce((sum, { ticks }) => sum + ticks * 10, 0);
}

/** As the kernel sees it: syncs of a process that runs one workflow, with more and with fewer steps; the difference is the steps'. */
async function countSyncs(): Promise<void> {
  const [few, many] = [50, 550].map((steps) => syncsOf(steps));
  if (few === undefined || many === undefined) {
    process.stdout.write("syncs a step: not counted, strace is not there (apt-get install strace)\n");
    return;
  }
  printRatio({ what: "syncs a step, counted with strace", ours: (many - few) / 500, peer: 1, unit: "", atMost: 1.1 });
}

function syncsOf(steps: number): number | undefined {
  const place = mkdtempSync(join(directory, "syncs-"));
  const trace = join(place, "trace");
  const words = ["-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", trace];
  const worker = [process.execPath, join(here, "peers/worker.mjs"), MODULES.holdfast, place];
  const input = `${JSON.stringify({ workflows: 1, steps })}\n`;
  const { error } = spawnSync("strace", [...words, ...worker], { input, stdio: ["pipe", "ignore", "ignore"] });
  if (error !== undefined) return undefined;
  return readFileSync(trace, "utf8")
    .split("\n")
    .filter((line) => /f(?:data)?sync\(/.test(line)).length;
}

function push(rows: Map<Name, Round[]>, name: Name, round: Round): void {
  rows.set(name, [...(rows.get(name) ?? []), round]);
}
