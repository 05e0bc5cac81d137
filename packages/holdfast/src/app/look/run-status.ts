import { isJsonObject } from "../../core/json.ts";
import type { Json } from "../../core/json.ts";
import { pictureGraph } from "../../core/graph/graph-picture.ts";
import type { GraphPicture } from "../../core/graph/graph-picture.ts";
import type { JournalEntry } from "../../core/journal/journal.ts";
import type { Budget, Position } from "../../core/position/position.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { RunStanding } from "../../core/run/run-standing.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import { loopPicture } from "../../workflows/ralph/loop-picture.ts";
import type { LoopPicture } from "../../workflows/ralph/loop-picture.ts";
import { NO_PICTURE, foldEntry } from "./journal-picture.ts";
import type { JournalPicture } from "./journal-picture.ts";
import { conditionOf } from "./run-condition.ts";
import type { Condition } from "./run-condition.ts";
import { graphNow, isSignOfLife, momentOf } from "./run-graph.ts";

/** Where a run stands, told from its journal and its lease: never from what somebody last wrote into a field. */
export interface RunStatus {
  readonly run: RunSummary;
  readonly condition: Condition;
  /** The same for people, with what is known besides: who is silent, what was ordered, whose turn it is. */
  readonly standing: RunStanding;
  readonly stage: string | null;
  readonly iteration: number;
  /** When the stage was entered. */
  readonly since: string | null;
  readonly scores: JournalPicture["scores"];
  readonly best: Position["best"];
  readonly budget: Budget | null;
  /** The task graph of the stage, as the journal has it now; null when there is none. */
  readonly graph: GraphPicture | null;
  /** How a loop (ralph) goes, as far as its newest checkpoint knows; null for any other run. */
  readonly loop: LoopPicture | null;
  /** A step that has begun and not ended. */
  readonly step: string | null;
  readonly last: JournalPicture["last"];
  readonly worktree: string | null;
  readonly branch: string | null;
  readonly issue: { readonly number: number; readonly title: string } | null;
  /** The one that the run has opened or taken over, as far as its newest checkpoint knows. */
  readonly pullRequest: { readonly number: number; readonly url: string } | null;
  /** What agents were denied, each once. */
  readonly denied: readonly string[];
  /** Newest checkpoints that cannot be read, by sequence; what stands above is from the one before them. */
  readonly damaged: readonly number[];
}

/** `now`: milliseconds since the epoch. */
export async function readStatus(
  handle: RunHandle,
  params: { readonly now: number; readonly standing: RunStanding },
): Promise<RunStatus> {
  const { now, standing } = params;
  const [run, holder, workspace] = await Promise.all([handle.summary(), handle.holder(), handle.workspace()]);
  const { checkpoint: latest, damaged } = await handle.newestWhole();
  let picture = NO_PICTURE;
  let lastEntryAt: string | null = null;
  const since: JournalEntry[] = [];
  for await (const entry of handle.log()) {
    picture = foldEntry(picture, entry);
    if (isSignOfLife(entry)) lastEntryAt = entry.at;
    if (latest !== undefined && entry.entry > latest.entry) since.push(entry);
  }
  const planes = latest?.planes;
  const issue = planes?.inputs.issue ?? null;
  const condition = conditionOf({ run, holder, question: picture.question, worked: picture.stage !== null });
  const graph = latest === undefined ? null : graphNow(latest, since);
  return {
    run,
    condition,
    standing,
    stage: picture.stage ?? planes?.position.stage ?? null,
    iteration: picture.stage === null ? (planes?.position.iteration ?? 0) : picture.iteration,
    since: picture.since,
    scores: picture.scores,
    best: planes?.position.best ?? null,
    budget: planes?.position.budget ?? null,
    graph: graph === null ? null : pictureGraph(graph, momentOf({ condition, now, lastEntryAt })),
    loop: planes === undefined ? null : loopPicture(planes),
    step: picture.step,
    denied: picture.denied,
    last: picture.last,
    worktree: workspace?.root ?? null,
    branch: planes?.files?.branch?.replace(/^refs\/heads\//, "") ?? null,
    issue: issue === null ? null : { number: issue.number, title: issue.title },
    pullRequest: pullRequestOf(planes?.context.values["pullRequest"]),
    damaged,
  };
}

/** Workflows keep what they like in their values; one that has a pull request there has it in this shape. */
export function pullRequestOf(value: Json | undefined): RunStatus["pullRequest"] {
  if (!isJsonObject(value)) return null;
  const { number, url } = value;
  return typeof number === "number" && typeof url === "string" ? { number, url } : null;
}
