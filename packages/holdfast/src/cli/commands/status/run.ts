import { setTimeout as sleep } from "node:timers/promises";
import type { Holdfast, RunStatus, Starting } from "../../../app.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { findStarting } from "../../starting-run.ts";
import { countText } from "../../output/count-text.ts";
import type { statusSpec } from "./spec.ts";
import { startingJson, statusJson } from "./status-json.ts";
import { nextText, startingText, statusText, statusesText } from "./view.ts";
import { watchStatus } from "./watch.ts";

export async function run(shell: Shell, input: Input<(typeof statusSpec)["flags"]>): Promise<Exit> {
  const typed = input.operand(0);
  const holdfast = await shell.open({ create: false });
  if (typed === undefined && !input.on("watch")) return await showAll(shell, holdfast);
  const prepared = await preparedOnly(shell, holdfast, typed, input.on("watch"));
  if (prepared !== undefined) {
    shell.print({ json: () => startingJson(prepared), text: (page) => startingText(prepared, page) });
    shell.say(`Stop it: ${shell.talk.program} stop ${stopName(prepared)}`);
    return "done";
  }
  const { id } = typed === undefined ? await newestUnfinished(holdfast) : await findRun(holdfast, typed);
  if (input.on("watch")) return await watchStatus(shell, holdfast, id);
  const status = await holdfast.status(id);
  shell.print({ json: () => statusJson(status), text: (page) => statusText(status, page) });
  shell.say(nextText(status, shell.talk));
  return "done";
}

/** The process that prepares the run, as long as it has no record. --watch waits for the record. */
async function preparedOnly(
  shell: Shell,
  holdfast: Holdfast,
  typed: string | undefined,
  watch: boolean,
): Promise<Starting | undefined> {
  for (;;) {
    const [first] = await findStarting(holdfast, typed);
    if (first === undefined || (first.run !== null && (await holdfast.store.getRun(first.run)) !== undefined))
      return undefined;
    if (!watch) return first;
    await sleep(POLL_MS, undefined, { signal: shell.signal });
  }
}

const POLL_MS = 200;

function stopName({ run, work }: Starting): string {
  return run ?? (work.kind === "issue" ? String(work.number) : "");
}

/** One that is under way is shown in full: it is the one that is meant. */
async function showAll(shell: Shell, holdfast: Holdfast): Promise<Exit> {
  // Read first: what holds its lease a moment later is among the runs.
  const starting = await findStarting(holdfast, undefined);
  const runs = await holdfast.listRuns();
  const fresh = starting.filter(({ run }) => !runs.some(({ id }) => id === run));
  const open = runs.filter(({ state }) => state.kind === "open" || state.kind === "parked");
  const statuses: RunStatus[] = [];
  for (const { id } of open) statuses.push(await holdfast.status(id));
  const [only] = statuses;
  shell.print({
    json: () => ({ runs: statuses.map(statusJson), starting: fresh }),
    text: (page) =>
      fresh.map((one) => startingText(one, page)).join("") +
      (only === undefined ? "" : statuses.length === 1 ? statusText(only, page) : statusesText(statuses, page)),
  });
  if (only === undefined && fresh.length > 0) {
    for (const one of fresh) shell.say(`Stop it: ${shell.talk.program} stop ${stopName(one)}`);
  } else if (only === undefined) {
    const ended =
      runs.length === 0 ? "There are no runs yet" : `Nothing is under way; ${countText(runs.length, "run")} finished`;
    shell.say(`${ended}: ${shell.talk.program} ${runs.length === 0 ? "run ISSUE" : "list"}`);
  } else if (statuses.length === 1) shell.say(nextText(only, shell.talk));
  return "done";
}

async function newestUnfinished(holdfast: Holdfast): Promise<{ readonly id: string }> {
  const runs = await holdfast.listRuns();
  return runs.find(({ state }) => state.kind === "open" || state.kind === "parked") ?? (await holdfast.resolveRun());
}
