import type { RunStanding } from "../../../app.ts";
import type { CheckpointSummary } from "../../../core/checkpoint/checkpoint.ts";
import type { RunState, RunSummary, Work } from "../../../core/run/run.ts";
import { byteText } from "../../output/byte-text.ts";
import type { Page, Style } from "../../output/page.ts";
import { relativeTime } from "../../output/relative-time.ts";
import { standingWord } from "../../output/standing-word.ts";
import { renderTable } from "../../output/table.ts";
import { unfinishedRestoreText } from "../../output/unfinished-restore.ts";
import type { Cell } from "../../output/table.ts";
import { scoreText } from "../../output/score-text.ts";

export interface ListedRun extends RunSummary {
  readonly standing: RunStanding;
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

/** What somebody saves by hand is open, as long as there is a hand. */
function standingCell(standing: RunStanding): Cell {
  if (standing.kind === "manual") return { text: "open", style: "cyan" };
  const { word, style } = standingWord(standing);
  return { text: word, style };
}

export function stateCell(state: RunState): Cell {
  const style: Readonly<Record<RunState["kind"], Style>> = {
    open: "cyan",
    parked: "yellow",
    done: "green",
    fatal: "red",
  };
  const text = state.kind === "parked" ? `parked: ${state.on}` : state.kind;
  return { text, style: style[state.kind] };
}

/** A run without a workflow stands in the stage "none", which is no news. */
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

/** The name and the tags together: both are what a person calls it. */
function nameText(checkpoint: Pick<CheckpointSummary, "name" | "tags">): string {
  const tags = checkpoint.tags.map((tag) => `@${tag}`);
  return [...tags, ...(checkpoint.name === null ? [] : [checkpoint.name])].join(" ");
}
