/** Formats lists of runs and checkpoints, and the words for a run's status. */
import type { CheckpointSummary, FilesPlane, Skipped } from "@holdfast/core/checkpoint";
import type { RunState, RunSummary, Work } from "@holdfast/core/run";
import type { RunStatus } from "@holdfast/core/status";
import { type Page, type Style, paint } from "./page.ts";
import { byteText, relativeTime, scoreText } from "./quantities.ts";
import { type Cell, renderTable } from "./table.ts";
import { displayWidth, escapeText, truncate } from "./text.ts";

export interface ListedRun extends RunSummary {
  readonly standing: RunStatus;
}

export function runsText(runs: readonly ListedRun[], page: Page): string {
  const columns = [
    { title: "RUN", shrinkTo: 16, last: true, cut: "middle" },
    { title: "STATE" },
    { title: "SAVED", align: "right", expendable: 1 },
    { title: "STAGE", shrinkTo: 8, optional: true, expendable: 2 },
    { title: "LATEST" },
    { title: "WORK", shrinkTo: 10, optional: true, expendable: 3 },
  ] as const;
  const rows = runs.map((run): readonly Cell[] => [
    { text: run.id, style: "bold" },
    run.unfinishedRestore === null ? standingCell(run.standing) : { text: "half restored", style: "red" },
    { text: String(run.checkpoints) },
    { text: run.latest === null ? "" : stageText(run.latest) },
    { text: relativeTime(run.latest?.createdAt ?? run.createdAt, page.now), style: "dim" },
    { text: workText(run.work) },
  ]);
  const unfinished = runs.map((run) => unfinishedRestoreText(run, page)).join("");
  return `${renderTable({ columns, rows }, page)}${unfinished}`;
}

export function checkpointsText(checkpoints: readonly CheckpointSummary[], page: Page, indent = ""): string {
  const columns = [
    { title: "CHECKPOINT", shrinkTo: 16, last: true, cut: "middle" },
    { title: "STATE", optional: true },
    { title: "WHEN" },
    { title: "TRIGGER", expendable: 3 },
    { title: "STAGE", shrinkTo: 8, optional: true, expendable: 2 },
    { title: "SCORE", align: "right", optional: true, expendable: 1 },
    { title: "ADDED", align: "right", expendable: 4 },
    { title: "NAME", shrinkTo: 12, optional: true },
  ] as const;
  const rows = checkpoints.map((checkpoint): readonly Cell[] => [
    { text: checkpoint.id, style: "bold" },
    { text: checkpoint.quarantined ? "damaged" : "", style: "red" },
    { text: relativeTime(checkpoint.createdAt, page.now), style: "dim" },
    { text: checkpoint.trigger },
    { text: stageText(checkpoint) },
    { text: checkpoint.score === null ? "" : scoreText(checkpoint.score) },
    { text: byteText(checkpoint.size.added) },
    { text: nameText(checkpoint) },
  ]);
  return renderTable({ columns, rows, indent }, page);
}

export function moreText(what: "run" | "checkpoint", shown: number): string {
  const newest = shown === 1 ? `the newest ${what} is` : `the newest ${shown} ${what}s are`;
  return `Only ${newest} shown; --limit all shows every one.`;
}

/** A run that is saved by hand is shown as open. */
function standingCell(standing: RunStatus): Cell {
  if (standing.kind === "manual") return { text: "open", style: "cyan" };
  const { word, style } = standingWord(standing);
  return { text: word, style };
}

export function stateCell(state: RunState): Cell {
  const style: Readonly<Record<RunState["kind"], Style>> = {
    active: "cyan",
    waiting: "yellow",
    paused: "yellow",
    done: "green",
    failed: "red",
    aborted: "red",
  };
  const text = state.kind === "waiting" ? `waiting: ${state.for}` : state.kind;
  return { text, style: style[state.kind] };
}

/** A run without a workflow is in the stage "none", which is not shown. */
export function stageText(at: { readonly stage: string; readonly iteration: number }): string {
  if (at.stage === "none") return "";
  return at.iteration > 0 ? `${at.stage} #${at.iteration}` : at.stage;
}

export function workText(work: Work): string {
  switch (work.kind) {
    case "issue":
      return `issue #${work.number}`;
    case "task":
      return work.text;
    case "none":
      return "";
  }
}

/** The name and the tags together: users know the checkpoint by both. */
function nameText(checkpoint: Pick<CheckpointSummary, "name" | "tags">): string {
  const tags = checkpoint.tags.map((tag) => `@${tag}`);
  return [...tags, ...(checkpoint.name === null ? [] : [checkpoint.name])].join(" ");
}

/** The status of a run in one or two words. */
export function standingWord(standing: RunStatus): { readonly word: string; readonly style: Style } {
  switch (standing.kind) {
    case "running":
      return standing.ordered === null
        ? { word: "running", style: "cyan" }
        : { word: standing.ordered === "pause" ? "pausing" : "aborting", style: "yellow" };
    case "completing":
      return { word: "completing", style: "cyan" };
    case "queued":
      return { word: "queued", style: "yellow" };
    case "stale":
      return { word: standing.suspended ? "stale: stopped" : "stale", style: "red" };
    case "elsewhere":
      return { word: "held elsewhere", style: "yellow" };
    case "waiting":
      return { word: standing.due ? `due: ${standing.on}` : `waiting: ${standing.on}`, style: "yellow" };
    case "paused":
      return { word: "paused", style: "yellow" };
    case "budget_exhausted":
      return { word: "budget exhausted", style: "yellow" };
    case "limit_reached":
      return { word: "limit reached", style: "red" };
    case "completed":
      return { word: "completed", style: "green" };
    case "failed":
      return { word: "failed", style: "red" };
    case "aborted":
      return { word: "aborted", style: "red" };
    case "crashed":
      return { word: standing.known === "certain" ? "crashed" : "crashed?", style: "red" };
    case "stopped":
      return { word: "stopped", style: "yellow" };
    case "new":
      return { word: "not begun", style: "dim" };
    case "manual":
      return { word: "manual", style: "dim" };
  }
}

/** Shown with every view of the run: its files may be a mix of two checkpoints. "" if there is no unfinished restore. */
export function unfinishedRestoreText(run: Pick<RunSummary, "id" | "unfinishedRestore">, page: Page): string {
  const { unfinishedRestore: target, id } = run;
  if (target === null) return "";
  const program = escapeText(page.program);
  return [
    paint(page, "red", `! a restore of ${escapeText(target)} did not finish: files may be half of each`),
    `    finish it:              ${program} restore ${escapeText(target)}`,
    `    what was there before:  ${program} list ${escapeText(id)}`,
    "",
  ].join("\n");
}

/** A path that a checkpoint does not hold, and why. It is always reported, so that it is not a surprise later. */
export interface SkippedPath {
  readonly path: string;
  readonly why: string;
}

export function skippedPaths(files: Pick<FilesPlane, "skipped" | "nested"> | null): readonly SkippedPath[] {
  if (files === null) return [];
  const nested = files.nested.map(({ path }) => ({ path: folder(path), why: REASONS.nested_repository }));
  const named = new Set(nested.map(({ path }) => path));
  const skipped = files.skipped
    .map(({ path, reason, bytes }) => ({
      path: reason === "nested_repository" ? folder(path) : path,
      why: reasonText(reason, bytes),
    }))
    .filter(({ path }) => !named.has(path));
  return [...nested, ...skipped];
}

export function reasonText(reason: keyof typeof REASONS, bytes: number | null): string {
  return `${REASONS[reason]}${bytes === null ? "" : `, ${byteText(bytes)}`}`;
}

/** One marked line. If it is too long, the path is truncated and the reason is kept. */
export function skippedLine(left: SkippedPath, middle: string, page: Page, indent = "  "): string {
  const tail = `${middle}: ${left.why}`;
  const room = Math.max(12, page.width - indent.length - 3 - displayWidth(tail));
  return `${indent}${paint(page, "yellow", "!")} ${truncate(escapeText(left.path), room)} ${tail}\n`;
}

const REASONS = {
  too_large: "too large",
  special_file: "not a regular file",
  unreadable: "unreadable",
  nested_repository: "a git repository of its own",
  ignored: "ignored",
  sparse: "outside the sparse checkout",
} as const satisfies Readonly<Record<Skipped["reason"] | "ignored" | "sparse", string>>;

function folder(path: string): string {
  return path.endsWith("/") || path.endsWith('"') ? path : `${path}/`;
}
