import { setTimeout as sleep } from "node:timers/promises";
import type { Holdfast, RunStatus } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Lease } from "../../../core/lease/lease.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { escapeText } from "../../output/escape-text.ts";
import { holderText, nextText, statusWord } from "../status/view.ts";
import type { stopSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof stopSpec)["flags"]>): Promise<Exit> {
  const holdfast = await shell.open({ create: false });
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
  interrupt(condition.lease);
  await waitUntilLeft(shell, holdfast, { run: id, epoch: condition.lease.epoch });
  const after = await holdfast.status(id);
  const saved = after.run.latest === null ? "" : ` Saved as ${id}@${after.run.latest.sequence}.`;
  shell.print({
    json: () => ({ run: id, stopped: true, condition: after.condition }),
    text: () => `Stopped ${id}.${saved}\n`,
  });
  shell.say(nextText(after, shell.talk));
  return "done";
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

/** The lease says which process it was when it took the run; that it is still the same one was just looked up. */
function interrupt(lease: Lease): void {
  try {
    process.kill(lease.owner.pid, "SIGINT");
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ESRCH") return;
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `Process ${lease.owner.pid}, which holds the run, could not be told to stop`,
      hint: "It may belong to another user; press Ctrl+C in its terminal.",
      cause,
    });
  }
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
