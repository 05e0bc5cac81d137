import type { Holdfast, RunStatus } from "../../../app.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { countText } from "../../output/count-text.ts";
import type { statusSpec } from "./spec.ts";
import { statusJson } from "./status-json.ts";
import { nextText, statusText, statusesText } from "./view.ts";
import { watchStatus } from "./watch.ts";

export async function run(shell: Shell, input: Input<(typeof statusSpec)["flags"]>): Promise<Exit> {
  const typed = input.operand(0);
  const holdfast = await shell.open({ create: false });
  if (typed === undefined && !input.on("watch")) return await showAll(shell, holdfast);
  const { id } = typed === undefined ? await newestUnfinished(holdfast) : await findRun(holdfast, typed);
  if (input.on("watch")) return await watchStatus(shell, holdfast, id);
  const status = await holdfast.status(id);
  shell.print({ json: () => statusJson(status), text: (page) => statusText(status, page) });
  shell.say(nextText(status, shell.talk));
  return "done";
}

/** One that is under way is shown in full: it is the one that is meant. */
async function showAll(shell: Shell, holdfast: Holdfast): Promise<Exit> {
  const runs = await holdfast.listRuns();
  const open = runs.filter(({ state }) => state.kind === "open" || state.kind === "parked");
  const statuses: RunStatus[] = [];
  for (const { id } of open) statuses.push(await holdfast.status(id));
  const [only] = statuses;
  shell.print({
    json: () => ({ runs: statuses.map(statusJson) }),
    text: (page) =>
      only === undefined ? "" : statuses.length === 1 ? statusText(only, page) : statusesText(statuses, page),
  });
  if (only === undefined) {
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
