/** Formats lists of runs and checkpoints, and the words for a run's status. */
import type { CheckpointSummary, FilesPlane, Skipped } from "@holdfast/core/checkpoint";
import { READABLE_ID, type RunSummary, type Work } from "@holdfast/core/run";
import { type RunStatus, isHalfRestored, statusWord } from "@holdfast/core/status";
import { byteText } from "@holdfast/core/store-size";
import { type Page, type Style, paint } from "./page.ts";
import { relativeTime, scoreText } from "./quantities.ts";
import { type Cell, renderTable } from "./table.ts";
import { displayWidth, escapeText, momentText, truncate } from "./text.ts";

export interface ListedRun extends RunSummary {
  readonly status: RunStatus;
  /** The newest name of its checkpoints, if it has no work of its own. */
  readonly name?: string | null;
}

/** Other columns are omitted before an id is cut. Only an id that the user chose can be longer. */
export const RUN_COLUMN = { title: "RUN", shrinkTo: 16, keep: READABLE_ID, last: true, cut: "middle" } as const;
/** With room for "@999". */
export const CHECKPOINT_COLUMN = { ...RUN_COLUMN, title: "CHECKPOINT", keep: READABLE_ID + 4 } as const;

/** The first steps in a repository without runs. */
export function noRuns(program: string): string {
  return `No runs yet. Start one:\n  ${program} run --task "Fix the login"\nOr save a checkpoint of your own work:\n  ${program} checkpoint --name "first"`;
}

export function runsText(runs: readonly ListedRun[], page: Page): string {
  const columns = [
    RUN_COLUMN,
    { title: "STATUS" },
    { title: "SAVED", align: "right", expendable: 3 },
    { title: "STAGE", shrinkTo: 8, optional: true, expendable: 2 },
    { title: "LATEST" },
    { title: "WORK", shrinkTo: 10, optional: true, expendable: 1 },
  ] as const;
  const rows = runs.map((run): readonly Cell[] => [
    { text: run.id, style: "bold" },
    isHalfRestored(run) ? { text: "half restored", style: "red" } : statusCell(run.status),
    { text: String(run.checkpoints) },
    { text: run.latest === null ? "" : stageText(run.latest) },
    { text: relativeTime(run.latest?.createdAt ?? run.createdAt, page.now), style: "dim" },
    { text: run.name ?? workText(run.work) },
  ]);
  const unfinished = runs
    .filter(isHalfRestored)
    .map((run) => unfinishedRestoreText(run, page))
    .join("");
  return `${renderTable({ columns, rows }, page)}${unfinished}`;
}

/** Runs of several repositories. */
export function rowsText(rows: readonly ListedRow[], page: Page): string {
  const columns = [
    { title: "REPOSITORY", shrinkTo: 8 },
    RUN_COLUMN,
    { title: "STATUS" },
    { title: "LATEST", expendable: 2 },
    { title: "WORK", shrinkTo: 10, optional: true, expendable: 1 },
  ] as const;
  const cells = rows.map(({ repository, run, statusWord: word, title, updatedAt }): readonly Cell[] => [
    { text: repository },
    { text: run.id, style: "bold" },
    { text: word, style: styleOf(run.status) },
    { text: relativeTime(updatedAt, page.now), style: "dim" },
    { text: title === run.id ? "" : title },
  ]);
  return renderTable({ columns, rows: cells }, page);
}

interface ListedRow {
  readonly repository: string;
  readonly run: { readonly id: string; readonly status: RunStatus };
  readonly statusWord: string;
  readonly title: string;
  readonly updatedAt: string;
}

export function checkpointsText(checkpoints: readonly CheckpointSummary[], page: Page, indent = ""): string {
  const columns = [
    CHECKPOINT_COLUMN,
    { title: "STATE", optional: true },
    { title: "WHEN" },
    { title: "TRIGGER", expendable: 3 },
    { title: "STAGE", shrinkTo: 8, optional: true, expendable: 2 },
    { title: "SCORE", align: "right", optional: true, expendable: 1 },
    { title: "ADDED", align: "right", expendable: 4 },
    { title: "NAME", shrinkTo: 20, optional: true, wrap: true },
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

/** The status of a run, with the same words in every command. */
export function statusCell(status: RunStatus): Cell & { readonly style: Style } {
  return { text: statusWord(status), style: styleOf(status) };
}

/** Why the run has this status; null: the status says everything. */
export function reasonLine(status: RunStatus, page: Page): string | null {
  switch (status.kind) {
    case "waiting":
      return status.until === null ? status.reason : `${status.reason}; until ${momentText(status.until, page)}`;
    case "paused":
    case "failed":
    case "aborted":
      return status.reason === "" ? null : status.reason;
    case "done":
      return `done ${relativeTime(status.at, page.now)}`;
    default:
      return null;
  }
}

function styleOf(status: RunStatus): Style {
  switch (status.kind) {
    case "running":
      if (status.suspended || status.silentSince !== null) return "red";
      return status.stopping === null && status.hostKnown ? "cyan" : "yellow";
    case "saved":
      return "cyan";
    case "queued":
    case "waiting":
      return "yellow";
    case "paused":
      return status.started ? "yellow" : "dim";
    case "done":
      return "green";
    case "failed":
      return status.limit ? "yellow" : "red";
    case "crashed":
    case "aborted":
      return "red";
  }
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
