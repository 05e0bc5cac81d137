// Judges what a team has done, from independent sources: the remote, the log of pushes, the forge's log, the agents' own log, and all that was
// read of the journals while they were written.

import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { FROZEN, type FaultReport } from "./faults.ts";
import type { Journals } from "./journals.ts";
import type { TeamScene } from "./scene.ts";

/** Returns what is wrong. */
export async function judgeTeam(
  scene: TeamScene,
  journals: Journals,
  reports: readonly FaultReport[],
): Promise<readonly string[]> {
  const { runs: listed } = await scene.json("list", "--limit", "all");
  const problems = [
    ...judgeRuns(scene, listed),
    ...(await judgeRemote(scene)),
    ...judgeForge(scene),
    ...judgeOrphans(scene, listed, reports),
  ];
  for (const run of scene.runs) {
    const { entries } = await scene.json("events", run, "--after", "0", "--limit", "all");
    problems.push(...judgeJournal(run, entries, journals), ...(await judgeAgents(scene, run, entries)));
  }
  problems.push(...journals.changed.map((key) => `entry ${key} changed after it was read`));
  const { entries } = await scene.json("queue");
  if (entries.length > 0) problems.push(`the queue still has ${entries.length} entries`);
  await scene.json("store", "fetch");
  const verified = await scene.json("verify").catch((error: unknown) => ({ ok: false, problems: String(error) }));
  if (!verified.ok) problems.push(`verify: ${JSON.stringify(verified.problems)}`);
  return problems;
}

interface ListedRun {
  readonly id: string;
  readonly status: { readonly kind: string };
}

function judgeRuns({ runs }: TeamScene, listed: readonly ListedRun[]): readonly string[] {
  const known = new Map(listed.map(({ id, status }) => [id, status.kind]));
  const others = [...known.keys()].filter((id) => !runs.includes(id) && !/-orphan-\d+$/.test(id));
  return [
    ...runs.filter((run) => known.get(run) !== "done").map((run) => `${run} is ${known.get(run) ?? "gone"}`),
    ...others.map((run) => `there is a run ${run}`),
  ];
}

interface Entry {
  readonly kind: string;
  readonly hash: string;
  readonly body: Readonly<Record<string, unknown>>;
}

function judgeJournal(run: string, entries: readonly Entry[], { seen }: Journals): readonly string[] {
  const lost = [...seen.values()].filter((one) => one.run === run && entries[one.entry - 1]?.hash !== one.hash);
  const keysOf = (kind: string, keyOf: (body: Entry["body"]) => string): readonly string[] =>
    entries.filter((entry) => entry.kind === kind).map(({ body }) => keyOf(body));
  const twice = [
    ...repeated(keysOf("step.finished", ({ stageAttempt, step }) => `step ${String(stageAttempt)} ${String(step)}`)),
    ...repeated(keysOf("effect.settled", ({ key }) => `effect ${String(key)}`)),
    ...repeated(keysOf("run.ended", () => "the end")),
  ];
  return [
    ...lost.map((one) => `${run}: entry ${one.entry} (${one.kind}) was acknowledged and is lost`),
    ...twice.map((what) => `${run}: the journal has ${what} twice`),
  ];
}

/** Each branch was pushed once, and has one commit above the base. */
async function judgeRemote(scene: TeamScene): Promise<readonly string[]> {
  const heads = (await scene.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")).split("\n");
  const tips = new Map(heads.map((line) => [line.split(" ")[0] ?? "", line.split(" ")[1] ?? ""]));
  const wanted = scene.runs.map((run) => `refs/heads/holdfast/${run}`);
  const problems = [...tips.keys()]
    .filter((ref) => ref !== "refs/heads/main" && !wanted.includes(ref))
    .map((ref) => `the remote has ${ref}`);
  for (const ref of wanted) {
    const pushes = scene.pushes().filter((push) => push.ref === ref);
    if (pushes.length !== 1) problems.push(`${ref} was pushed ${pushes.length} times`);
    if (pushes.at(-1)?.to !== tips.get(ref)) problems.push(`${ref} is not what was pushed last`);
    const count = await scene.git("rev-list", "--count", `refs/heads/main..${ref}`).catch(() => "no");
    if (count !== "1") problems.push(`${ref} has ${count} commits`);
  }
  return problems;
}

function judgeForge({ remote, runs }: TeamScene): readonly string[] {
  const pulls = readdirSync(join(remote, "holdfast-forge/pulls")).map((name): { readonly head?: string } =>
    JSON.parse(readFileSync(join(remote, "holdfast-forge/pulls", name), "utf8")),
  );
  const heads = pulls.map(({ head }) => head);
  const lines = readFileSync(join(remote, "holdfast-forge/log.jsonl"), "utf8").trim().split("\n");
  const log = lines.map((line): { readonly what: string; readonly key: string | null } => JSON.parse(line));
  const created = log.filter(({ what }) => what === "pull_created").length;
  return [
    ...runs
      .filter((run) => heads.filter((head) => head === `holdfast/${run}`).length !== 1)
      .map((run) => `${run} has ${heads.filter((head) => head === `holdfast/${run}`).length} pull requests`),
    ...(created === runs.length ? [] : [`the forge's log has ${created} pull requests`]),
    ...repeated(log.flatMap(({ key }) => key ?? [])).map((key) => `the forge's log has ${key} twice`),
  ];
}

/**
 * An agent was called again only by another process, and of each iteration the branch has the work of one finished call. A slow machine may make
 * a living worker look dead: then its run moves without a fault.
 */
async function judgeAgents(scene: TeamScene, run: string, entries: readonly Entry[]): Promise<readonly string[]> {
  const names = scene.machines.map(({ name }) => name);
  const processes = entries.filter(({ kind, body }) => kind === "lease.taken" && names.includes(hostIn(body))).length;
  const calls = scene.agentCalls().filter((call) => call.run === run);
  const begun = calls.filter(({ what }) => what === "begin").map(({ role, iteration }) => `${role} ${iteration}`);
  const most = Math.max(0, ...[...new Set(begun)].map((call) => begun.filter((one) => one === call).length));
  const text = await scene.git("show", `refs/heads/holdfast/${run}:work.txt`).catch(() => "");
  const lines = text.trim().split("\n");
  const finished = new Set(calls.filter(({ what }) => what === "end").map(({ iteration, id }) => `${iteration} ${id}`));
  return [
    ...(most <= processes ? [] : [`${run}: an agent was called ${most} times by ${processes} processes`]),
    ...(lines.length === 1 ? [] : [`${run}: the branch has the work of ${lines.length} calls`]),
    ...lines.filter((line) => !finished.has(line)).map((line) => `${run}: the branch has unfinished work: ${line}`),
  ];
}

/** The host of a lease's owner: that which submitted the run is none of the machines. */
function hostIn({ owner }: Entry["body"]): string {
  return typeof owner === "object" && owner !== null && "host" in owner ? String(owner.host) : "";
}

/**
 * What a frozen process had done when another one took its run is kept under the epoch of its lease, with its files, in its clone. One whose
 * agent was not at work may have had nothing to keep: it may have ended its run, or not begun.
 */
function judgeOrphans(
  { machines }: TeamScene,
  listed: readonly ListedRun[],
  reports: readonly FaultReport[],
): readonly string[] {
  const known = new Set(listed.map(({ id }) => id));
  const frozen = reports.filter(({ kind }) => kind === FROZEN);
  return frozen.flatMap(({ machine, hits }) =>
    hits.flatMap(({ run, epoch, unsaved }) => {
      if (!unsaved) return [];
      const orphan = `${run}-orphan-${epoch}`;
      if (!known.has(orphan)) return [`${run} was taken over in epoch ${epoch}, and there is no ${orphan}`];
      const clone = machines[machine]?.clone ?? "";
      try {
        execFileSync("git", ["cat-file", "-e", `refs/holdfast/${orphan}/1^{tree}`], { cwd: clone, stdio: "ignore" });
        return [];
      } catch {
        return [`${clone} has no files of ${orphan}`];
      }
    }),
  );
}

function repeated(list: readonly string[]): readonly string[] {
  return [...new Set(list.filter((one, at) => list.indexOf(one) !== at))];
}
