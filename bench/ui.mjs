// Measures the server and the page of `holdfast ui` over 20 repositories with 1,000 runs, 10,000 checkpoints, one journal of 20,000 entries, and a
// diff of 5,000 lines. Prints each budget, what was measured, and whether it was met. Fails if a count or a size is over its budget, or
// processor time over twice its budget: a busy machine makes the same work cost somewhat more, but never as much.
//   node bench/ui.mjs [--runs N] [--entries N] [--repositories N] [--idle SECONDS] [--package FOLDER]     after `node scripts/build.mjs`
import "./supported-node.mjs";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";

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
const BROWSER = process.env.HOLDFAST_TEST_BROWSER ?? "/usr/bin/chromium-headless-shell";
/** Addresses that a tab goes through again and again, and what each of them shows. */
const WALK = [
  ["/runs", "[data-row]"],
  ["/r/repo-0/long", ".lane-bars .span"],
  ["/r/repo-0/long/journal", ".entry"],
  ["/r/repo-0/diff/@1..2", ".diff-row"],
  ["/r/repo-0/run-1/@3", ".plane-tabs"],
];
const WALKS = 20;
const NOUNS = {
  processor: "",
  bytes: "",
  gzip: " gz",
  elements: " elements",
  share: "",
  requests: " requests",
  heap: "",
};

const { open } = await import(join(values.package, "dist/index.js"));
const directory = await mkdtemp(join(tmpdir(), "holdfast-bench-ui-"));
const env = { PATH: process.env.PATH, HOME: directory, TZ: "UTC", LANG: "C.UTF-8" };
const command = [process.execPath, join(values.package, "bin/holdfast.cjs")];
let server;
let browser;
let failed = false;
try {
  const made = performance.now();
  // The oldest has the long journal, so that the first list does not read it.
  await makeRepository(0);
  await Promise.all(Array.from({ length: REPOSITORIES - 1 }, (_none, at) => makeRepository(at + 1)));
  console.log(`made ${RUNS} runs in ${REPOSITORIES} repositories: ${((performance.now() - made) / 1000).toFixed(1)} s`);
  console.log("\n| what | measured | budget | | time |\n|---|---:|---:|---|---:|");
  measureSizes(join(values.package, "dist/cli/ui"));
  server = spawn(command[0], [command[1], "ui", "--no-open", "--json", "--port", "0"], { cwd: directory, env });
  const { url, origin } = await serving(server);
  report("server ready", { processor: busy(server.pid) }, { processor: 400 });
  const token = await sessionOf(origin, url);
  await measureServer(origin, token);
  if (existsSync(BROWSER)) await measurePage(origin, token);
  else console.log(`no browser at ${BROWSER}: the page itself is not measured`);
  process.exitCode = failed ? 1 : 0;
} finally {
  await browser?.close();
  server?.kill("SIGINT");
  await rm(directory, { recursive: true, force: true, maxRetries: 3 });
}

/** What a browser loads before it draws, and the largest part that it loads later. */
function measureSizes(folder) {
  const gzip = (path) => gzipSync(readFileSync(path), { level: 9 }).length;
  const html = readFileSync(join(folder, "index.html"), "utf8");
  const parts = readdirSync(join(folder, "assets")).map((name) => ({
    first: html.includes(name) && !name.endsWith(".svg"),
    size: gzip(join(folder, "assets", name)),
  }));
  const first = parts.filter((part) => part.first);
  const total = first.reduce((sum, { size }) => sum + size, gzip(join(folder, "index.html")));
  report("first load", { gzip: total, requests: first.length + 1 }, { gzip: 60_000, requests: 3 });
  const largest = Math.max(...parts.filter((part) => !part.first).map(({ size }) => size));
  report("largest later part", { gzip: largest }, { gzip: 20_000 });
}

async function measureServer(origin, token) {
  const get = async (path) => {
    const [start, used] = [performance.now(), busy(server.pid)];
    const response = await fetch(`${origin}${path}`, { headers: { authorization: `Bearer ${token}` } });
    const body = await response.text();
    if (!response.ok) throw new Error(`${path}: ${body}`);
    const [milliseconds, processor] = [performance.now() - start, busy(server.pid) - used];
    return { milliseconds, processor, bytes: body.length, json: JSON.parse(body) };
  };
  const median = async (path) => {
    const all = [];
    for (let at = 0; at < 5; at += 1) all.push(await get(path));
    return all.toSorted((a, b) => a.processor - b.processor)[2];
  };
  const long = "/api/runs/repo-0/long";
  const diff = "a=repo-0/diff@1&b=repo-0/diff@2";
  await get("/api/boot");
  const first = await get("/api/runs");
  const { rows, counts } = first.json;
  if (counts.finished !== RUNS + 2) throw new Error(JSON.stringify(counts));
  report(`first list of ${RUNS} runs`, first, { processor: 2000, bytes: 200_000 });
  report("list of runs again", await median("/api/runs"), { processor: 200, bytes: 200_000 });
  const largest = Math.max(...rows.map((row) => JSON.stringify(row).length));
  report("largest row of the list", { bytes: largest }, { bytes: 2000 });
  report("what needs you", await median("/api/inbox"), { processor: 200, bytes: 200_000 });
  report(`first timeline of ${ENTRIES} entries`, await get(`${long}/timeline`), { processor: 1000, bytes: 2_000_000 });
  report("timeline again", await median(`${long}/timeline`), { processor: 100, bytes: 2_000_000 });
  report("newest 200 entries", await median(`${long}/entries?limit=200`), { processor: 300, bytes: 100_000 });
  report("page of a run", await median(long), { processor: 200, bytes: 100_000 });
  const list = await get(`/api/diff?${diff}`);
  if (list.json.files.length !== FILES) throw new Error(JSON.stringify(list.json));
  report(`list of a diff of ${FILES} files`, list, { processor: 200, bytes: 50_000 });
  const file = await get(`/api/diff/file?${diff}&path=file-7.txt`);
  report("one file of it", file, { processor: 200, bytes: 20_000 });
}

/** What the page costs in a browser: processor time of its main thread, elements, requests and memory. */
async function measurePage(origin, token) {
  browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const elements = 3000;
  const shows = async (name, path, selector, budget) => {
    const tab = await openTab(origin, token);
    await tab.shows(path, selector);
    report(name, { ...(await tab.cost()), elements: await tab.elements() }, budget);
    return tab;
  };
  for (const [name, path, selector, processor] of [
    ["page of the run of the long journal", "/r/repo-0/long", ".lane-bars .span", 1000],
    ["its journal", "/r/repo-0/long/journal", ".entry", 1000],
    ["page of the diff", "/r/repo-0/diff/@1..2", ".diff-row", 500],
    ["page of a checkpoint", "/r/repo-0/run-1/@3", ".plane-tabs", 500],
  ])
    await (await shows(name, path, selector, { processor, elements })).page.close();

  const tab = await shows("page of all runs", "/runs", "[data-row]", { processor: 500, elements });
  const { page } = tab;
  const older = page.getByRole("button", { name: "Show older runs" });
  const loading = page.getByRole("button", { name: "Loading…" });
  const before = await tab.cost();
  for (; await older.isVisible(); await loading.waitFor({ state: "detached" })) await older.click();
  const { processor } = await tab.cost();
  const all = { processor: processor - before.processor, elements: await tab.elements() };
  report(`the same, down to the oldest of ${RUNS} runs`, all, { processor: 4 * RUNS, elements });

  // What follows the last commits is not idle.
  await sleep(8000);
  let requests = 0;
  page.on("request", () => (requests += 1));
  const periods = [];
  for (let period = 0; period < 3; period += 1) {
    const [idle, used] = [await tab.cost(), busy(server.pid)];
    await sleep(IDLE_MS / 3);
    periods.push({ server: busy(server.pid) - used, page: (await tab.cost()).processor - idle.processor });
  }
  // One of the three may have a garbage collection.
  const share = (side) => periods.map((period) => period[side]).toSorted((a, b) => a - b)[1] / (IDLE_MS / 3);
  report("server while nothing happens", { share: share("server") }, { share: 0.001 });
  report("page while nothing happens", { share: share("page"), requests }, { share: 0.01, requests: 0 });

  const { heap } = await tab.walk(3);
  report(`memory after ${WALKS} walks through the pages`, { heap: (await tab.walk(WALKS)).heap - heap }, { heap: 2e7 });
}

async function openTab(origin, token) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.addInitScript(`sessionStorage.setItem("holdfast.token", ${JSON.stringify(token)})`);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const cost = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    const all = Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
    return { processor: all.TaskDuration * 1000, heap: all.JSHeapUsedSize };
  };
  const shown = (selector) => page.locator(selector).first().waitFor();
  return {
    page,
    cost,
    elements: () => page.evaluate("document.querySelectorAll('*').length"),
    async shows(path, selector) {
      await page.goto(origin + path);
      await shown(selector);
      await page.locator("main .skeleton").waitFor({ state: "detached" });
      await shown(".live[data-state=live]");
    },
    async walk(times) {
      for (let time = 0; time < times; time += 1)
        for (const [path, selector] of WALK) {
          await page.evaluate(`history.pushState(null, "", "${path}"); dispatchEvent(new PopStateEvent("popstate"))`);
          await shown(selector);
        }
      await session.send("HeapProfiler.collectGarbage");
      return await cost();
    },
  };
}

/** Prints what was measured beside its budgets. Twice a budget of processor time, and any other budget exceeded, fails. */
function report(name, measured, budget) {
  const words = { processor: ms, bytes: kB, gzip: kB, elements: String, share: percent, requests: String, heap: kB };
  const limits = Object.entries(budget).map(([kind, limit]) => {
    const value = measured[kind];
    const most = kind === "processor" ? 2 * limit : kind === "share" ? 5 * limit : limit;
    if (value > most) failed = true;
    return { kind, value: words[kind](value), limit: words[kind](limit), met: value <= limit, over: value > most };
  });
  const list = (of) => limits.map((one) => of(one)).join(", ");
  const met = limits.every(({ met }) => met) ? "met" : limits.some(({ over }) => over) ? "missed by far" : "missed";
  console.log(
    `| ${name} | ${list(({ value, kind }) => `${value}${NOUNS[kind]}`)} | ${list(({ limit }) => limit)} | ${met} | ${measured.milliseconds === undefined ? "" : ms(measured.milliseconds)} |`,
  );
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

/** Milliseconds of processor time of all threads of a process. Linux only: elsewhere 0. */
function busy(pid) {
  if (!existsSync(`/proc/${pid}/task`)) return 0;
  return readdirSync(`/proc/${pid}/task`)
    .map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]) / 1e6)
    .reduce((sum, one) => sum + one, 0);
}

function ms(value) {
  return `${value.toFixed(0)} ms`;
}

function percent(share) {
  return `${(share * 100).toFixed(2)} %`;
}

function kB(bytes) {
  return `${(bytes / 1000).toFixed(0)} kB`;
}
