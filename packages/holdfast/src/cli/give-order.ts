import { userInfo } from "node:os";
import type { Holdfast, Ordered, Stood } from "../app.ts";
import { HoldfastError } from "../core/error.ts";
import type { Exit } from "../core/exit.ts";
import { isAtWork } from "../core/run/run-standing.ts";
import type { Shell } from "./command.ts";
import { findRun } from "./find-run.ts";
import { findStarting, startingName, stillStarting, stopStarting } from "./starting-run.ts";
import { escapeText } from "./output/escape-text.ts";
import { standingWord } from "./output/standing-word.ts";
import { holderText } from "./wait-for-run.ts";

export interface OrderRequest {
  readonly kind: "pause" | "abort";
  readonly typed: string | undefined;
  readonly reason: string;
  readonly now: boolean;
}

/** Says it, waits until it is done, and tells how the run stands then. */
export async function giveOrder(shell: Shell, request: OrderRequest): Promise<Exit> {
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
    text: () => `${toldText(kind, ordered, stood)}\n`,
  });
  const { program } = shell.talk;
  if (kind === "pause" && stood.standing.kind === "paused") shell.say(`Go on with: ${program} resume ${run}`);
  if (kind === "abort" && ordered.kind === "done") shell.say(`What it came to: ${program} status ${run}`);
  return ordered.kind === "ended" ? "decision" : "done";
}

function toldText(kind: OrderRequest["kind"], ordered: Ordered, { run, standing }: Stood): string {
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

async function standingIn(holdfast: Holdfast, id: string): Promise<Stood> {
  const found = (await holdfast.standings()).find(({ run }) => run.id === id);
  if (found === undefined) throw new HoldfastError({ code: "RUN_NOT_FOUND", message: `There is no run ${id}` });
  return found;
}

async function onlyOne(holdfast: Holdfast, kind: string): Promise<string> {
  const running = (await holdfast.standings()).filter(({ standing }) => isAtWork(standing));
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

/** There is nothing yet that a resume could go on with. */
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
