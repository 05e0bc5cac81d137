import type { Condition, RunStatus, Starting } from "../../../app.ts";
import type { Lease } from "../../../core/lease/lease.ts";
import { answerCommands } from "../../output/answer-commands.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText, escapeWords } from "../../output/escape-text.ts";
import { giveMoreFlags } from "../../output/give-more.ts";
import { compactGraphLines, graphLines } from "../../output/graph-lines.ts";
import { bestText, metricsText, trailText } from "../../output/loop-text.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";
import { relativeTime } from "../../output/relative-time.ts";
import { spentText } from "../../output/spent-text.ts";
import { standingWord } from "../../output/standing-word.ts";
import { renderTable } from "../../output/table.ts";
import { sparkline } from "../../live/sparkline.ts";
import { startingName } from "../../starting-run.ts";
import { stageText, workText } from "../list/view.ts";
import { fieldsText, momentText, sectionText } from "../show/fields.ts";
import { wrap } from "../../output/wrap.ts";
import { scoreText } from "../../output/score-text.ts";

export function statusText(status: RunStatus, page: Page): string {
  return fieldsOf(status, page) + graphText(status, page);
}

/** For a view that is redrawn in place: it must not be taller than a screen. */
export function compactStatusText(status: RunStatus, page: Page): string {
  const lines = status.graph === null ? [] : compactGraphLines(status.graph, page);
  return fieldsOf(status, page) + lines.map((line) => `${line}\n`).join("");
}

function graphText({ graph, budget }: RunStatus, page: Page): string {
  if (graph === null) return "";
  const lines = graphLines(graph, page, budget?.spent ?? null);
  return sectionText("Graph", lines.map((line) => `${line}\n`).join(""), page);
}

function fieldsOf(status: RunStatus, page: Page): string {
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

/** The newest of each kind: what was noticed long ago and is over need not be read each time. */
function loopFields({ loop, iteration }: RunStatus, page: Page): readonly (readonly [string, string | null])[] {
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
export function startingText(starting: Starting, page: Page): string {
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

export function statusesText(statuses: readonly RunStatus[], page: Page): string {
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

/** Said, not printed: what to type next. */
export function nextText(status: RunStatus, page: Page): string {
  const { condition, run } = status;
  switch (condition.kind) {
    case "running":
      return `Watch it: ${page.program} status ${run.id} --watch\nStop it:  ${page.program} stop ${run.id}`;
    case "parked":
      if (condition.on === "budget")
        return `Give it more: ${page.program} resume ${run.id} ${giveMoreFlags(status.budget)}`;
      return condition.question === null
        ? `Go on with: ${page.program} resume ${run.id}`
        : answerCommands(`${page.program} approve ${run.id}`, condition.question.options);
    case "crashed":
    case "stopped":
      return `Go on with: ${page.program} resume ${run.id}`;
    case "fatal":
      if (isAtLimit(status)) return `Allow more: ${page.program} resume ${run.id} --max N`;
      return `What happened: ${page.program} log ${run.id}\nBegin again from a checkpoint: ${page.program} resume ${run.id}@N --force`;
    case "manual":
      if (isUnbegun(status)) return `Not wanted any more: ${page.program} abort ${run.id}`;
      if (isUntouched(status)) return `Go on with: ${page.program} resume ${run.id}`;
      return `Its checkpoints: ${page.program} list ${run.id}`;
    case "held":
    case "done":
      return "";
  }
}

const AT_LIMIT = { word: "limit reached", style: "yellow" } as const;

/** A loop that was to go round so often and no more: it has not failed, and it is not done. */
export function isAtLimit({ condition, loop, stage }: Pick<RunStatus, "condition" | "loop" | "stage">): boolean {
  return condition.kind === "fatal" && loop !== null && stage === "limit";
}

/** Where more is known than who holds it, that is the word. */
export function statusWord({ condition, standing }: Pick<RunStatus, "condition" | "standing">): {
  readonly word: string;
  readonly style: Style;
} {
  return isUntouched({ condition, standing }) ||
    SAYS_MORE.has(standing.kind) ||
    (standing.kind === "running" && standing.ordered !== null)
    ? standingWord(standing)
    : wordOf(condition);
}

/** No stage was entered in its own journal, and yet a workflow is to carry it. */
function isUntouched({ condition, standing }: Pick<RunStatus, "condition" | "standing">): boolean {
  return condition.kind === "manual" && standing.kind === "stopped";
}

const SAYS_MORE: ReadonlySet<RunStatus["standing"]["kind"]> = new Set([
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
    case "parked":
      return { word: `parked: ${condition.on}`, style: "yellow" };
    case "crashed":
      return { word: "crashed, resumable", style: "red" };
    case "stopped":
      return { word: "stopped, resumable", style: "yellow" };
    case "manual":
      return { word: "manual", style: "dim" };
    case "done":
      return { word: "done", style: "green" };
    case "fatal":
      return { word: "fatal", style: "red" };
  }
}

/** Its process was refused a place, or died, before the first stage. */
function isUnbegun({ standing }: RunStatus): boolean {
  return standing.kind === "new";
}

const NOT_BEGUN = "Nothing of it was done yet. Started again with the same words, it begins.";

function whyText(condition: Condition, page: Page): string | null {
  switch (condition.kind) {
    case "running": {
      const beat = relativeTime(condition.lease.heartbeatAt, page.now);
      return `Held by ${holderText(condition.lease)} since ${momentText(condition.lease.takenAt, page)}; last sign of life ${beat}.`;
    }
    case "held":
      return `Held by ${holderText(condition.lease)}; last sign of life ${relativeTime(condition.lease.heartbeatAt, page.now)}. From here it cannot be seen whether it still runs.`;
    case "parked": {
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
    case "fatal":
      return sentence(condition.reason);
  }
}

/** "holdfast issue-42 (pid 4711 on laptop)". */
export function holderText({ owner }: Pick<Lease, "owner">): string {
  return `${owner.label} (pid ${owner.pid} on ${owner.host})`;
}

function stageLine(status: RunStatus, page: Page): string | null {
  if (status.stage === null) return null;
  const place = stageText({ stage: status.stage, iteration: status.iteration });
  const step = status.step === null ? "" : `, in ${status.step}`;
  const since = status.since === null ? "" : ` (entered ${relativeTime(status.since, page.now)})`;
  return place === "" ? null : `${place}${step}${since}`;
}

function scoresText(status: RunStatus): string | null {
  if (status.scores.length === 0) return null;
  const scores = status.scores.map(({ score }) => score);
  const best =
    status.best === null || status.loop !== null
      ? ""
      : `, best ${scoreText(status.best.score)} at @${status.best.sequence}`;
  return `${scores.slice(-10).map(scoreText).join(" ")}  ${sparkline(scores, 20)}${best}`;
}

function savedText({ run }: RunStatus, page: Page): string | null {
  if (run.latest === null) return null;
  return `${countText(run.checkpoints, "checkpoint")}, newest @${run.latest.sequence} ${relativeTime(run.latest.createdAt, page.now)}`;
}

function damagedText({ damaged }: RunStatus, page: Page): string | null {
  if (damaged.length === 0) return null;
  return `${damaged.map((sequence) => `@${sequence}`).join(", ")} (see ${page.program} verify)`;
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function wrapped(text: string, page: Page): string {
  return `${wrap(text, Math.min(page.width, 100)).join("\n")}\n`;
}
