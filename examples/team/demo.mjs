// `npm run demo:team`: three workers turn twelve issues into pull requests, over one PostgreSQL server and one git remote. One worker is killed on
// the way. Flags: --runs N (default 12), --keep, --holdfast PATH of the command (default: that of this checkout).
import { existsSync } from "node:fs";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs, styleText } from "node:util";
import { DEAD_SECONDS, ENTRY, agentPath, findPostgres, makeMachine, makeRemote, startPostgres } from "./machines.mjs";
import { prove, watchJournals } from "./proof.mjs";

const SLOTS = 2;
const WIDTH = 78;

const { values: flags } = parseArgs({
  options: {
    runs: { type: "string", default: "12" },
    keep: { type: "boolean", default: false },
    holdfast: { type: "string", default: ENTRY },
  },
});
const issues = Array.from({ length: Number(flags.runs) }, (_, i) => issueOf(i + 1));
const stopping = new AbortController();
const stopped = new Promise((_, reject) =>
  stopping.signal.addEventListener("abort", () => reject(new Error("stopped"))),
);
stopped.catch(() => undefined);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => stopping.abort(signal));

const bin = findPostgres();
if (bin === null) {
  console.error("This demo needs PostgreSQL. On Debian or Ubuntu: sudo apt-get install postgresql");
  process.exit(4);
}
const directory = await realpath(await mkdtemp(join(tmpdir(), "holdfast-team-")));
const started = [];
try {
  process.exitCode = (await demonstrate()) ? 0 : 1;
} catch (error) {
  if (!stopping.signal.aborted) throw error;
  process.exitCode = stopping.signal.reason === "SIGINT" ? 130 : 143;
} finally {
  // Commands end by themselves while the server is there.
  for (const { stop } of started.toReversed()) await stop();
  if (!flags.keep) await rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}

async function demonstrate() {
  say(
    `${issues.length} issues become pull requests. Three workers share them through PostgreSQL and a git remote. One worker is killed with SIGKILL on the way, with all that it executes.`,
  );
  heading("A PostgreSQL server, a git remote, and four clones of it");
  const postgres = await startPostgres(bin, join(directory, "postgres"));
  started.push(postgres);
  const remote = await makeRemote(directory, issues);
  const machine = (name) => makeMachine({ directory, remote, postgres, entry: flags.holdfast, name });
  const you = await machine("you");
  started.push({ stop: you.settle });
  say(`store   ${postgres.url}`, "  ");
  say(`remote  ${remote}`, "  ");

  heading("You submit the issues");
  say(`$ holdfast submit 1      … and so on, up to ${issues.length}`, "  ");
  const journals = watchJournals(postgres);
  const submit = (issue) =>
    you.holdfast("submit", String(issue.number), "--agent", `scripted:${agentPath(directory, issue)}`);
  // One after the other: git reads the entries of other worktrees when it adds one, and fails at one that is half written.
  for (const issue of issues) await alive(submit(issue));

  heading("Three workers execute them");
  say(`$ holdfast worker --join --slots ${SLOTS}      on each`, "  ");
  const workers = [];
  for (const name of ["worker-1", "worker-2", "worker-3"]) {
    const worker = (await machine(name)).join(SLOTS);
    workers.push(worker);
    started.push({ stop: () => worker.powerOff() });
  }
  await alive(Promise.all(workers.map(({ joined }) => joined)));

  const killed = await killOne(workers, journals);
  say(`${styleText("red", "✗")} ${killed.name} is killed while it executes ${killed.lost.join(" and ")}`, "  ");
  say(`after ${DEAD_SECONDS} seconds without a heartbeat its runs go to the others`, "    ");
  let last = 0;
  for (;;) {
    await journals.read();
    const done = doneOf(journals);
    if (Math.floor(done / 3) > Math.floor(last / 3)) say(`${done} of ${issues.length} done`, "  ");
    last = done;
    if (done === issues.length) break;
    await pause(500, undefined, { signal: stopping.signal });
  }
  // The workers record the end of a run just after its journal has it.
  while ((await alive(you.holdfast("queue"))).entries.length > 0) await pause(200);

  heading("Who executed what");
  for (const { name, runs } of workers)
    say([...new Set(runs.map(({ id }) => id.replace("issue-", "#")))].join(" "), `  ${name}  `);

  heading("The proof");
  const claims = await alive(prove({ you, remote, issues, seen: journals.seen, workers, killed }));
  const width = Math.max(...claims.map(({ claim }) => claim.length));
  for (const { claim, ok, detail } of claims)
    say(detail, `  ${ok ? styleText("green", "✓") : styleText("red", "✗")} ${claim.padEnd(width)}  `, width + 6);
  const ok = claims.every((claim) => claim.ok);
  if (flags.keep) say(`\nKept: ${directory}`);
  say(ok ? "\nWith your own machines: docs/team.md" : "\nThis must not happen. Please report it.");
  return ok;
}

/** Waits until a worker is in the middle of its agents' work, with a third of the runs done, and kills it. */
async function killOne(workers, journals) {
  for (;;) {
    await journals.read();
    const victim = workers.find(
      (worker) => worker.active().length === SLOTS && worker.active().some((run) => isHalfDone(worker, run)),
    );
    if (victim !== undefined && doneOf(journals) >= issues.length / 3) {
      // It may have finished its runs since they were read. While it is frozen, it cannot.
      await victim.signal("SIGSTOP");
      await journals.read();
      const lost = victim.active().filter((run) => !hasEnded(journals, run));
      await victim.signal(lost.length > 0 ? "SIGKILL" : "SIGCONT");
      if (lost.length > 0) return { name: victim.name, lost };
    }
    await pause(100, undefined, { signal: stopping.signal });
  }
}

function isHalfDone({ clone }, run) {
  const issue = issues.find(({ number }) => run === `issue-${number}`);
  return issue !== undefined && existsSync(join(`${clone}-worktrees`, run, issue.path));
}

function hasEnded({ seen }, run) {
  return [...seen.values()].some((entry) => entry.run === run && entry.kind === "run.ended");
}

function doneOf({ seen }) {
  return [...seen.values()].filter(({ kind }) => kind === "run.ended").length;
}

function issueOf(number) {
  const text = Array.from({ length: 12 }, (_, i) => `${i + 1} × ${number} = ${(i + 1) * number}\n`).join("");
  return { number, title: `Add the multiples of ${number}`, path: `tables/${number}.txt`, text };
}

/** Rejects at once when the demo is stopped. */
function alive(promise) {
  return Promise.race([promise, stopped]);
}

function heading(text) {
  console.log(styleText("bold", `\n── ${text}`));
}

/** Prints a text in lines of at most 78 columns below `first`. */
function say(text, first = "", indent = first.length) {
  let line = "";
  let start = first;
  for (const word of text.split(/(?<! ) (?! )/)) {
    if (line !== "" && indent + line.length + 1 + word.length > WIDTH) {
      console.log(start + line);
      start = " ".repeat(indent);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  console.log(start + line);
}
