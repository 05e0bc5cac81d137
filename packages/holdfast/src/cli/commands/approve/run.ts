import { hostname, userInfo } from "node:os";
import type { Holdfast, Question, RunStatus } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { answerCommands } from "../../output/answer-commands.ts";
import { escapeText, escapeWords } from "../../output/escape-text.ts";
import { giveMoreFlags } from "../../output/give-more.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { wrap } from "../../output/wrap.ts";
import type { approveSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof approveSpec)["flags"]>): Promise<Exit> {
  const holdfast = await shell.open({ create: false });
  const asking = await findAsking(holdfast, input.operand(0));
  const { question, id } = asking;
  const answer = input.operand(1);
  if (answer === undefined) {
    shell.print({
      json: () => ({ run: id, question, answer: null, by: null }),
      text: (page) => questionText(asking, page),
    });
    shell.say(answerCommands(`${shell.talk.program} approve ${id}`, question.options));
    return "decision";
  }
  const by = input.text("by") ?? whoAmI();
  await holdfast.work.approve({ run: id, answer, by });
  shell.print({
    json: () => ({ run: id, question, answer, by }),
    text: (page) => indented(`${id}: "${escapeText(answer)}" by ${escapeText(by)}, to: ${question.question}`, page),
  });
  shell.say(`Go on with: ${shell.talk.program} resume ${id}`);
  return "done";
}

interface Asking {
  readonly id: string;
  readonly question: Question;
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
    const asking = state.kind === "parked" ? askingOf(await holdfast.status(id)) : undefined;
    if (asking !== undefined) all.push(asking);
  }
  const [only, other] = all;
  if (only === undefined) throw nobodyAsks("No run waits for an answer", "See `holdfast status`.");
  if (other === undefined) return only;
  throw new HoldfastError({
    code: "USAGE",
    message: `${all.length} runs wait for an answer`,
    hint: `Name one: ${all.map(({ id }) => `\`holdfast approve ${id}\``).join(", ")}.`,
  });
}

/** A run that is parked on a person without a question of its own waits for leave to go on. */
function askingOf({ run, condition }: RunStatus): Asking | undefined {
  if (condition.kind !== "parked" || condition.on !== "person") return undefined;
  const question = condition.question ?? { name: "go-on", question: "May it go on?", options: ["yes"] };
  return { id: run.id, question, reason: condition.reason };
}

/** A time needs no answer. But a user who knows better than the provider's or the forge's clock may say so. */
function waitingOf({ run, condition }: RunStatus): Asking | undefined {
  if (condition.kind !== "parked" || condition.until === null) return undefined;
  if (condition.on !== "quota" && condition.on !== "forge") return undefined;
  const question = `May it go on before ${condition.until}?`;
  return { id: run.id, question: { name: "go-on", question, options: ["yes"] }, reason: condition.reason };
}

function asksNothing({ run, condition, budget }: RunStatus): HoldfastError {
  const { id } = run;
  if (condition.kind !== "parked") return nobodyAsks(`Run ${id} asks nothing`, `See \`holdfast status ${id}\`.`);
  const more = condition.on === "budget" ? ` ${giveMoreFlags(budget)}` : "";
  return nobodyAsks(
    `Run ${id} asks nothing; it waits: ${condition.reason}`,
    `Go on with \`holdfast resume ${id}${more}\`.`,
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

function nobodyAsks(message: string, hint: string): HoldfastError {
  return new HoldfastError({ code: "NOTHING_TO_RESUME", message, hint });
}

function whoAmI(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    return hostname();
  }
}
