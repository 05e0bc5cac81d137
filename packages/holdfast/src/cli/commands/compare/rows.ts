import type { ComparedSide } from "../../../app.ts";
import type { CheckTrail } from "../../../core/compare/check-trails.ts";
import type { CodeChange } from "../../../core/compare/compared-run.ts";
import type { EffectSeen } from "../../../core/compare/read-history.ts";
import { countText } from "../../output/count-text.ts";
import type { Page, Style } from "../../output/page.ts";
import { costText, timeText, tokensSpentText } from "../../output/spent-text.ts";
import { stageText } from "../list/view.ts";

/** One respect of one run. `dimension`: what its best is called. */
export interface Row {
  readonly label: string;
  readonly text: string;
  readonly dimension?: string;
  readonly style?: Style;
}

/** In one order for every run, so that they can stand side by side; a respect that a run has nothing in is left out. */
export function rowsOf(run: ComparedSide, page: Page): readonly Row[] {
  const { iteration, attempts, spent, ownSpent, time, failures } = run;
  const tried = Object.entries(attempts).filter(([, count]) => count > 0);
  const [sole] = run.checks;
  return [
    ...stateRows(run),
    { label: "stage", text: run.stage === null ? "" : stageText({ stage: run.stage, iteration }) },
    { label: "code", text: codeText(run.code) },
    // The mark is for all checks together, so it stands with the first.
    ...run.checks.map((check) => ({
      label: ownLabel("check", check.name),
      text: checkText(check, page),
      style: check.last.pass ? ("green" as const) : ("red" as const),
      ...(check === sole ? { dimension: "checks" } : {}),
    })),
    { label: "score", text: scoreText(run), dimension: "score" },
    ...run.scores.map(({ name, value }) => ({
      label: ownLabel("score", name),
      text: String(value),
      dimension: `score ${name}`,
    })),
    ...run.metrics.map(({ name, value }) => ({
      label: ownLabel("metric", name),
      text: String(value),
      dimension: `metric ${name}`,
    })),
    { label: "calls", text: run.calls === 0 ? "" : String(run.calls) },
    { label: "failed steps", text: failures === 0 ? "" : String(failures) },
    { label: "attempts", text: tried.map(([name, count]) => `${name} ${count}`).join(", ") },
    { label: "tokens", text: tokensSpentText(spent) ?? "", dimension: "tokens" },
    { label: "cost", text: costText(spent) ?? "", dimension: "cost" },
    { label: "since the fork", text: ownSpent === null ? "" : (tokensSpentText(ownSpent) ?? "") },
    { label: "at work", text: timeText(time.work), dimension: "time" },
    { label: "wall clock", text: timeText(time.wall) },
    ...run.effects.map((effect, at) => ({
      label: at === 0 ? "effects" : `effects ${at + 1}`,
      text: effectText(effect),
    })),
  ].filter(({ text }) => text !== "");
}

/** What a workflow calls its own must not hide what every run has. */
function ownLabel(kind: "check" | "score" | "metric", name: string): string {
  return OURS.has(name) ? `${kind} ${name}` : name;
}

const OURS: ReadonlySet<string> = new Set(
  "state why stage code score calls attempts tokens cost effects"
    .split(" ")
    .concat("failed steps", "at work", "wall clock"),
);

const STYLES: Readonly<Record<string, Style>> = {
  done: "green",
  fatal: "red",
  crashed: "red",
  parked: "yellow",
  running: "cyan",
};

function stateRows({ condition }: ComparedSide): readonly Row[] {
  const { kind, reason } = condition;
  const style = STYLES[kind];
  const text = kind === "manual" ? "saved by hand" : kind;
  return [
    { label: "state", text, ...(style === undefined ? {} : { style }) },
    ...(reason === null ? [] : [{ label: "why", text: reason }]),
  ];
}

export function codeText(code: CodeChange | null): string {
  if (code === null) return "no files";
  if (code.files === 0) return "as the base";
  return changeText(code);
}

export function changeText({ files, added, removed }: CodeChange): string {
  return `${countText(files, "file")}, +${added} -${removed}`;
}

/** The newest verdicts, oldest of them first. */
function checkText({ trail, last }: CheckTrail, page: Pick<Page, "ascii">): string {
  const [yes, no] = page.ascii === true ? ["+", "-"] : ["✓", "✗"];
  const shown = trail
    .slice(-SHOWN)
    .map((pass) => (pass ? yes : no))
    .join("");
  const more = trail.length > SHOWN ? ".." : "";
  return `${last.pass ? "passes" : "fails"}${trail.length === 1 ? "" : ` ${more}${shown}`}`;
}

const SHOWN = 10;

function scoreText({ score, scoreTrail }: ComparedSide): string {
  if (score === null) return "";
  return scoreTrail.length < 2 ? String(score) : `${score} (${scoreTrail.slice(-6).join(" ")})`;
}

function effectText({ kind, target, state, adopted, number }: EffectSeen): string {
  const name = number === null ? kind : `${kind} #${number}`;
  const how = state === "done" ? (adopted ? " (adopted)" : "") : ` (${state})`;
  return `${name}${how} on ${target}`;
}
