// Checks what the demo of a team promises, each against an independent source: the remote, the forge's log, the journals, the server's tables.
import { execFile } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

/** Collects what PostgreSQL has acknowledged: the entries of all journals, while they are written. */
export function watchJournals(postgres) {
  const seen = new Map();
  const read = async () => {
    const rows = await postgres.sql(
      "SELECT runs.id, entry, kind, encode(hash, 'hex') FROM holdfast.entries JOIN holdfast.runs USING (run)",
    );
    for (const row of rows.split("\n").filter((line) => line !== "")) {
      const [run, entry, kind, hash] = row.split("|");
      const key = `${run}/${entry}`;
      if (!seen.has(key)) seen.set(key, { run, entry: Number(entry), kind, hash });
    }
  };
  return { seen, read };
}

/** Returns `{ claim, ok, detail }`s. */
export async function prove({ you, remote, issues, seen, workers, killed }) {
  const names = issues.map(({ number }) => `issue-${number}`);
  await you.holdfast("store", "fetch");
  const verified = await you.holdfast("verify");
  const { runs } = await you.holdfast("list", "--limit", "all");
  const journals = new Map();
  const read = async (name) => (await you.holdfast("events", name, "--after", "0", "--limit", "all")).entries;
  await Promise.all(names.map(async (name) => journals.set(name, await read(name))));
  const entries = [...journals].flatMap(([run, list]) => list.map((entry) => ({ ...entry, run })));
  const log = readFileSync(join(remote, "holdfast-forge/log.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const pulls = readdirSync(join(remote, "holdfast-forge/pulls"));
  const git = async (...args) => (await promisify(execFile)("git", ["--git-dir", remote, ...args])).stdout;
  const heads = (await git("for-each-ref", "--format=%(refname:short)", "refs/heads")).trim().split("\n");
  const branches = heads.filter((name) => name !== "main");
  const right = [];
  for (const { number, path, text } of issues) {
    const branch = branches.find((name) => name.endsWith(`issue-${number}`));
    if (branch !== undefined && (await git("show", `${branch}:${path}`).catch(() => null)) === text) right.push(number);
  }

  const count = issues.length;
  const done = runs.filter(({ id, status }) => names.includes(id) && status.kind === "done");
  const ends = entries.filter(({ kind }) => kind === "run.ended");
  const created = log.filter(({ what }) => what === "pull_created");
  const keys = log.flatMap(({ key }) => key ?? []);
  const settled = entries.filter(({ kind }) => kind === "effect.settled").map(({ run, body }) => `${run} ${body.key}`);
  const steps = entries
    .filter(({ kind }) => kind === "step.finished")
    .map(({ run, body }) => `${run} ${body.stageAttempt} ${body.step}`);
  const lost = [...seen.values()].filter(({ run, entry, hash }) => journals.get(run)?.[entry - 1]?.hash !== hash);
  const checkpoints = [...seen.values()].filter(({ kind }) => kind === "checkpoint").length;
  const moved = movedRuns(workers, killed);
  return [
    {
      claim: "every run done, once",
      ok: runs.length === count && done.length === count && ends.length === count,
      detail: `${done.length} of ${count} are done, with ${ends.length} ends in the journals`,
    },
    {
      claim: "one pull request each",
      ok: [created, pulls, branches].every(({ length }) => length === count),
      detail: `${branches.length} branches, ${pulls.length} open; the forge created ${created.length}`,
    },
    {
      claim: "no outside effect twice",
      ok: isUnique(keys) && isUnique(settled),
      detail: `${settled.length} effects, each settled once`,
    },
    { claim: "no step run twice", ok: isUnique(steps), detail: `${steps.length} steps, each finished once` },
    {
      claim: "no checkpoint lost",
      ok: lost.length === 0 && checkpoints > 0,
      detail: `${seen.size} entries and ${checkpoints} checkpoints were read while the workers worked; the journals still have each of them`,
    },
    {
      claim: "moved to another worker",
      ok: moved.length > 0 && moved.every(({ to }) => to !== killed.name),
      detail: moved.map(({ run, to }) => `${run} to ${to}`).join(", "),
    },
    {
      claim: "the right files",
      ok: right.length === count,
      detail: `${right.length} branches have what their issue asks for`,
    },
    {
      claim: "nothing damaged",
      ok: verified.ok,
      detail: `holdfast verify recomputed every digest of ${verified.summary.checkpoints} checkpoints`,
    },
  ];
}

/** What the killed worker had not finished, and who did. */
function movedRuns(workers, killed) {
  return killed.lost.map((run) => {
    const last = workers.filter(({ name, runs }) => name !== killed.name && runs.some(({ id }) => id === run)).at(-1);
    return { run, to: last?.name ?? killed.name };
  });
}

function isUnique(list) {
  return new Set(list).size === list.length;
}
