/** The `take` command: takes a run from a process on another machine, or from one here that does not answer. */
import { setTimeout as sleep } from "node:timers/promises";
import { HEARTBEAT_MS, type Lease, type OwnerLiveness, SILENT_AFTER_MS } from "@holdfast/core/lease";
import { type RunSummary, isEnded, orphanId } from "@holdfast/core/run";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type ProcessIdentity, canSignal, isSuspended, processIdentity } from "@holdfast/platform/identity";
import type { Holdfast } from "../../holdfast.ts";
import { withdrawSubmission } from "../../worker/fleet-runs.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { type Page, paint } from "../output/page.ts";
import { countText, relativeTime, timeText } from "../output/quantities.ts";
import { escapeText, hangingIndent } from "../output/text.ts";
import { holderText, interrupt } from "../run-holder.ts";
import { runJson } from "../run-json.ts";

export const spec = {
  name: "take",
  summary: "take a run from a process that you cannot reach",
  details: [
    "Use it if a process on another machine holds a run, or if the process here hangs or is suspended. The command shows which process holds the run, its last heartbeat by the clock of the store, the newest checkpoint whose files are here, an open question, and side effects that may be under way. Then it asks once. Continue the run with `holdfast resume RUN`.",
    "The lease gets a higher epoch in one transaction. From then on the store refuses every write of the old process. When that process notices, it ends its agent and keeps its unsaved work as an orphaned run, RUN-orphan-EPOCH, which `holdfast list` shows and `holdfast fork` continues. A process on this machine is interrupted, and killed if it does not end within two minutes. The command waits for that, because both would use the same worktree. A process on another machine notices with its next heartbeat, at most 10 seconds after it reaches the store again. A submitted run leaves the queue, so that no worker continues it before you do; `holdfast submit RUN` puts it back.",
    "A run that has ended, or that no live process holds, is refused: `holdfast resume` continues the latter. So is one whose process here answers, because `holdfast stop` saves its work; --force takes it all the same.",
  ],
  operands: [{ name: "RUN", about: "a run id or an issue number", required: true, completes: "run" }],
  consent: "saves",
  flags: {
    force: { type: "boolean", about: "also from a process here that answers" },
    "dry-run": { type: "boolean", about: "show the plan, and change nothing" },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: [
    { line: "holdfast take issue-42 --dry-run", about: "show who holds the run, and what is not here yet" },
    { line: "holdfast take issue-42", about: "show the plan, ask, and take the run" },
    { line: "holdfast take issue-42 --yes && holdfast resume issue-42", about: "take it and continue it here" },
  ],
  json: '{"run": {...}, "plan": {"holder": {"label", "pid", "host", "epoch", "takenAt", "heartbeatAt"}, "process": "other_host" | "suspended" | "silent" | "answers", "silentMs", "saved": "RUN@N" or null, "files": {"missing": [sequences], "here": "RUN@N" or null, "remote", "problem"} or null, "question", "effects": [texts], "orphan": "RUN-orphan-EPOCH" or null}, "dryRun", "taken": null or {"epoch", "process": "ended" | "killed" | "other_host", "orphan": "RUN-orphan-EPOCH" or null}}.',
} as const satisfies CommandSpec;

interface TakePlan {
  readonly holder: Pick<Lease["owner"], "label" | "pid" | "host"> & Pick<Lease, "epoch" | "takenAt" | "heartbeatAt">;
  readonly process: "other_host" | "suspended" | "silent" | "answers";
  /** Since its last heartbeat, by the clock of the store: the clocks of the machines decide nothing. */
  readonly silentMs: number;
  /** The newest checkpoint. */
  readonly saved: string | null;
  /** Null: the newest checkpoints have no files. */
  readonly files: KnownFiles | null;
  readonly question: string | null;
  /** Side effects that the process may be performing now. `resume` looks them up before it acts. */
  readonly effects: readonly string[];
  /** The run in which the process keeps its unsaved work; null: no workflow executes the run, so there is none. */
  readonly orphan: string | null;
}

interface KnownFiles {
  /** Sequences of the newest checkpoints whose files are not in this repository. */
  readonly missing: readonly number[];
  /** The newest checkpoint whose files are here. */
  readonly here: string | null;
  readonly remote: string | null;
  /** Why the remote did not give the missing ones. */
  readonly problem: string | null;
}

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const typed = input.operand(0);
  const dryRun = input.on("dry-run");
  const holdfast = await shell.open({ create: false, writes: !dryRun });
  const { id } = await findRun(holdfast, typed);
  const summary = await (await holdfast.run(id)).summary();
  const holder = await (await holdfast.run(id)).holder();
  const held = requireTakeable(summary, holder, await holdfast.store.now(), input.on("force"));
  const plan = await planTake(holdfast, { summary, held, dryRun });
  const before = await holdfast.runWithStatus(id);
  if (dryRun) {
    shell.print({
      json: () => ({ run: runJson(before), plan, dryRun, taken: null }),
      text: (page) => planText(id, plan, page, true),
    });
    return "done";
  }
  if (!input.on("yes") && !(await decide(shell, id, plan))) return "needs_you";
  const taken = await shell.finish(take(shell, holdfast, held.lease), {
    done: ({ epoch }) => `${id} was taken with epoch ${epoch}`,
  });
  const after = await holdfast.runWithStatus(id);
  shell.print({
    json: () => ({ run: runJson(after), plan, dryRun, taken }),
    text: () => takenText(id, plan, taken),
  });
  shell.notify(nextText(id, plan));
  return "done";
}

interface Held {
  readonly lease: Lease;
  readonly process: TakePlan["process"];
  readonly silentMs: number;
}

/** The lease to take. Throws for a run that must not or need not be taken. */
function requireTakeable(
  { id, state: stored, workflow }: RunSummary,
  holder: { readonly lease: Lease; readonly alive: OwnerLiveness } | undefined,
  now: number,
  force: boolean,
): Held {
  if (isEnded(stored))
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${id} has ended (${stored.kind}), so there is nothing to take`,
      hint: `Show it: \`holdfast status ${id}\`.`,
    });
  if (holder === undefined || holder.alive === "dead")
    throw usageError(
      `No process holds run ${id}${holder === undefined ? "" : ": the last one exited without releasing its lease"}`,
      workflow === "manual"
        ? `Save into it: \`holdfast checkpoint --run ${id}\`.`
        : `Continue it: \`holdfast resume ${id}\`.`,
    );
  const { lease, alive } = holder;
  const silentMs = Math.max(0, now - Date.parse(lease.heartbeatAt));
  const state = alive === "unknown" ? "other_host" : processState(lease.owner, silentMs);
  if (state === "answers" && !force)
    throw new HoldfastError({
      code: "LEASE_HELD",
      message: `Run ${id} is held by ${holderText(lease.owner)}, which is alive on this machine`,
      hint: `Stop it, which saves its work: \`holdfast stop ${id}\`. To take the run all the same: \`holdfast take ${id} --force\`.`,
      data: { run: id, owner: lease.owner, epoch: lease.epoch },
    });
  return { lease, process: state, silentMs };
}

function processState(owner: ProcessIdentity, silentMs: number): TakePlan["process"] {
  if (isSuspended(owner)) return "suspended";
  return silentMs > SILENT_AFTER_MS ? "silent" : "answers";
}

async function planTake(
  holdfast: Holdfast,
  { summary, held, dryRun }: { readonly summary: RunSummary; readonly held: Held; readonly dryRun: boolean },
): Promise<TakePlan> {
  const { id, latest, state, workflow } = summary;
  const { lease } = held;
  const { label, pid, host } = lease.owner;
  const { epoch, takenAt, heartbeatAt } = lease;
  const open = (await holdfast.store.listEffects(id)).filter(({ state: { kind } }) => kind === "intended");
  return {
    holder: { label, pid, host, epoch, takenAt, heartbeatAt },
    process: held.process,
    silentMs: held.silentMs,
    saved: latest === null ? null : `${id}@${latest.sequence}`,
    files: await findFiles(holdfast, { id, dryRun }),
    question: state.kind === "waiting" ? (state.decision?.question ?? null) : null,
    effects: open.map(({ kind, target }) => `${kind} on ${target}`),
    orphan: workflow === "manual" ? null : orphanId(id, epoch),
  };
}

/** Checkpoints that are examined for their files, newest first. */
const EXAMINED = 20;

/** Fetches what is missing from the remote of `files.remote`, except in a dry run. */
export async function findFiles(
  holdfast: Holdfast,
  { id, dryRun }: { readonly id: string; readonly dryRun: boolean },
): Promise<KnownFiles | null> {
  const { workspaces } = holdfast;
  const handle = await holdfast.run(id);
  const remote = holdfast.files?.url ?? null;
  const missing: number[] = [];
  const known = (here: string | null): KnownFiles => {
    const isUnasked = dryRun && remote !== null && missing.length > 0;
    return { missing, here, remote, problem: isUnasked ? `\`take\` fetches those that ${remote} has` : null };
  };
  for (const { sequence, id: checkpoint } of workspaces === null ? [] : await handle.list({ limit: EXAMINED })) {
    const { files } = (await handle.get(sequence)).planes;
    if (files === null) continue;
    try {
      if (await workspaces?.has(files)) return known(checkpoint);
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "TREE_MISSING") throw error;
      return { missing: [...missing, sequence], here: null, remote, problem: error.message };
    }
    missing.push(sequence);
  }
  return missing.length === 0 ? null : known(null);
}

async function decide(shell: Shell, id: string, plan: TakePlan): Promise<boolean> {
  shell.notify(planText(id, plan, shell.talk));
  const answer = await shell.confirm(`Take ${id}?`);
  if (answer === "yes") return true;
  if (answer === "no") {
    shell.notify("Nothing was changed.");
    return false;
  }
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `Not a terminal: cannot ask whether ${id} may be taken from ${holderText(plan.holder)}`,
    hint: `Check with --dry-run, then run: holdfast take ${id} --yes`,
  });
}

interface Taken {
  readonly epoch: number;
  readonly process: "ended" | "killed" | "other_host";
  /** Null: the process has saved none, or none yet. */
  readonly orphan: string | null;
}

/**
 * The lease is kept until the old process has ended, so that no process resumes the run in a worktree that the old one still writes. After a
 * kill in between, the lease is that of a dead process, and `resume` acquires it.
 */
async function take(shell: Shell, holdfast: Holdfast, from: Lease): Promise<Taken> {
  const { run, owner, epoch } = from;
  const { store } = holdfast;
  // Otherwise a worker would continue it before the user does. First: after a kill in between, the same command takes the lease.
  if (await withdrawSubmission(store, run))
    shell.notify(`${run} leaves the queue. Back into it: ${shell.talk.program} submit ${run}`);
  const lease = await store.takeLease({ run, label: `holdfast take ${run}`, over: epoch });
  const beat = setInterval(() => void store.renewLease(lease).catch(() => undefined), HEARTBEAT_MS);
  try {
    if (canSignal(owner, processIdentity())) shell.notify(`Ending ${holderText(owner)} …`);
    const ended = await endOwner(owner, GRACE_MS);
    const orphan = orphanId(run, epoch);
    return { epoch: lease.epoch, process: ended, orphan: (await store.getRun(orphan)) === undefined ? null : orphan };
  } finally {
    clearInterval(beat);
    await store.releaseLease(lease);
  }
}

/** A process that answers needs this long at most to end its agent and to save its files. */
const GRACE_MS = 120_000;
const POLL_MS = 50;

/** Its writes are refused already, so a kill leaves at worst a half-written worktree, which `resume` repairs. */
export async function endOwner(owner: ProcessIdentity, graceMs: number): Promise<Taken["process"]> {
  const lives = (): boolean => canSignal(owner, processIdentity());
  if (!lives()) return "other_host";
  interrupt(owner.pid);
  const until = performance.now() + graceMs;
  while (lives() && performance.now() < until) await sleep(POLL_MS);
  if (!lives()) return "ended";
  process.kill(owner.pid, "SIGKILL");
  while (lives()) await sleep(POLL_MS);
  return "killed";
}

const PROCESS_TEXT: Readonly<Record<TakePlan["process"], string>> = {
  other_host: "on another machine: this one cannot check whether it is alive",
  suspended: "alive here, but suspended",
  silent: "alive here, but without a heartbeat",
  answers: "alive here, and answers",
};

function planText(id: string, plan: TakePlan, page: Page, dryRun = false): string {
  const { holder, files, effects } = plan;
  const since = relativeTime(holder.takenAt, Date.parse(holder.heartbeatAt) + plan.silentMs);
  const lines: readonly (readonly [string, string | null])[] = [
    ["held by", `${holderText(holder)}, since ${since}, epoch ${holder.epoch}`],
    ["heartbeat", `${timeText(plan.silentMs)} ago, by the clock of the store`],
    ["saved", plan.saved ?? "nothing yet"],
    ["files", files === null ? null : filesText(files)],
    ["asks", plan.question],
    ["effects", effects.length === 0 ? null : `perhaps under way: ${effects.join(", ")}`],
    [
      "then",
      plan.orphan === null
        ? `The process cannot save into the run any more. ${nextText(id, plan)}`
        : `The process loses the run. What it has done since ${plan.saved ?? "its start"} is kept as ${plan.orphan} if it still runs and notices. ${nextText(id, plan, dryRun)}`,
    ],
  ];
  const head = `${paint(page, "bold", escapeText(id))}  ${PROCESS_TEXT[plan.process]}\n`;
  return (
    head +
    lines.map(([label, text]) => (text === null ? "" : hangingIndent({ label, labelWidth: 10, text }, page))).join("")
  );
}

/** Without the files of the newest checkpoint, `resume` needs the user's decision. */
export function nextText(
  id: string,
  { files, saved, orphan }: Pick<TakePlan, "files" | "saved" | "orphan">,
  dryRun = false,
): string {
  if (orphan === null) return `\`holdfast checkpoint --run ${id}\` saves into it.`;
  if (files === null || files.missing.length === 0)
    return `\`holdfast resume ${id}\` continues it from ${saved ?? "its start"}.`;
  // Whether the remote has them is not known before the fetch.
  if (dryRun && files.remote !== null)
    return `\`holdfast take ${id}\` fetches missing files from ${files.remote} first.`;
  const push = `Its machine can still send the missing files: \`holdfast store push ${id}\` there.`;
  return files.here === null ? push : `${push} To continue without them: \`holdfast resume ${files.here}\`.`;
}

export function filesText({ missing, here, remote, problem }: KnownFiles): string {
  const found = `The files of ${here ?? countText(missing.length, "checkpoint")} are`;
  if (missing.length === 0) return `${found} here.`;
  const why = problem ?? (remote === null ? "files.remote is not set" : `${remote} did not have them when asked`);
  if (here === null) return `${found} not here (${why}).`;
  return `${found} here. Those of ${countText(missing.length, "newer checkpoint")} are not (${why}).`;
}

function takenText(id: string, { holder, orphan, saved }: TakePlan, taken: Taken): string {
  const work = `What it had done since ${saved ?? "its start"}`;
  const end = { ended: "It has ended.", killed: "It did not end, and was killed.", other_host: "" }[taken.process];
  const kept =
    taken.orphan !== null
      ? `${work} is kept as ${taken.orphan}.`
      : taken.process === "other_host" && orphan !== null
        ? `${work} is kept as ${orphan} when it notices.`
        : "";
  const head = `Took ${id} from ${holderText(holder)}; the epoch is ${taken.epoch} now.`;
  return `${[head, end, kept].filter((text) => text !== "").join(" ")}\n`;
}
