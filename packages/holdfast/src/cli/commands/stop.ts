/** The `stop` command, and the sending of pause and abort signals that `pause` and `abort` share. */
import { isEnded } from "@holdfast/core/run";
import { userInfo } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { SignalResult } from "@holdfast/core/control-run";
import type { Lease } from "@holdfast/core/lease";
import { isRunning } from "@holdfast/core/status";
import { HoldfastError } from "@holdfast/platform/error";
import type { StartingProcess } from "../../announce-start.ts";
import type { Holdfast } from "../../holdfast.ts";
import type { RunDetails, RunWithStatus } from "../../run-status.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { standingWord } from "../output/run-text.ts";
import { leaseOwnerText, nextText, statusWord } from "../output/status-text.ts";
import { escapeText } from "../output/text.ts";
import { findStarting, holderText, interrupt, startingName, stillStarting, stopStarting } from "../run-holder.ts";

export const spec = {
  name: "stop",
  summary: "stop a running run; everything is saved",
  details: [
    "Does what Ctrl+C does in the terminal of the run: the agent and everything it started is ended, files and state are saved, the run can be resumed. Waits until that is done. A run of another host must be stopped there. A run that is still being prepared ends before anything is begun.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, or an issue number; default the one that runs",
      required: false,
      completes: "run",
    },
  ],
  consent: "store",
  paths: false,
  flags: {},
  examples: [
    { line: "holdfast stop", about: "the one that runs" },
    {
      line: "holdfast stop issue-42 && holdfast resume issue-42",
      about: "start it anew, for instance after changing the config",
    },
  ],
  json: '{"run": "id", "stopped": true | false when it was not running, "condition": {...} or null when it had not begun}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const holdfast = await shell.open({ create: false });
  const prepared = await findStarting(holdfast, input.operand(0));
  if (prepared.length > 0) return await stopPrepared(shell, holdfast, prepared, input.operand(0));
  const before = await chosen(holdfast, input.operand(0));
  const { condition } = before;
  const { id } = before.run;
  if (condition.kind === "held") throw elsewhere(id, condition.lease);
  if (condition.kind !== "running") {
    const { word } = statusWord(before);
    shell.print({
      json: () => ({ run: id, stopped: false, condition }),
      text: () => `${id} is not running (${word}).\n`,
    });
    shell.say(nextText(before, shell.talk));
    return "done";
  }
  shell.say(`Stopping ${escapeText(leaseOwnerText(condition.lease))} …`);
  interrupt(condition.lease.owner.pid);
  await waitUntilLeft(shell, holdfast, { run: id, epoch: condition.lease.epoch });
  return await report(shell, holdfast, id);
}

async function report(shell: Shell, holdfast: Holdfast, id: string): Promise<Exit> {
  const after = await holdfast.status(id);
  const saved = after.run.latest === null ? "" : ` Saved as ${id}@${after.run.latest.sequence}.`;
  shell.print({
    json: () => ({ run: id, stopped: true, condition: after.condition }),
    text: () => `Stopped ${id}.${saved}\n`,
  });
  shell.say(nextText(after, shell.talk));
  return "done";
}

/** Stops a process that holds no lease yet. Without a name it must be the only one that works. */
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
  shell.say(`Stopping process ${first.pid}, which prepares ${escapeText(startingName(first))} …`);
  const begun = await stopStarting(shell, holdfast, prepared);
  if (begun !== null) return await report(shell, holdfast, begun);
  shell.print({
    json: () => ({ run: first.run, stopped: true, condition: null }),
    text: () => `Stopped ${escapeText(startingName(first))} before it began; nothing was changed.\n`,
  });
  return "done";
}

async function runningRuns(holdfast: Holdfast): Promise<readonly RunDetails[]> {
  const running: RunDetails[] = [];
  for (const { id, state } of await holdfast.listRuns()) {
    if (isEnded(state)) continue;
    const status = await holdfast.status(id);
    if (status.condition.kind === "running") running.push(status);
  }
  return running;
}

function several(names: readonly string[]): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `${names.length} runs are running: ${names.join(", ")}`,
    hint: `Name one: \`holdfast stop RUN\`, with its id or the number of its issue.`,
  });
}

async function chosen(holdfast: Holdfast, typed: string | undefined): Promise<RunDetails> {
  if (typed !== undefined) return await holdfast.status((await findRun(holdfast, typed)).id);
  const running: RunDetails[] = [];
  let newest: RunDetails | undefined;
  for (const { id, state } of await holdfast.listRuns()) {
    if (isEnded(state)) continue;
    const status = await holdfast.status(id);
    newest ??= status;
    if (status.condition.kind === "running") running.push(status);
  }
  const [only, other] = running;
  if (other !== undefined) {
    throw new HoldfastError({
      code: "USAGE",
      message: `${running.length} runs are running`,
      hint: `Name one: ${running.map(({ run }) => `\`holdfast stop ${run.id}\``).join(", ")}.`,
    });
  }
  return only ?? newest ?? (await holdfast.status((await holdfast.resolveRun()).id));
}

async function waitUntilLeft(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly run: string; readonly epoch: number },
): Promise<void> {
  const handle = await holdfast.run(params.run);
  for (;;) {
    const holder = await handle.holder();
    if (holder === undefined || holder.alive === "dead" || holder.lease.epoch !== params.epoch) return;
    await sleep(POLL_MS, undefined, { signal: shell.signal });
  }
}

const POLL_MS = 50;

function elsewhere(run: string, lease: Lease): HoldfastError {
  return new HoldfastError({
    code: "LEASE_HELD",
    message: `Run ${run} is held by ${leaseOwnerText(lease)}, which cannot be reached from here`,
    hint: `Run \`holdfast stop ${run}\` on ${lease.owner.host}.`,
    data: { run, owner: lease.owner },
  });
}

interface SignalRequest {
  readonly kind: "pause" | "abort";
  readonly typed: string | undefined;
  readonly reason: string;
  readonly now: boolean;
}

/** Sends the signal, waits until it is handled, and prints the resulting status. */
export async function sendSignal(shell: Shell, request: SignalRequest): Promise<Exit> {
  const { kind, reason, now } = request;
  const holdfast = await shell.open({ create: false });
  const prepared = request.typed === undefined ? [] : await findStarting(holdfast, request.typed);
  const [first] = prepared;
  if (kind === "abort" && first !== undefined) {
    shell.say(`Stopping process ${first.pid}, which prepares ${escapeText(startingName(first))} …`);
    if ((await stopStarting(shell, holdfast, prepared)) === null) {
      shell.print({
        json: () => ({ run: first.run, ordered: kind, outcome: "unbegun", standing: null }),
        text: () => `Aborted ${escapeText(startingName(first))} before it began; nothing was changed.\n`,
      });
      return "done";
    }
  }
  if (kind === "pause" && first !== undefined) throw stillStarting(first, "there is nothing to pause yet");
  const run = request.typed === undefined ? await onlyOne(holdfast, kind) : (await findRun(holdfast, request.typed)).id;
  if (kind === "pause") await refuseUnbegun(holdfast, run);
  const ordered = await holdfast.work.order({
    order: { run, kind, reason, now, by: userName() },
    signal: shell.signal,
    onWaiting: (by) => {
      const when =
        now || kind === "abort"
          ? ""
          : "\nIt comes to a safe point first. --now does not wait; Ctrl+C ends this waiting only.";
      shell.say(`Waiting for ${escapeText(holderText(by))} …${when}`);
    },
  });
  const stood = await standingIn(holdfast, run);
  shell.print({
    json: () => ({ run, ordered: kind, outcome: ordered.kind, standing: stood.standing }),
    text: () => `${signalResultText(kind, ordered, stood)}\n`,
  });
  const { program } = shell.talk;
  if (kind === "pause" && stood.standing.kind === "paused") shell.say(`Go on with: ${program} resume ${run}`);
  if (kind === "abort" && ordered.kind === "done") shell.say(`What it came to: ${program} status ${run}`);
  return ordered.kind === "ended" ? "needs_you" : "done";
}

function signalResultText(
  kind: SignalRequest["kind"],
  ordered: SignalResult,
  { run, standing }: RunWithStatus,
): string {
  const saved = run.latest === null ? "" : ` Saved as ${run.id}@${run.latest.sequence}.`;
  const done = kind === "pause" ? "Paused" : "Aborted";
  switch (ordered.kind) {
    case "done":
      return `${done} ${run.id}.${saved}`;
    case "standing":
      return `Paused ${run.id}: it will not go on when it has what it waits for.`;
    case "taken_back":
      return `${run.id} goes on: somebody took it back.`;
    case "ended":
      return `${run.id} has ended (${standingWord(standing).word}); nothing was changed.`;
    case "elsewhere":
      return `Said to ${escapeText(holderText(ordered.by))}, which cannot be seen from here.`;
  }
}

async function standingIn(holdfast: Holdfast, id: string): Promise<RunWithStatus> {
  const found = (await holdfast.standings()).find(({ run }) => run.id === id);
  if (found === undefined) throw new HoldfastError({ code: "RUN_NOT_FOUND", message: `There is no run ${id}` });
  return found;
}

async function onlyOne(holdfast: Holdfast, kind: string): Promise<string> {
  const running = (await holdfast.standings()).filter(({ standing }) => isRunning(standing));
  const [only, other] = running;
  if (only !== undefined && other === undefined) return only.run.id;
  throw new HoldfastError({
    code: "USAGE",
    message: only === undefined ? "No run is at work" : `${running.length} runs are at work`,
    hint:
      only === undefined
        ? `Name one: \`holdfast ${kind} RUN\`; \`holdfast list\` shows them.`
        : `Name one: ${running.map(({ run }) => `\`holdfast ${kind} ${run.id}\``).join(", ")}.`,
  });
}

/** Rejects a run that has not begun: a resume would have nothing to continue. */
async function refuseUnbegun(holdfast: Holdfast, run: string): Promise<void> {
  const { latest, workflow } = await (await holdfast.run(run)).summary();
  if (latest !== null && workflow !== "manual") return;
  throw new HoldfastError({
    code: "USAGE",
    message: workflow === "manual" ? `${run} is saved by hand: nobody works on it` : `${run} has not begun yet`,
    hint: workflow === "manual" ? "There is nothing to pause." : `End it: \`holdfast abort ${run}\`.`,
  });
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return "somebody";
  }
}
