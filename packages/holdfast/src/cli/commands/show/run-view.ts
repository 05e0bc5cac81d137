import type { CheckpointSummary } from "../../../core/checkpoint/checkpoint.ts";
import type { Lease, OwnerLiveness } from "../../../core/lease/lease.ts";
import type { RunState, RunSummary } from "../../../core/run/run.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { relativeTime } from "../../output/relative-time.ts";
import { unfinishedRestoreText } from "../../output/unfinished-restore.ts";
import { checkpointsText, stageText, stateCell, workText } from "../list/view.ts";
import { fieldsText, momentText, sectionText } from "./fields.ts";

export interface ShownRun {
  readonly run: RunSummary;
  readonly lease: Lease | null;
  /** Whether whoever has the lease is still there. */
  readonly holder: OwnerLiveness | null;
  readonly worktree: string | null;
  /** The newest ten. */
  readonly checkpoints: readonly CheckpointSummary[];
  readonly dropped: number;
}

export function runText(shown: ShownRun, page: Page): string {
  const { run, lease } = shown;
  const state = stateCell(run.state);
  const title = `${paint(page, "bold", escapeText(run.id))}  ${paint(page, state.style ?? "dim", state.text)}\n`;
  const fields = fieldsText(
    [
      ["why", reasonText(run.state, page)],
      ["work", workText(run.work)],
      ["workflow", run.workflow],
      ["stage", run.latest === null ? null : stageText(run.latest)],
      ["created", momentText(run.createdAt, page)],
      ["saved", run.latest === null ? null : momentText(run.latest.createdAt, page)],
      ["forked from", run.forkedFrom?.id ?? null],
      ["worktree", shown.worktree],
      [shown.holder === "dead" ? "left by" : "held by", lease === null ? null : leaseText(lease, shown.holder, page)],
      ["journal", countText(run.entries, "entry", "entries")],
      [
        "dropped",
        shown.dropped === 0
          ? null
          : `${countText(shown.dropped, "checkpoint")} by retention (${page.program} log ${run.id})`,
      ],
    ],
    page,
  );
  const some =
    shown.checkpoints.length < run.checkpoints ? ` (newest ${shown.checkpoints.length} of ${run.checkpoints})` : "";
  const body = shown.checkpoints.length === 0 ? "" : checkpointsText(shown.checkpoints, page);
  return title + unfinishedRestoreText(run, page) + fields + sectionText(`Checkpoints${some}`, body, page);
}

function reasonText(state: RunState, page: Page): string | null {
  switch (state.kind) {
    case "open":
      return null;
    case "done":
      return `done ${relativeTime(state.at, page.now)}`;
    case "fatal":
      return state.reason;
    case "parked":
      return state.until === null ? state.reason : `${state.reason}; until ${momentText(state.until, page)}`;
  }
}

/** A dead holder holds nobody up, and its last heartbeat may be a second old. */
function leaseText(lease: Lease, holder: OwnerLiveness | null, page: Page): string {
  const { owner } = lease;
  const who = `pid ${owner.pid} on ${owner.host}`;
  if (holder === "dead") return `${who}, which ended without letting go; the run is free`;
  const sign = holder === "alive" ? "running" : `last sign of life ${relativeTime(lease.heartbeatAt, page.now)}`;
  return `${owner.label} (${who}), ${sign}`;
}

/** Said, not printed: what a person may want to type next. */
export function nextText(shown: ShownRun, page: Page): string {
  const [latest] = shown.checkpoints;
  return latest === undefined
    ? `Save its first checkpoint with: ${page.program} checkpoint --run ${shown.run.id}`
    : `One of them in full: ${page.program} show ${latest.id}`;
}
