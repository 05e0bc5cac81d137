import { isJsonObject } from "../core/json.ts";
import type { Json } from "../core/json.ts";
import { pictureGraph } from "../core/graph-picture.ts";
import type { GraphPicture } from "../core/graph-picture.ts";
import type { Graph } from "../core/graph.ts";
import type { JournalEntry } from "../core/journal.ts";
import type { Lease, OwnerLiveness } from "../core/lease.ts";
import type { Budget, Position } from "../core/position.ts";
import type { ParkedOn, RunSummary } from "../core/run.ts";
import type { RunHandle } from "../engine/run-handle.ts";
import { NO_PICTURE, foldEntry } from "./journal-picture.ts";
import type { JournalPicture, Question } from "./journal-picture.ts";
import { graphNow, momentOf } from "./run-graph.ts";

/** Where a run stands, told from its journal and its lease: never from what somebody last wrote into a field. */
export interface RunStatus {
  readonly run: RunSummary;
  readonly condition: Condition;
  readonly stage: string | null;
  readonly iteration: number;
  /** When the stage was entered. */
  readonly since: string | null;
  readonly scores: JournalPicture["scores"];
  readonly best: Position["best"];
  readonly budget: Budget | null;
  /** The task graph of the stage, as the journal has it now; null when there is none. */
  readonly graph: GraphPicture | null;
  /** A step that has begun and not ended. */
  readonly step: string | null;
  readonly last: JournalPicture["last"];
  readonly worktree: string | null;
  readonly branch: string | null;
  readonly issue: { readonly number: number; readonly title: string } | null;
  /** The one that the run has opened or taken over, as far as its newest checkpoint knows. */
  readonly pullRequest: { readonly number: number; readonly url: string } | null;
  /** Newest checkpoints that cannot be read, by sequence; what stands above is from the one before them. */
  readonly damaged: readonly number[];
}

export type Condition =
  /** A living process on this host carries it. */
  | { readonly kind: "running"; readonly lease: Lease }
  /** Somebody holds it whose life cannot be seen from here (another host). */
  | { readonly kind: "held"; readonly lease: Lease }
  | {
      readonly kind: "parked";
      readonly on: ParkedOn;
      readonly reason: string;
      readonly until: string | null;
      readonly question: Question | null;
    }
  /** Its process died without letting go. `resume` takes it up. */
  | { readonly kind: "crashed"; readonly lease: Lease }
  /** Let go in order (Ctrl+C, stop) before the end. `resume` takes it up. */
  | { readonly kind: "stopped" }
  /** Saved by hand or by a program of its own: no workflow carries it. */
  | { readonly kind: "manual" }
  | { readonly kind: "done"; readonly at: string }
  | { readonly kind: "fatal"; readonly at: string; readonly reason: string };

/** The status, and the graph itself that it pictures. `now`: milliseconds since the epoch. */
export async function readStatus(
  handle: RunHandle,
  now: number,
): Promise<{ readonly status: RunStatus; readonly graph: Graph | null }> {
  const [run, holder, workspace] = await Promise.all([handle.summary(), handle.holder(), handle.workspace()]);
  const { checkpoint: latest, damaged } = await handle.newestWhole();
  let picture = NO_PICTURE;
  let lastEntryAt: string | null = null;
  const since: JournalEntry[] = [];
  for await (const entry of handle.log()) {
    picture = foldEntry(picture, entry);
    // Tags and drops need no lease: they are no sign of life.
    if (entry.epoch > 0) lastEntryAt = entry.at;
    if (latest !== undefined && entry.entry > latest.entry) since.push(entry);
  }
  const planes = latest?.planes;
  const issue = planes?.inputs.issue ?? null;
  const condition = conditionOf({ run, holder, question: picture.question, worked: picture.stage !== null });
  const graph = latest === undefined ? null : graphNow(latest, since);
  const status: RunStatus = {
    run,
    condition,
    stage: picture.stage ?? planes?.position.stage ?? null,
    iteration: picture.stage === null ? (planes?.position.iteration ?? 0) : picture.iteration,
    since: picture.since,
    scores: picture.scores,
    best: planes?.position.best ?? null,
    budget: planes?.position.budget ?? null,
    graph: graph === null ? null : pictureGraph(graph, momentOf({ condition, now, lastEntryAt })),
    step: picture.step,
    last: picture.last,
    worktree: workspace?.root ?? null,
    branch: planes?.files?.branch?.replace(/^refs\/heads\//, "") ?? null,
    issue: issue === null ? null : { number: issue.number, title: issue.title },
    pullRequest: pullRequestOf(planes?.context.values["pullRequest"]),
    damaged,
  };
  return { status, graph };
}

/** Workflows keep what they like in their values; one that has a pull request there has it in this shape. */
function pullRequestOf(value: Json | undefined): RunStatus["pullRequest"] {
  if (!isJsonObject(value)) return null;
  const { number, url } = value;
  return typeof number === "number" && typeof url === "string" ? { number, url } : null;
}

/** An end is an end, whoever holds the lease; then a live holder; a parked run keeps its reason also when nobody holds it. */
export function conditionOf(params: {
  readonly run: Pick<RunSummary, "state">;
  readonly holder: { readonly lease: Lease; readonly alive: OwnerLiveness } | undefined;
  readonly question: Question | null;
  /** Has a workflow entered a stage? */
  readonly worked: boolean;
}): Condition {
  const { state } = params.run;
  const { holder } = params;
  if (state.kind === "done") return { kind: "done", at: state.at };
  if (state.kind === "fatal") return { kind: "fatal", at: state.at, reason: state.reason };
  if (holder?.alive === "alive") return { kind: "running", lease: holder.lease };
  if (state.kind === "parked")
    return {
      kind: "parked",
      on: state.on,
      reason: state.reason,
      until: state.until,
      question: state.on === "person" ? params.question : null,
    };
  if (holder?.alive === "unknown") return { kind: "held", lease: holder.lease };
  if (!params.worked) return { kind: "manual" };
  return holder === undefined ? { kind: "stopped" } : { kind: "crashed", lease: holder.lease };
}
