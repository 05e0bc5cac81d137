// Measures the page server over 20 repositories with 1,000 runs, 10,000 checkpoints and one journal of 20,000 entries, and a diff of 5,000 lines.
// Prints each budget with the time and the processor time that an answer took. Fails if an answer needs five times its budget of processor
// time, which a busy machine cannot cause, or is larger than it may be.
//   node bench/ui.mjs [--runs N] [--entries N] [--repositories N] [--idle SECONDS] [--package FOLDER]     after `node scripts/build.mjs`
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const text = (value) => ({ type: "string", default: String(value) });
const { values } = parseArgs({
  options: {
    runs: text(1000),
    entries: text(20_000),
    repositories: text(20),
    idle: text(20),
    package: text(join(root, "packages/holdfast")),
  },
});
const [RUNS, ENTRIES, REPOSITORIES] = [Number(values.runs), Number(values.entries), Number(values.repositories)];
const IDLE_MS = Number(values.idle) * 1000;
const CHECKPOINTS = 10;
/** A diff of 5,000 lines. */
const [FILES, LINES] = [100, 50];
/** Share of one processor while nothing happens. */
const IDLE = 0.001;
/** An answer that needs this many times its budget is a defect. */
const FAR = 5;

const { open } = await import(join(values.package, "dist/index.js"));
const directory = await mkdtemp(join(tmpdir(), "holdfast-bench-ui-"));
const env = { PATH: process.env.PATH, HOME: directory, TZ: "UTC", LANG: "C.UTF-8" };
const command = [process.execPath, join(values.package, "bin/holdfast.cjs")];
let server;
try {
  const made = performance.now();
  for (let at = 0; at < REPOSITORIES; at += 1) await makeRepository(at);
  console.log(`made ${RUNS} runs in ${REPOSITORIES} repositories: ${((performance.now() - made) / 1000).toFixed(1)} s`);
  server = spawn(command[0], [command[1], "ui", "--no-open", "--json", "--port", "0"], { cwd: directory, env });
  const { url, origin } = await serving(server);
  const ready = busy(server.pid);
  const token = await sessionOf(origin, url);
  const get = async (path) => {
    const [start, used] = [performance.now(), busy(server.pid)];
    const response = await fetch(`${origin}${path}`, { headers: { authorization: `Bearer ${token}` } });
    const body = await response.text();
    if (!response.ok) throw new Error(`${path}: ${body}`);
    const [milliseconds, processor] = [performance.now() - start, busy(server.pid) - used];
    return { milliseconds, processor, bytes: body.length, json: JSON.parse(body) };
  };
  await get("/api/boot");
  const long = "/api/runs/repo-0/long";
  const diff = "a=repo-0/diff@1&b=repo-0/diff@2";
  const results = [
    { name: "server ready", milliseconds: null, processor: ready, bytes: 0, budget: 400 },
    { name: `first list of ${RUNS} runs`, budget: 2000, ...(await get("/api/runs")) },
    { name: "list of runs again", budget: 200, most: 200_000, ...(await median(() => get("/api/runs"))) },
    { name: "what needs you", budget: 200, most: 200_000, ...(await median(() => get("/api/inbox"))) },
    { name: `first timeline of ${ENTRIES} entries`, budget: 1000, ...(await get(`${long}/timeline`)) },
    { name: "timeline again", budget: 100, most: 2_000_000, ...(await median(() => get(`${long}/timeline`))) },
    {
      name: "newest 200 entries",
      budget: 300,
      most: 100_000,
      ...(await median(() => get(`${long}/entries?limit=200`))),
    },
    { name: "page of a run", budget: 200, most: 100_000, ...(await median(() => get(long))) },
    { name: `list of a diff of ${FILES} files`, budget: 200, most: 50_000, ...(await get(`/api/diff?${diff}`)) },
    { name: "one file of it", budget: 200, most: 20_000, ...(await get(`/api/diff/file?${diff}&path=file-7.txt`)) },
  ];
  const { rows, counts } = results[1].json;
  if (counts.finished !== RUNS + 2 || results[8].json.files.length !== FILES) throw new Error(JSON.stringify(counts));
  const largest = Math.max(...rows.map((row) => JSON.stringify(row).length));
  results.push({ name: "largest row", milliseconds: null, processor: 0, bytes: largest, budget: 0, most: 2000 });
  console.log("\n| what | time | processor | budget | size |\n|---|---:|---:|---:|---:|");
  const ms = (value) => (value === null || value === 0 ? "" : `${value.toFixed(0)} ms`);
  for (const { name, milliseconds, processor, budget, bytes } of results)
    console.log(
      `| ${name} | ${ms(milliseconds)} | ${ms(processor)} | ${ms(budget)} | ${bytes === 0 ? "" : kB(bytes)} |`,
    );
  const idle = await idleShare(server.pid, origin, token);
  console.log(`| idle with a page open, ${REPOSITORIES} repositories | | ${percent(idle)} | ${percent(IDLE)} | |`);
  const far = results.filter(
    ({ processor, budget, bytes, most = Infinity }) => processor > FAR * budget || bytes > most,
  );
  for (const { name } of far) console.error(`far over its budget: ${name}`);
  if (idle > FAR * IDLE) console.error("far over its budget: idle");
  process.exitCode = far.length === 0 && idle <= FAR * IDLE ? 0 : 1;
} finally {
  server?.kill("SIGINT");
  await rm(directory, { recursive: true, force: true, maxRetries: 3 });
}

async function makeRepository(at) {
  const cwd = join(directory, `repo-${at}`);
  execFileSync("git", ["init", "-q", "-b", "main", cwd], { env });
  const holdfast = await open({ cwd });
  const count = Math.ceil(RUNS / REPOSITORIES);
  for (let number = 0; number < count; number += 1) {
    const run = await holdfast.createRun({ id: `run-${number}`, work: { kind: "task", text: `Task ${number}` } });
    for (let save = 0; save < CHECKPOINTS; save += 1) await run.save({ values: { save }, files: false });
    await run.close();
  }
  if (at === 0) await makeLong(holdfast);
  await holdfast.close();
  if (at === 0) makeDiff(cwd);
  // A command that writes makes the repository known.
  execFileSync(command[0], [command[1], "tag", "run-0@1", "known"], { cwd, env, stdio: "ignore" });
}

function makeDiff(cwd) {
  const write = (text) => {
    for (let at = 0; at < FILES; at += 1) writeFileSync(join(cwd, `file-${at}.txt`), `${text} ${at}\n`.repeat(LINES));
  };
  for (const text of ["before", "after"]) {
    write(text);
    execFileSync(command[0], [command[1], "checkpoint", "--run", "diff"], { cwd, env, stdio: "ignore" });
  }
}

async function makeLong({ store }) {
  const birth = { workflow: "manual", work: { kind: "none" } };
  const lease = await store.takeLease({ run: "long", birth, label: "bench" });
  for (let round = 0; round < ENTRIES / 400; round += 1) {
    const entries = Array.from({ length: 100 }, (_one, at) => {
      const stageAttempt = round * 100 + at;
      const place = { stage: "loop", iteration: stageAttempt, stageAttempt };
      const spent = { tokens: 10, microUsd: 5, milliseconds: 7 };
      return [
        { kind: "stage.entered", body: place },
        { kind: "step.started", body: { stageAttempt, step: "agent", files: false, estimate: spent } },
        { kind: "step.finished", body: { stageAttempt, step: "agent", result: null, spent } },
        { kind: "stage.ended", body: { ...place, event: "done", reason: "", next: "loop", score: at % 100 } },
      ];
    }).flat();
    await store.commit({ lease, entries });
  }
  await store.releaseLease(lease);
}

function serving(child) {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (part) => {
      text += part;
      if (text.trimEnd().endsWith("}")) resolve(JSON.parse(text));
    });
    child.once("exit", (status) => reject(new Error(`the server exited with ${status}`)));
  });
}

async function sessionOf(origin, url) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ code: url.slice(url.indexOf("#k=") + 3) });
  return (await (await fetch(`${origin}/api/session`, { method: "POST", headers, body })).json()).token;
}

async function median(measure) {
  const all = [];
  for (let at = 0; at < 5; at += 1) all.push(await measure());
  return all.toSorted((a, b) => a.milliseconds - b.milliseconds)[2];
}

/** Milliseconds of processor time of all threads of a process. Linux only: elsewhere 0. */
function busy(pid) {
  if (!existsSync(`/proc/${pid}/task`)) return 0;
  return readdirSync(`/proc/${pid}/task`)
    .map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]) / 1e6)
    .reduce((sum, one) => sum + one, 0);
}

/** Share of one processor that the server uses while a page listens and nothing happens. */
async function idleShare(pid, origin, token) {
  const controller = new AbortController();
  const headers = { authorization: `Bearer ${token}` };
  await fetch(`${origin}/api/events?topics=runs`, { headers, signal: controller.signal });
  // What follows the last commits is not idle.
  await sleep(Math.min(8000, IDLE_MS));
  const before = busy(pid);
  await sleep(IDLE_MS);
  const used = busy(pid) - before;
  controller.abort();
  return used / IDLE_MS;
}

function percent(share) {
  return `${(share * 100).toFixed(2)} %`;
}

function kB(bytes) {
  return `${(bytes / 1000).toFixed(0)} kB`;
}
