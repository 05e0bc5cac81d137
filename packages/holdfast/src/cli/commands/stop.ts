/** The `stop` command: interrupts a run, pauses it after its current step, or aborts it. */
import { namedActor, userName } from "../../actor.ts";
import { setTimeout as sleep } from "node:timers/promises";
import type { SignalResult } from "@holdfast/core/control-run";
import { isEnded } from "@holdfast/core/run";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { type Holder, isHeld, statusWord } from "@holdfast/core/status";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { canSignal, processIdentity } from "@holdfast/platform/identity";
import type { StartingProcess } from "../../announce-start.ts";
import type { Holdfast } from "../../holdfast.ts";
import type { RunDetails } from "../../run-status.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { nextText } from "../output/status-text.ts";
import { escapeText } from "../output/text.ts";
import {
  findStarting,
  holderText,
  interrupt,
  startingName,
  stillStarting,
  stopStarting,
  suspendedText,
} from "../run-holder.ts";
import { runJson } from "../run-json.ts";

export const spec = {
  name: "stop",
  summary: "stop a run; its work is saved",
  details: [
    "Without a flag it does what Ctrl+C does in the terminal of the run: it ends the agent and its processes, saves files and state, and waits until that is done. A suspended process (Ctrl+Z) is continued for that. `holdfast resume` continues the run.",
    "With --after-step the agent finishes its current step first, so no work is lost or paid for twice. With --now the run is aborted: it ends for good, and branch, worktree and checkpoints stay. Only `holdfast resume RUN@N --force` continues an aborted run.",
    "--after-step, --now and --reason send a durable signal. It survives crashes, it takes effect at once if the run's process is dead, and a run that waits for a quota does not continue when the quota is back. Ctrl+C ends the waiting, not the signal. `holdfast resume` withdraws a pause that has not taken effect yet.",
    "A run that is still being prepared ends before it changes anything.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id or an issue number; default the run that is running",
      required: false,
      completes: "run",
    },
  ],
  consent: "store",
  flags: {
    "after-step": { type: "boolean", about: "pause: let the agent finish its current step first" },
    now: { type: "boolean", about: "abort: end the run for good; needs RUN. With --after-step after the current step" },
    reason: {
      type: "text",
      value: "TEXT",
      about: "why, for the journal; without another flag the run is paused at once",
    },
  },
  examples: [
    { line: "holdfast stop", about: "stop the run that is running" },
    { line: "holdfast stop issue-42 --after-step", about: "pause when the agent has finished its step" },
    { line: 'holdfast stop issue-42 --now --reason "done by hand"', about: "abort a run that is not needed any more" },
  ],
  json: '{"run": {...} or null if it had not started, "requested": "stop" | "pause" | "abort", "result": "done" | "pending" | "withdrawn" | "not_running" | "ended" | "other_host" | "not_started"}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const [typed, reason] = [input.operand(0), input.text("reason")];
  const [afterStep, now] = [input.on("after-step"), input.on("now")];
  if (now && typed === undefined)
    throw usageError(
      "--now ends a run for good, so it needs the name of the run",
      "Run `holdfast stop RUN --now`; `holdfast status` lists the unfinished runs.",
    );
  if (!afterStep && !now && reason === undefined) return await interruptRun(shell, typed);
  return await sendSignal(shell, { kind: now ? "abort" : "pause", typed, reason: reason ?? "", now: !afterStep });
}

async function interruptRun(shell: Shell, typed: string | undefined): Promise<Exit> {
  const holdfast = await shell.open({ create: false });
  const prepared = await findStarting(holdfast, typed);
  if (prepared.length > 0) return await stopPrepared(shell, holdfast, prepared, typed);
  const before = await chosen(holdfast, typed);
  const { status } = before;
  const { id } = before.run;
  if (!isHeld(status)) {
    shell.print({
      json: () => ({ run: runJson(before), requested: "stop", result: "not_running" }),
      text: () => `${id} is not running (${statusWord(status)}).\n`,
    });
    shell.notify(
      before.submitted && (status.kind === "queued" || status.kind === "crashed")
        ? `A worker executes it when it can. Take it out of the queue: ${shell.talk.program} queue --cancel ${id}`
        : nextText(before, shell.talk),
    );
    return "done";
  }
  const { holder } = status;
  const owner = (await (await holdfast.run(id)).holder())?.lease.owner;
  const isKnown = status.kind !== "running" || status.hostKnown;
  if (!isKnown || (owner !== undefined && !canSignal(owner, processIdentity()))) throw elsewhere(before, holder);
  shell.notify(`Stopping ${holderText(holder)} …`);
  if (owner !== undefined) {
    interrupt(owner.pid);
    void shell.finish(Promise.resolve(), { done: () => `${id} was asked to stop` });
  }
  await waitUntilLeft(shell, holdfast, { run: id, epoch: holder.epoch });
  return await report(shell, holdfast, id);
}

async function report(shell: Shell, holdfast: Holdfast, id: string): Promise<Exit> {
  const after = await holdfast.status(id);
  const saved = after.run.latest === null ? "" : ` Saved as ${id}@${after.run.latest.sequence}.`;
  shell.print({
    json: () => ({ run: runJson(after), requested: "stop", result: "done" }),
    text: () => `Stopped ${id}.${saved}\n`,
  });
  shell.notify(nextText(after, shell.talk));
  return "done";
}

/** Stops a process that holds no lease yet. Without a name it must be the only one. */
async function stopPrepared(
  shell: Shell,
  holdfast: Holdfast,
  prepared: readonly StartingProcess[],
  typed: string | undefined,
): Promise<Exit> {
  const [first] = prepared;
  if (first === undefined) throw new TypeError("at least one process prepares a run");
  const running = typed === undefined ? await runningRuns(holdfast) : [];
  if (typed === undefined && prepared.length + running.length > 1)
    throw several([...prepared.map(startingName), ...running.map(({ run }) => run.id)]);
  shell.notify(`Stopping process ${first.pid}, which prepares ${escapeText(startingName(first))} …`);
  const begun = await stopStarting(shell, holdfast, prepared);
  if (begun !== null) return await report(shell, holdfast, begun);
  shell.print({
    json: () => ({ run: null, requested: "stop", result: "not_started" }),
    text: () => `Stopped ${escapeText(startingName(first))} before it started; nothing was changed.\n`,
  });
  return "done";
}

async function runningRuns(holdfast: Holdfast): Promise<readonly RunDetails[]> {
  return (await unfinishedRuns(holdfast)).filter(({ status }) => isHeld(status));
}

/** Newest first. */
async function unfinishedRuns(holdfast: Holdfast): Promise<readonly RunDetails[]> {
  const unfinished: RunDetails[] = [];
  for (const { id, state } of await holdfast.listRuns())
    if (!isEnded(state)) unfinished.push(await holdfast.status(id));
  return unfinished;
}

function several(names: readonly string[]): HoldfastError {
  return usageError(
    `${names.length} runs are running: ${names.join(", ")}`,
    "Name one: `holdfast stop RUN`, with its id or the number of its issue.",
  );
}

async function chosen(holdfast: Holdfast, typed: string | undefined): Promise<RunDetails> {
  if (typed !== undefined) return await holdfast.status((await findRun(holdfast, typed)).id);
  const unfinished = await unfinishedRuns(holdfast);
  const running = unfinished.filter(({ status }) => isHeld(status));
  if (running.length > 1) throw several(running.map(({ run }) => run.id));
  return running[0] ?? unfinished[0] ?? (await holdfast.status((await holdfast.resolveRun()).id));
}

async function waitUntilLeft(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly run: string; readonly epoch: number },
): Promise<void> {
  const handle = await holdfast.run(params.run);
  const began = performance.now();
  let isNoted = false;
  for (;;) {
    const holder = await handle.holder();
    if (holder === undefined || holder.alive === "dead" || holder.lease.epoch !== params.epoch) return;
    if (!isNoted && performance.now() - began > NOTE_MS) {
      isNoted = true;
      // It was continued, but a debugger or a terminal that it wrote to may have stopped it again.
      const suspended = suspendedText(holder.lease.owner);
      if (suspended !== null) shell.notify(suspended);
    }
    await sleep(POLL_MS, undefined, { signal: shell.signal });
  }
}

const POLL_MS = 50;
const NOTE_MS = 2000;

function elsewhere(
  { run: { id: run }, submitted }: Pick<RunDetails, "run" | "submitted">,
  holder: Holder,
): HoldfastError {
  const queue = `Take it out of the queue, which stops its worker: \`holdfast queue --cancel ${run}\`. Or run`;
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} is held by ${holderText(holder)}, which cannot be reached from here`,
    hint: `${submitted ? queue : "Run"} \`holdfast stop ${run}\` on ${holder.host}, or send a signal: \`holdfast stop ${run} --after-step\`. If that machine is away: \`holdfast take ${run}\`.`,
    data: { run, owner: holder },
  });
}

interface SignalRequest {
  readonly kind: "pause" | "abort";
  readonly typed: string | undefined;
  readonly reason: string;
  readonly now: boolean;
}

/** Sends the signal, waits until it is handled, and prints the resulting status. */
async function sendSignal(shell: Shell, request: SignalRequest): Promise<Exit> {
  const { kind, reason, now } = request;
  const holdfast = await shell.open({ create: false });
  const prepared = request.typed === undefined ? [] : await findStarting(holdfast, request.typed);
  const [first] = prepared;
  if (kind === "abort" && first !== undefined) {
    shell.notify(`Stopping process ${first.pid}, which prepares ${escapeText(startingName(first))} …`);
    if ((await stopStarting(shell, holdfast, prepared)) === null) {
      shell.print({
        json: () => ({ run: null, requested: kind, result: "not_started" }),
        text: () => `Aborted ${escapeText(startingName(first))} before it started; nothing was changed.\n`,
      });
      return "done";
    }
  }
  if (kind === "pause" && first !== undefined) throw stillStarting(first, "there is nothing to pause yet");
  const run = request.typed === undefined ? await onlyOne(holdfast) : (await findRun(holdfast, request.typed)).id;
  if (kind === "pause") await rejectUnstarted(holdfast, run);
  const { promise: stored, resolve } = Promise.withResolvers<boolean>();
  const sending = holdfast.work.sendSignal({
    request: { run, kind, reason, now, by: namedActor(process.env) ?? userName() },
    signal: shell.signal,
    onStored: () => resolve(true),
    onWaiting: (by) => {
      const when =
        now || kind === "abort"
          ? ""
          : "\nIt finishes its current step first. Ctrl+C ends this waiting, and the run pauses all the same.";
      const suspended = suspendedText(by.owner);
      shell.notify(`Waiting for ${holderText(by.owner)} …${when}${suspended === null ? "" : `\n${suspended}`}`);
    },
  });
  void shell.finish(stored, {
    done: (isStored) => (isStored ? `the signal to ${run} is stored and stays in effect` : null),
  });
  const sent = await sending.finally(() => resolve(false));
  const stood = await holdfast.runWithStatus(run);
  shell.print({
    json: () => ({ run: runJson(stood), requested: kind, result: sent.kind }),
    text: () => `${signalResultText(kind, sent, stood)}\n`,
  });
  const { program } = shell.talk;
  if (kind === "pause" && stood.status.kind === "paused") shell.notify(`Continue with: ${program} resume ${run}`);
  if (kind === "abort" && sent.kind === "done") shell.notify(`Result: ${program} status ${run}`);
  return sent.kind === "ended" ? "needs_you" : "done";
}

function signalResultText(kind: SignalRequest["kind"], sent: SignalResult, { run, status }: RunWithStatus): string {
  const saved = run.latest === null ? "" : ` Saved as ${run.id}@${run.latest.sequence}.`;
  const done = kind === "pause" ? "Paused" : "Aborted";
  switch (sent.kind) {
    case "done":
      return `${done} ${run.id}.${saved}`;
    case "pending":
      return `Paused ${run.id}: it does not continue when the wait is over.`;
    case "withdrawn":
      return `${run.id} continues: the signal was withdrawn.`;
    case "ended":
      return `${run.id} has ended (${statusWord(status)}); nothing was changed.`;
    case "other_host":
      return `Sent the signal to ${holderText(sent.by.owner)}, which this host cannot see.`;
  }
}

async function onlyOne(holdfast: Holdfast): Promise<string> {
  const running = (await holdfast.statuses()).filter(({ status }) => status.kind === "running");
  const [only, other] = running;
  if (only !== undefined && other === undefined) return only.run.id;
  if (other !== undefined) throw several(running.map(({ run }) => run.id));
  throw usageError("No run is running", "Name one: `holdfast stop RUN`; `holdfast list` shows them.");
}

/** Rejects a run that has not started: a resume would have nothing to continue. */
async function rejectUnstarted(holdfast: Holdfast, run: string): Promise<void> {
  const { latest, workflow } = await (await holdfast.run(run)).summary();
  if (latest !== null && workflow !== "manual") return;
  throw usageError(
    workflow === "manual" ? `${run} has no workflow that could be paused` : `${run} has not started yet`,
    workflow === "manual" ? "Its checkpoints are saved by hand." : `End it: \`holdfast stop ${run} --now\`.`,
  );
}
