/** Formats the status of runs for `status`, `loops` and the end of a session, and suggests the next command. */
import { RESOURCES, type Resource, exceeded } from "@holdfast/core/budget";
import type { Lease } from "@holdfast/core/lease";
import type { Budget } from "@holdfast/core/position";
import type { LoopSummary } from "@holdfast/workflows/ralph/loop-summary";
import type { StartingProcess } from "../../announce-start.ts";
import type { Condition, RunDetails } from "../../run-status.ts";
import { startingName } from "../run-holder.ts";
import { compactGraphLines, graphLines } from "./graph-text.ts";
import { type Page, type Style, paint } from "./page.ts";
import { countText, relativeTime, scoreText, spentKnown, spentText } from "./quantities.ts";
import { stageText, standingWord, workText } from "./run-text.ts";
import { renderTable } from "./table.ts";
import { escapeText, escapeWords, fieldsText, momentText, sectionText, wrap } from "./text.ts";

export function statusText(status: RunDetails, page: Page): string {
  return fieldsOf(status, page) + graphText(status, page);
}

/** For a view that is redrawn in place, which must not be taller than the screen. */
export function compactStatusText(status: RunDetails, page: Page): string {
  const lines = status.graph === null ? [] : compactGraphLines(status.graph, page);
  return fieldsOf(status, page) + lines.map((line) => `${line}\n`).join("");
}

function graphText({ graph, budget }: RunDetails, page: Page): string {
  if (graph === null) return "";
  const lines = graphLines(graph, page, budget?.spent ?? null);
  return sectionText("Graph", lines.map((line) => `${line}\n`).join(""), page);
}

function fieldsOf(status: RunDetails, page: Page): string {
  const { run, condition } = status;
  const { word, style } = isAtLimit(status) ? AT_LIMIT : statusWord(status);
  const title = `${paint(page, "bold", escapeText(run.id))}  ${paint(page, style, word)}\n`;
  const why = isUnbegun(status)
    ? NOT_BEGUN
    : isUntouched(status)
      ? "Forked or imported; nobody has worked on it yet."
      : whyText(condition, page);
  const explained = why === null ? "" : wrapped(escapeWords(why), page);
  const fields = fieldsText(
    [
      ["work", status.issue === null ? workText(run.work) : `issue #${status.issue.number}: ${status.issue.title}`],
      ["stage", stageLine(status, page)],
      ["last", status.last === null ? null : `${status.last.text} (${relativeTime(status.last.at, page.now)})`],
      ...loopFields(status, page),
      ["scores", scoresText(status)],
      ["denied", status.denied.length === 0 ? null : `${status.denied.join("; ")} (--yolo allows it)`],
      ["spent", status.budget === null ? null : spentText(status.budget.spent, status.budget.limit)],
      ["saved", savedText(status, page)],
      ["damaged", damagedText(status, page)],
      ["pull request", status.pullRequest === null ? null : status.pullRequest.url],
      ["branch", status.branch],
      ["worktree", status.worktree],
    ],
    page,
  );
  return title + explained + fields;
}

/** The newest entry of each kind: older entries no longer matter. */
function loopFields({ loop, iteration }: RunDetails, page: Page): readonly (readonly [string, string | null])[] {
  if (loop === null) return [];
  const { unit } = loop;
  const trail = trailText(loop, page, 40);
  const found = new Map(loop.findings.map((finding) => [finding.kind, finding.sentence]));
  return [
    ["loop", `iteration ${iteration} of ${loop.maxIterations}${trail === "" ? "" : `  ${trail}`}`],
    ["unit", unit === null || unit.of === 1 ? null : `${unit.name} (${unit.place} of ${unit.of})`],
    ["until", loop.until.length === 0 ? "the agent says that it is done" : loop.until.join(" && ")],
    ["measured", metricsText(loop)],
    ["best", bestText(loop)],
    ...[...found.values()].map((sentence) => ["found", sentence] as const),
  ];
}

/** A run whose record does not exist yet. */
export function startingText(starting: StartingProcess, page: Page): string {
  const { pid, host, since, work, workflow } = starting;
  const title = `${paint(page, "bold", escapeText(startingName(starting)))}  ${paint(page, "cyan", "starting")}\n`;
  const why = `Process ${pid} on ${host} prepares it since ${momentText(since, page)}; nothing was begun yet.`;
  const fields = fieldsText(
    [
      ["work", workText(work)],
      ["workflow", workflow],
    ],
    page,
  );
  return title + wrapped(escapeText(why), page) + fields;
}

export function statusesText(statuses: readonly RunDetails[], page: Page): string {
  const columns = [
    { title: "RUN", shrinkTo: 16, last: true, cut: "middle" },
    { title: "STATE" },
    { title: "STAGE", shrinkTo: 8, optional: true },
    { title: "SCORES", optional: true, expendable: 2 },
    { title: "SPENT", optional: true, expendable: 3 },
    { title: "LAST", shrinkTo: 16, expendable: 1 },
  ] as const;
  const rows = statuses.map((status) => {
    const { word, style } = isAtLimit(status) ? AT_LIMIT : statusWord(status);
    return [
      { text: status.run.id, style: "bold" } as const,
      { text: word, style },
      { text: status.stage === null ? "" : stageText({ stage: status.stage, iteration: status.iteration }) },
      {
        text: sparkline(
          status.scores.map(({ score }) => score),
          12,
        ),
      },
      { text: status.budget === null ? "" : (spentText(status.budget.spent) ?? "") },
      { text: status.last?.text ?? "", style: "dim" } as const,
    ];
  });
  return renderTable({ columns, rows }, page);
}

/** Printed to stderr: the command to run next. */
export function nextText(status: RunDetails, page: Page): string {
  const { condition, run } = status;
  switch (condition.kind) {
    case "running":
      return `Watch it: ${page.program} status ${run.id} --watch\nStop it:  ${page.program} stop ${run.id}`;
    case "waiting":
      if (condition.for === "budget")
        return `Give it more: ${page.program} resume ${run.id} ${raiseBudgetFlags(status.budget)}`;
      return condition.question === null
        ? `Go on with: ${page.program} resume ${run.id}`
        : answerCommands(`${page.program} approve ${run.id}`, condition.question.options);
    case "crashed":
    case "stopped":
      return `Go on with: ${page.program} resume ${run.id}`;
    case "failed":
      if (isAtLimit(status)) return `Allow more: ${page.program} resume ${run.id} --max N`;
      return `What happened: ${page.program} events ${run.id}\nBegin again from a checkpoint: ${page.program} resume ${run.id}@N --force`;
    case "manual":
      if (isUnbegun(status)) return `Not needed any more: ${page.program} stop ${run.id} --now`;
      if (isUntouched(status)) return `Go on with: ${page.program} resume ${run.id}`;
      return `Its checkpoints: ${page.program} list ${run.id}`;
    case "held":
    case "done":
      return "";
  }
}

const AT_LIMIT = { word: "limit reached", style: "yellow" } as const;

/** A loop that reached its iteration limit has not failed, and it is not done. */
export function isAtLimit({ condition, loop, stage }: Pick<RunDetails, "condition" | "loop" | "stage">): boolean {
  return condition.kind === "failed" && loop !== null && stage === "limit";
}

/** Uses the detailed status if it says more than the lease alone. */
export function statusWord({ condition, standing }: Pick<RunDetails, "condition" | "standing">): {
  readonly word: string;
  readonly style: Style;
} {
  return isUntouched({ condition, standing }) ||
    SAYS_MORE.has(standing.kind) ||
    (standing.kind === "running" && standing.ordered !== null)
    ? standingWord(standing)
    : wordOf(condition);
}

/** A workflow is set to execute the run, but its own journal has no stage yet. */
function isUntouched({ condition, standing }: Pick<RunDetails, "condition" | "standing">): boolean {
  return condition.kind === "manual" && standing.kind === "stopped";
}

const SAYS_MORE: ReadonlySet<RunDetails["standing"]["kind"]> = new Set([
  "completing",
  "queued",
  "stale",
  "paused",
  "aborted",
  "budget_exhausted",
  "new",
]);

function wordOf(condition: Condition): { readonly word: string; readonly style: Style } {
  switch (condition.kind) {
    case "running":
      return { word: "running", style: "cyan" };
    case "held":
      return { word: "held elsewhere", style: "yellow" };
    case "waiting":
      return { word: `waiting: ${condition.for}`, style: "yellow" };
    case "crashed":
      return { word: "crashed, resumable", style: "red" };
    case "stopped":
      return { word: "stopped, resumable", style: "yellow" };
    case "manual":
      return { word: "manual", style: "dim" };
    case "done":
      return { word: "done", style: "green" };
    case "failed":
      return { word: "failed", style: "red" };
  }
}

/** Its process got no slot, or died, before the first stage. */
function isUnbegun({ standing }: RunDetails): boolean {
  return standing.kind === "new";
}

const NOT_BEGUN = "Nothing of it was done yet. Started again with the same words, it begins.";

function whyText(condition: Condition, page: Page): string | null {
  switch (condition.kind) {
    case "running": {
      const beat = relativeTime(condition.lease.heartbeatAt, page.now);
      return `Held by ${leaseOwnerText(condition.lease)} since ${momentText(condition.lease.takenAt, page)}; last sign of life ${beat}.`;
    }
    case "held":
      return `Held by ${leaseOwnerText(condition.lease)}; last sign of life ${relativeTime(condition.lease.heartbeatAt, page.now)}. From here it cannot be seen whether it still runs.`;
    case "waiting": {
      const until = condition.until === null ? "" : ` Until ${momentText(condition.until, page)}.`;
      const { question } = condition;
      const asks = question === null || question.question === condition.reason ? "" : ` It asks: ${question.question}`;
      const asked = question === null ? "" : `${asks} (${question.options.join(" / ")})`;
      return `${sentence(condition.reason)}${until}${asked}`;
    }
    case "crashed":
      return `Its process (pid ${condition.lease.owner.pid} on ${condition.lease.owner.host}) ended without letting go. What it had finished is saved.`;
    case "stopped":
      return "Nobody works on it now. Everything is saved.";
    case "manual":
      return "Saved by hand: no workflow carries it.";
    case "done":
      return `Done ${relativeTime(condition.at, page.now)}.`;
    case "failed":
      return sentence(condition.reason);
  }
}

/** "holdfast issue-42 (pid 4711 on laptop)". */
export function leaseOwnerText({ owner }: Pick<Lease, "owner">): string {
  return `${owner.label} (pid ${owner.pid} on ${owner.host})`;
}

function stageLine(status: RunDetails, page: Page): string | null {
  if (status.stage === null) return null;
  const place = stageText({ stage: status.stage, iteration: status.iteration });
  const step = status.step === null ? "" : `, in ${status.step}`;
  const since = status.since === null ? "" : ` (entered ${relativeTime(status.since, page.now)})`;
  return place === "" ? null : `${place}${step}${since}`;
}

function scoresText(status: RunDetails): string | null {
  if (status.scores.length === 0) return null;
  const scores = status.scores.map(({ score }) => score);
  const best =
    status.best === null || status.loop !== null
      ? ""
      : `, best ${scoreText(status.best.score)} at @${status.best.sequence}`;
  return `${scores.slice(-10).map(scoreText).join(" ")}  ${sparkline(scores, 20)}${best}`;
}

function savedText({ run }: RunDetails, page: Page): string | null {
  if (run.latest === null) return null;
  return `${countText(run.checkpoints, "checkpoint")}, newest @${run.latest.sequence} ${relativeTime(run.latest.createdAt, page.now)}`;
}

function damagedText({ damaged }: RunDetails, page: Page): string | null {
  if (damaged.length === 0) return null;
  return `${damaged.map((sequence) => `@${sequence}`).join(", ")} (see ${page.program} verify)`;
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function wrapped(text: string, page: Page): string {
  return `${wrap(text, Math.min(page.width, 100)).join("\n")}\n`;
}

/** An unknown cost is null, not 0. */
export function statusJson(status: RunDetails) {
  const { budget } = status;
  return { ...status, budget: budget === null ? null : { ...budget, spent: spentKnown(budget.spent) } };
}

/** A run without a record: only the process that prepares it is known. */
export function startingJson(starting: StartingProcess) {
  return { run: null, condition: { kind: "starting", ...starting } };
}

/**
 * The commands that answer a question, one per line so that each can be pasted: `push|stop` on one line would be a
 * pipe, and a shell would give the first answer.
 */
export function answerCommands(command: string, options: readonly string[]): string {
  const [first = "ANSWER", ...others] = options.map(quoted);
  return [`Answer with: ${command} ${first}`, ...others.map((option) => `         or: ${command} ${option}`)].join(
    "\n",
  );
}

function quoted(option: string): string {
  return /^[\w.,:=@/+-]+$/.test(option) ? option : `"${option.replaceAll(/["$`\\]/g, "\\$&")}"`;
}

/**
 * The flags that raise exhausted limits. If none is exhausted yet, the flags of all limits: the next call would exceed
 * one.
 */
export function raiseBudgetFlags(budget: Budget | null): string {
  const out = budget === null ? [] : exceeded(budget);
  const limited = RESOURCES.filter((resource) => budget !== null && budget.limit[resource] !== null);
  return (out.length > 0 ? out : limited).map((resource) => FLAG[resource]).join(" ");
}

const FLAG: Readonly<Record<Resource, string>> = {
  tokens: "--max-tokens N",
  microUsd: "--max-cost USD",
  milliseconds: "--max-total-time TIME",
};

type Verdict = LoopSummary["iterations"][number]["verdict"];
const MARKS: Readonly<Record<Verdict, string>> = { passed: "✓", failed: "✗", unchecked: "·", not_run: "?" };
const ASCII_MARKS: Readonly<Record<Verdict, string>> = { passed: "+", failed: "x", unchecked: ".", not_run: "?" };

/** One mark per iteration, only the newest if there are too many: "✗✗✗✓". */
export function trailText({ iterations }: LoopSummary, page: Pick<Page, "ascii">, width: number): string {
  const marks = page.ascii === true ? ASCII_MARKS : MARKS;
  const shown = iterations.slice(-width).map(({ verdict }) => marks[verdict]);
  return (iterations.length > shown.length ? "…" : "") + shown.join("");
}

/** The measurements of the newest iteration: "2 of 10 tests fail, 1 error, quality 72"; null: none. */
export function metricsText({ iterations }: LoopSummary): string | null {
  const last = iterations.at(-1);
  if (last === undefined) return null;
  const { tests, errors, quality } = last;
  const all = tests === null ? 0 : tests.passed + tests.failed;
  const facts = [
    ...(tests === null ? [] : [tests.failed === 0 ? `all ${all} tests pass` : `${tests.failed} of ${all} tests fail`]),
    ...(errors === null ? [] : [errors === 1 ? "1 error" : `${errors} errors`]),
    ...(quality === null ? [] : [`quality ${Math.round(quality)}`]),
  ];
  return facts.length === 0 ? null : facts.join(", ");
}

export function bestText({ best }: LoopSummary): string | null {
  return best === null ? null : `iteration ${best.iteration}, quality ${Math.round(best.quality)}`;
}

/**
 * Scores of 0 to 100 as one character each, on a fixed scale: the same score looks the same in every run. Shows only
 * the newest if there are too many.
 */
export function sparkline(scores: readonly number[], width = Number.POSITIVE_INFINITY): string {
  const shown = scores.length > width ? scores.slice(scores.length - Math.max(0, width)) : scores;
  return shown.map((score) => BARS[barOf(score)]).join("");
}

const BARS = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

function barOf(score: number): number {
  const within = Math.min(100, Math.max(0, Number.isNaN(score) ? 0 : score));
  return Math.min(BARS.length - 1, Math.floor((within / 100) * BARS.length));
}
