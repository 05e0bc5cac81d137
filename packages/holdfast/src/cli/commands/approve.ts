/** The `approve` command: answers the question that a run waits for. */
import { hostname, userInfo } from "node:os";
import type { PendingDecision } from "@holdfast/core/run";
import { waitsForYou } from "@holdfast/core/status";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { namedActor } from "../../actor.ts";
import type { Holdfast } from "../../holdfast.ts";
import type { RunDetails } from "../../run-status.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { type Page, paint } from "../output/page.ts";
import { answerCommands, raiseBudgetFlags } from "../output/status-text.ts";
import { escapeText, escapeWords, wrap } from "../output/text.ts";
import { runJson } from "../run-json.ts";

export const spec = {
  name: "approve",
  summary: "answer the question that a run waits for",
  details: [
    "Without an answer it shows the question and the possible answers. The journal records the answer and who gave it; `holdfast resume` then continues the run. For a run that waits for a quota, yes allows it to continue before that time.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, or an issue number; default the one that asks",
      required: false,
      completes: "run",
    },
    { name: "ANSWER", about: "one of the answers offered", required: false, completes: "nothing" },
  ],
  consent: "store",
  flags: {
    by: { type: "text", value: "NAME", about: "who answers (default: user and host)" },
    note: { type: "text", value: "TEXT", about: "why, for the journal" },
  },
  examples: [
    { line: "holdfast approve", about: "what is asked, and by which run" },
    { line: "holdfast approve issue-42 yes", about: "answer it" },
    { line: "holdfast approve issue-42 yes && holdfast resume issue-42", about: "answer it and continue the run" },
  ],
  json: '{"run": {...}, "question": {"name", "question", "options": [...]}, "answer": "..." or null, "by": "..." or null}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const holdfast = await shell.open({ create: false });
  const asking = await findAsking(holdfast, input.operand(0));
  const { question, id } = asking;
  const answer = input.operand(1);
  if (answer === undefined) {
    shell.print({
      json: () => ({ run: runJson(asking), question, answer: null, by: null }),
      text: (page) => questionText(asking, page),
    });
    shell.notify(answerCommands(`${shell.talk.program} approve ${id}`, question.options));
    return "needs_you";
  }
  const by = input.text("by") ?? namedActor(shell.env) ?? whoAmI();
  const note = input.text("note");
  await holdfast.work.approve({ run: id, answer, by, ...(note === undefined ? {} : { note }) });
  const answered = await holdfast.runWithStatus(id);
  shell.print({
    json: () => ({ run: runJson(answered), question, answer, by }),
    text: (page) => indented(`${id}: "${escapeText(answer)}" by ${escapeText(by)}, to: ${question.question}`, page),
  });
  if (answered.status.kind === "queued") {
    shell.notify("A worker continues it.");
    return "done";
  }
  const next = answer === "stop" ? "The run ends when you resume it:" : "Continue with:";
  shell.notify(`${next} ${shell.talk.program} resume ${id}`);
  return "done";
}

interface Asking extends Pick<RunDetails, "run" | "status"> {
  readonly id: string;
  readonly question: PendingDecision;
  readonly reason: string;
}

async function findAsking(holdfast: Holdfast, typed: string | undefined): Promise<Asking> {
  if (typed !== undefined) {
    const status = await holdfast.status((await findRun(holdfast, typed)).id);
    const asking = askingOf(status) ?? waitingOf(status);
    if (asking !== undefined) return asking;
    throw asksNothing(status);
  }
  const all: Asking[] = [];
  for (const { id, state } of await holdfast.listRuns()) {
    const asking = state.kind === "waiting" ? askingOf(await holdfast.status(id)) : undefined;
    if (asking !== undefined) all.push(asking);
  }
  const [only, other] = all;
  if (only === undefined) throw noQuestion("No run waits for an answer", "See `holdfast status`.");
  if (other === undefined) return only;
  throw usageError(
    `${all.length} runs wait for an answer`,
    `Name one: ${all.map(({ id }) => `\`holdfast approve ${id}\``).join(", ")}.`,
  );
}

/** A run that waits for you without its own question waits for permission to continue. */
function askingOf({ run, status }: RunDetails): Asking | undefined {
  if (!waitsForYou(status)) return undefined;
  const question = status.question ?? { name: "continue", question: "Continue the run?", options: ["yes"] };
  return { id: run.id, run, status, question, reason: status.reason };
}

/**
 * A wait until a time needs no answer. But the user may know better than the provider or the forge, and let the run
 * continue earlier.
 */
function waitingOf({ run, status }: RunDetails): Asking | undefined {
  if (status.kind !== "waiting" || status.until === null) return undefined;
  if (status.for !== "quota" && status.for !== "forge") return undefined;
  const question = `Continue the run before ${status.until}?`;
  return { id: run.id, run, status, question: { name: "continue", question, options: ["yes"] }, reason: status.reason };
}

function asksNothing({ run, status, budget }: RunDetails): HoldfastError {
  const { id } = run;
  if (status.kind !== "waiting") return noQuestion(`Run ${id} asks nothing`, `See \`holdfast status ${id}\`.`);
  const more = status.for === "budget" ? ` ${raiseBudgetFlags(budget)}` : "";
  return noQuestion(
    `Run ${id} asks nothing; it waits: ${status.reason}`,
    `Continue with \`holdfast resume ${id}${more}\`.`,
  );
}

function questionText({ id, question, reason }: Asking, page: Page): string {
  const why = reason === question.question ? "" : `  ${escapeWords(reason)}\n`;
  const answers = question.options.length === 0 ? "any text" : question.options.join(", ");
  const asks = indented(`${id} asks: ${question.question}`, page).slice(id.length);
  return `${paint(page, "bold", escapeText(id))}${asks}${why}  answers: ${escapeText(answers)}\n`;
}

function indented(text: string, page: Page): string {
  return `${wrap(escapeWords(text), Math.min(page.width, READABLE) - 2).join("\n  ")}\n`;
}

const READABLE = 100;

function noQuestion(message: string, hint: string): HoldfastError {
  return new HoldfastError({ code: "NOTHING_TO_RESUME", message, hint });
}

function whoAmI(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    return hostname();
  }
}
