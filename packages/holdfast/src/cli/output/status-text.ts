/** Formats the status of runs for `status` and the end of a session, and suggests the next command. */
import { RESOURCES, type Resource, exceeded } from "@holdfast/core/budget";
import { priorityText } from "@holdfast/core/lease";
import type { Budget } from "@holdfast/core/position";
import type { WaitingFor } from "@holdfast/core/run";
import { type RunStatus, isHeld } from "@holdfast/core/status";
import type { LoopSummary } from "@holdfast/workflows/ralph/loop-summary";
import type { StartingProcess } from "../../announce-start.ts";
import type { Continuer } from "../../continuation.ts";
import type { RunDetails } from "../../run-status.ts";
import { MAX_FAILURES } from "../../worker/plan-work.ts";
import type { QueueEntry } from "../../worker/read-queue.ts";
import { holderText, startingName } from "../run-holder.ts";
import { compactGraphLines, graphLines } from "./graph-text.ts";
import { type Page, paint } from "./page.ts";
import { countText, relativeTime, scoreText, spentText } from "./quantities.ts";
import { queueSentence, waitText } from "./queue-text.ts";
import { RUN_COLUMN, stageText, statusCell, workText } from "./run-text.ts";
import { renderTable } from "./table.ts";
import { escapeText, escapeWords, fieldsText, momentText, sectionText, wrap } from "./text.ts";

/** What `status` shows of a run. */
export interface ShownStatus extends RunDetails {
  /** What the queue has about a submitted run; null: it has no entry, or cannot be read. Absent: it is not asked. */
  readonly queued?: QueueEntry | null;
}

export function statusText(status: ShownStatus, page: Page): string {
  return fieldsOf(status, page) + graphText(status, page);
}

/** For a view that is redrawn in place, which must not be taller than the screen. */
export function compactStatusText(status: ShownStatus, page: Page): string {
  const lines = status.graph === null ? [] : compactGraphLines(status.graph, page);
  return fieldsOf(status, page) + lines.map((line) => `${line}\n`).join("");
}

function graphText({ graph, budget }: RunDetails, page: Page): string {
  if (graph === null) return "";
  const lines = graphLines(graph, page, budget?.spent ?? null);
  return sectionText("Graph", lines.map((line) => `${line}\n`).join(""), page);
}

function fieldsOf(status: ShownStatus, page: Page): string {
  const { run } = status;
  const { text, style } = statusCell(status.status);
  const title = `${paint(page, "bold", escapeText(run.id))}  ${paint(page, style, text)}\n`;
  const entry = entryOf(status);
  const why = [whyText(status, page), entry === null ? null : queueSentence(entry, page.now)]
    .filter((text) => text !== null)
    .join(" ");
  const explained = why === "" ? "" : wrapped(escapeWords(why), page);
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
      ["files", unpushedText(status.unpushed), "whole"],
      ["pull request", pullRequestText(status)],
      ["branch", status.branch],
      ["worktree", status.worktree],
    ],
    page,
  );
  return title + explained + fields;
}

/** What the queue has about a run; null: nothing that the status does not say. */
function entryOf({ status, queued = null }: ShownStatus): QueueEntry | null {
  if (queued === null || isHeld(status)) return null;
  const isExhausted = (queued.failures ?? 0) >= MAX_FAILURES;
  return status.kind === "waiting" && (queued.why === null || queued.wakeAt === null) && !isExhausted ? null : queued;
}

function pullRequestText({ pullRequest }: RunDetails): string | null {
  if (pullRequest === null) return null;
  return pullRequest.undone ? `undone, and closed: ${pullRequest.url}` : pullRequest.url;
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
  const { text, style } = statusCell(startingStatus(starting));
  const title = `${paint(page, "bold", escapeText(startingName(starting)))}  ${paint(page, style, text)}\n`;
  const why = `Process ${pid} on ${host} prepares it since ${momentText(since, page)}; no stage has started.`;
  const fields = fieldsText(
    [
      ["work", workText(work)],
      ["workflow", workflow],
    ],
    page,
  );
  return title + wrapped(escapeText(why), page) + fields;
}

export function statusesText(statuses: readonly ShownStatus[], page: Page): string {
  const columns = [
    RUN_COLUMN,
    { title: "STATUS" },
    { title: "STAGE", shrinkTo: 8, optional: true },
    { title: "PRIORITY", optional: true, expendable: 4 },
    { title: "HEARTBEAT", optional: true, expendable: 5 },
    { title: "SCORES", optional: true, expendable: 2 },
    { title: "SPENT", optional: true, expendable: 3 },
    { title: "LAST", shrinkTo: 16, expendable: 1, optional: true },
    { title: "WHY", optional: true, wrap: true, shrinkTo: 16 },
  ] as const;
  const rows = statuses.map((status) => {
    const entry = entryOf(status);
    return [
      { text: status.run.id, style: "bold" } as const,
      statusCell(status.status),
      { text: status.stage === null ? "" : stageText({ stage: status.stage, iteration: status.iteration }) },
      { text: status.priority === 0 ? "" : priorityText(status.priority) },
      { text: heartbeatText(status, page), style: "dim" } as const,
      {
        text: sparkline(
          status.scores.map(({ score }) => score),
          12,
        ),
      },
      { text: status.budget === null ? "" : (spentText(status.budget.spent) ?? "") },
      { text: status.last?.text ?? "", style: "dim" } as const,
      { text: entry === null ? "" : waitText(entry, page.now), style: "dim" } as const,
    ];
  });
  return renderTable({ columns, rows }, page);
}

/** "" if no process holds the run. */
function heartbeatText({ status }: RunDetails, page: Page): string {
  return "holder" in status && status.holder !== null ? relativeTime(status.holder.heartbeatAt, page.now) : "";
}

/** Printed to stderr: the command to run next. */
export function nextText({ run, status, submitted, budget, raise, restart }: RunDetails, { program }: Page): string {
  const resume = `${program} resume ${run.id}`;
  const queue = `Show the queue: ${program} queue`;
  switch (status.kind) {
    case "running": {
      const take = `If it does not answer, take it: ${program} take ${run.id}`;
      if (!status.hostKnown) return submitted ? `Stop it: ${program} queue --cancel ${run.id}\n${take}` : take;
      const stop = `Watch it: ${program} status ${run.id} --watch\nStop it:  ${program} stop ${run.id}`;
      return status.silentSince === null ? stop : `${stop}\n${take}`;
    }
    case "queued":
      return status.holder === null ? queue : `Stop it:  ${program} stop ${run.id}`;
    case "waiting":
      if (status.question !== null) return answerCommands(`${program} approve ${run.id}`, status.question.options);
      if (submitted) return nextForWorkers({ run, status, budget }, program) ?? queue;
      if (status.for === "budget") return `Give it more: ${resume} ${raiseBudgetFlags(budget)}`;
      return `Continue with: ${resume}`;
    case "paused":
      if (submitted && status.started) return `Continue with: ${program} submit ${run.id}`;
      if (status.started) return `Continue with: ${resume}`;
      return run.forkedFrom === null
        ? `Not needed any more: ${program} stop ${run.id} --now`
        : `Complete it:         ${program} fork ${run.forkedFrom.id} --as ${run.id}\nNot needed any more: ${program} rm ${run.id}`;
    case "crashed":
      return submitted ? `${queue}\nContinue it here: ${resume}` : `Continue with: ${resume}`;
    case "failed":
      if (raise !== null) return `Allow more: ${resume} --${raise} N`;
      return restartCommands(run.id, { kind: "failed", program, restart }).join("\n");
    case "aborted":
      return restartCommands(run.id, { kind: "aborted", program, restart }).join("\n");
    case "saved":
      return `Its checkpoints: ${program} list ${run.id}`;
    case "done":
      return restart === null ? "" : `Continue from there: ${resume}@${restart} --force`;
  }
}

/** What lets workers continue a run. `resume` would execute it here, where an agent may be missing. null: they continue it by themselves. */
function nextForWorkers(
  { run, status, budget }: Pick<RunDetails, "run" | "budget"> & { readonly status: { readonly for: WaitingFor } },
  program: string,
): string | null {
  switch (status.for) {
    case "you":
      return answerCommands(`${program} approve ${run.id}`, ["yes"]);
    case "budget":
      return `Give it more: ${program} submit ${run.id} ${raiseBudgetFlags(budget)}`;
    case "session":
      return `Continue with: ${program} submit ${run.id}`;
    default:
      return null;
  }
}

/**
 * How to restart a run that has ended. The last checkpoint of a failed run is in the stage in which it failed, so an earlier one is named:
 * the one that `restore --smart` picks, or else the user chooses.
 */
export function restartCommands(
  run: string,
  {
    kind,
    program,
    restart,
    flags = "",
  }: {
    readonly kind: "failed" | "aborted";
    readonly program: string;
    readonly restart: number | null;
    readonly flags?: string;
  },
): readonly string[] {
  const from = (at: string | number): string => `${program} resume ${run}@${at} --force${flags}`;
  if (kind === "aborted") return [`Restart from its last checkpoint: ${from("latest")}`];
  return [
    `What happened: ${program} events ${run}`,
    `Its checkpoints: ${program} list ${run}`,
    restart === null ? `Restart from checkpoint N: ${from("N")}` : `Try again from @${restart}: ${from(restart)}`,
  ];
}

function whyText(
  { status, since, run, continues, restored, worktree, queued }: ShownStatus,
  page: Page,
): string | null {
  switch (status.kind) {
    case "running": {
      const { holder } = status;
      const beat = `last heartbeat ${relativeTime(holder.heartbeatAt, page.now)}`;
      if (!status.hostKnown)
        return `Held by ${holderText(holder)}; ${beat}. This host cannot check whether that process is alive.${worktree === null ? "" : " The worktree here may be older."}`;
      const stopped = status.suspended ? " The operating system has stopped the process." : "";
      return `Held by ${holderText(holder)} since ${momentText(holder.takenAt, page)}; ${beat}.${stopped}`;
    }
    case "queued":
      if (status.holder === null) return submittedText(queued ?? null);
      return `Held by ${holderText(status.holder)}, which waits for a slot.`;
    case "waiting": {
      const until =
        status.until === null ? "" : ` Until ${momentText(status.until, page)}${CONTINUES[continues ?? "none"]}.`;
      const { question } = status;
      const asks = question === null || question.question === status.reason ? "" : ` It asks: ${question.question}`;
      const options = question === null || question.options.length === 0 ? "" : ` (${question.options.join(" / ")})`;
      const asked = `${asks}${options}`;
      return `${sentence(status.reason)}${until}${asked}`;
    }
    case "crashed":
      if (!status.certain)
        return `Its process (pid ${status.holder.pid} on ${status.holder.host}) has sent no heartbeat since ${momentText(status.holder.heartbeatAt, page)}. This host cannot check whether it exited.`;
      return `Its process (pid ${status.holder.pid} on ${status.holder.host}) ended unexpectedly (kill, crash or power cut). What it had finished is saved.`;
    case "paused":
      if (!status.started)
        return run.forkedFrom === null
          ? "No stage has started. The same `run` command starts it."
          : "The fork is not complete: it has no checkpoint.";
      if (status.reason !== null && status.reason !== "") return sentence(status.reason);
      if (since === null && run.forkedFrom !== null) return "Forked; no process has executed it yet.";
      return since === null
        ? "Imported; no process has executed it yet."
        : "No process executes it. Everything is saved.";
    case "saved":
      return "Saved by hand: no workflow executes it.";
    case "done":
      return `Done ${relativeTime(status.at, page.now)}.${restored === null ? "" : ` Restored to @${restored} since; nothing continues it.`}`;
    case "failed":
    case "aborted":
      return status.reason === "" ? null : sentence(status.reason);
  }
}

function submittedText(entry: QueueEntry | null): string {
  if (entry === null) return "Submitted; it waits for a worker.";
  return entry.worker === null ? "Submitted." : `Submitted; ${entry.worker} starts it.`;
}

const CONTINUES: Readonly<Record<Continuer | "none", string>> = {
  process: ", then a process that waits for it continues it",
  worker: ", then the worker continues it",
  none: "; nothing continues it then",
};

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
      : `, best ${scoreText(status.best.score)} at ${status.best.run ?? ""}@${status.best.sequence}`;
  return `${scores.slice(-10).map(scoreText).join(" ")}  ${sparkline(scores, 20)}${best}`;
}

function savedText({ run }: RunDetails, page: Page): string | null {
  if (run.latest === null) return null;
  return `${countText(run.checkpoints, "checkpoint")}, newest @${run.latest.sequence} ${relativeTime(run.latest.createdAt, page.now)}`;
}

/** null: the remote has the files. */
export function unpushedText(unpushed: RunDetails["unpushed"]): string | null {
  if (unpushed === null || unpushed.snapshots === 0) return null;
  const why = unpushed.problem === null ? "" : `: ${escapeText(unpushed.problem)}`;
  return `${countText(unpushed.snapshots, "snapshot")} not on ${escapeText(unpushed.remote)} yet${why}`;
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

/** The status of a run that a process prepares. */
export function startingStatus({ pid, host, since }: StartingProcess): RunStatus {
  const holder = { label: "holdfast", pid, host, epoch: 0, takenAt: since, heartbeatAt: since };
  const rest = { finishing: false, stopping: null, silentSince: null, suspended: false, hostKnown: true } as const;
  return { kind: "running", holder, starting: true, ...rest };
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
