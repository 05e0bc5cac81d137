import { setTimeout as sleep } from "node:timers/promises";
import type { Holdfast, RunStatus, Starting } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Lease } from "../../../core/lease/lease.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { findStarting, interrupt, startingName, stopStarting } from "../../starting-run.ts";
import { escapeText } from "../../output/escape-text.ts";
import { holderText, nextText, statusWord } from "../status/view.ts";
import type { stopSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof stopSpec)["flags"]>): Promise<Exit> {
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
  shell.say(`Stopping ${escapeText(holderText(condition.lease))} …`);
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

/** Nothing holds a lease yet. Without a name it must be the only one that works. */
async function stopPrepared(
  shell: Shell,
  holdfast: Holdfast,
  prepared: readonly Starting[],
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

async function runningRuns(holdfast: Holdfast): Promise<readonly RunStatus[]> {
  const running: RunStatus[] = [];
  for (const { id, state } of await holdfast.listRuns()) {
    if (state.kind === "done" || state.kind === "fatal") continue;
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

async function chosen(holdfast: Holdfast, typed: string | undefined): Promise<RunStatus> {
  if (typed !== undefined) return await holdfast.status((await findRun(holdfast, typed)).id);
  const running: RunStatus[] = [];
  let newest: RunStatus | undefined;
  for (const { id, state } of await holdfast.listRuns()) {
    if (state.kind === "done" || state.kind === "fatal") continue;
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
    message: `Run ${run} is held by ${holderText(lease)}, which cannot be reached from here`,
    hint: `Run \`holdfast stop ${run}\` on ${lease.owner.host}.`,
    data: { run, owner: lease.owner },
  });
}
