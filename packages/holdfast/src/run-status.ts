/** Computes the status of runs from their journals and leases, for `status` and library users. */
import type { Checkpoint } from "@holdfast/core/checkpoint";
import type { Graph } from "@holdfast/core/graph";
import { graphMoveText } from "@holdfast/core/graph-state";
import type { JournalEntry } from "@holdfast/core/journal";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Budget, Position } from "@holdfast/core/position";
import type { RunSummary } from "@holdfast/core/run";
import type { RunHandle } from "@holdfast/core/run-handle";
import { type RunWithStatus, isRequestUndone } from "@holdfast/core/run-statuses";
import { type StateEntry, loadState } from "@holdfast/core/state";
import type { RunStatus } from "@holdfast/core/status";
import type { Store } from "@holdfast/core/store";
import { HoldfastError } from "@holdfast/platform/error";
import { completingStages } from "@holdfast/workflows/built-in";
import { type LoopSummary, summarizeLoop } from "@holdfast/workflows/ralph/loop-summary";
import { type GraphPicture, type Moment, pictureGraph } from "./graph-view.ts";

/** The status of a run, computed from its journal and its lease, never from a stored status field. */
export interface RunDetails extends RunWithStatus {
  readonly stage: string | null;
  readonly iteration: number;
  /** When the stage was entered. */
  readonly since: string | null;
  readonly scores: JournalSummary["scores"];
  readonly best: Position["best"];
  readonly budget: Budget | null;
  /** The task graph of the stage, according to the journal; null if there is none. */
  readonly graph: GraphPicture | null;
  /** The progress of a ralph loop, according to its newest checkpoint; null for any other run. */
  readonly loop: LoopSummary | null;
  /** A step that has started and not ended. */
  readonly step: string | null;
  readonly last: JournalSummary["last"];
  readonly worktree: string | null;
  readonly branch: string | null;
  readonly issue: { readonly number: number; readonly title: string } | null;
  /** The pull request that the run opened or adopted, according to its newest checkpoint, and whether `undo` closed it. */
  readonly pullRequest: (PullRequestAddress & { readonly undone: boolean }) | null;
  /** Tool calls that were denied to agents, each once. */
  readonly denied: readonly string[];
  /** The flag of `resume` that raises the limit which ended the run, such as `max-iterations`; null: none did. */
  readonly raise: string | null;
  /**
   * Sequences of the newest checkpoints that cannot be read. The other fields then come from the checkpoint before
   * them.
   */
  readonly damaged: readonly number[];
}

interface PullRequestAddress {
  readonly number: number;
  readonly url: string;
}

/** `now`: milliseconds since the epoch. */
export async function readStatus(
  store: Pick<Store, "getRun" | "listEffects">,
  handle: RunHandle,
  found: RunWithStatus,
  now: number,
): Promise<RunDetails> {
  const { status } = found;
  const workspace = await handle.workspace();
  const { checkpoint: latest, damaged } = await handle.newestWhole();
  let picture = EMPTY_SUMMARY;
  let lastEntryAt: string | null = null;
  const since: JournalEntry[] = [];
  for await (const entry of handle.log()) {
    picture = reduceSummary(picture, entry);
    if (isWrittenByHolder(entry)) lastEntryAt = entry.at;
    if (latest !== undefined && entry.entry > latest.entry) since.push(entry);
  }
  const planes = latest?.planes;
  const issue = planes?.inputs.issue ?? null;
  const graph = latest === undefined ? null : graphNow(latest, since);
  const pull = pullRequestOf(planes?.context.values["pullRequest"]);
  return {
    ...found,
    stage: picture.stage ?? planes?.position.stage ?? null,
    iteration: picture.stage === null ? (planes?.position.iteration ?? 0) : picture.iteration,
    since: picture.since,
    scores: picture.scores,
    best: planes?.position.best ?? null,
    budget: planes?.position.budget ?? null,
    graph: graph === null ? null : pictureGraph(graph, graphTimes({ status, now, lastEntryAt })),
    loop: planes === undefined ? null : summarizeLoop(planes),
    step: picture.step,
    denied: picture.denied,
    raise: await limitToRaise(found, planes?.context.values ?? {}),
    last: picture.last,
    worktree: workspace?.root ?? null,
    branch: planes?.files?.branch?.replace(/^refs\/heads\//, "") ?? null,
    issue: issue === null ? null : { number: issue.number, title: issue.title },
    pullRequest: pull === null ? null : { ...pull, undone: await isRequestUndone(store, found.run.id, pull) },
    damaged,
  };
}

async function limitToRaise({ run, status }: RunWithStatus, values: JsonObject): Promise<string | null> {
  if (status.kind !== "failed") return null;
  if (status.limit) return "max";
  return run.workflow === "impl" ? (await import("@holdfast/workflows/impl/limits")).reachedLimit(values) : null;
}

/** Workflows store arbitrary values; a workflow that stores a pull request uses this shape. */
export function pullRequestOf(value: Json | undefined): PullRequestAddress | null {
  if (!isJsonObject(value)) return null;
  const { number, url } = value;
  return typeof number === "number" && typeof url === "string" ? { number, url } : null;
}

/** Unknown for custom workflows. */
export function isFinishing({ workflow, latest }: RunSummary): boolean {
  return latest !== null && completingStages(workflow).includes(latest.stage);
}

/** What a journal says about the progress of a run, while the run works and after it stopped. */
interface JournalSummary {
  readonly stage: string | null;
  readonly iteration: number;
  readonly since: string | null;
  readonly scores: readonly { readonly iteration: number; readonly score: number }[];
  /** Started and neither finished nor failed. */
  readonly step: string | null;
  readonly last: { readonly at: string; readonly text: string } | null;
  /** Tool calls that were denied to agents, each once. */
  readonly denied: readonly string[];
}

export const EMPTY_SUMMARY: JournalSummary = {
  stage: null,
  iteration: 0,
  since: null,
  scores: [],
  step: null,
  last: null,
  denied: [],
};

/** Tolerates missing fields: an entry of an older or newer Holdfast may lack them, and reading the status must not fail. */
export function reduceSummary(
  picture: JournalSummary,
  entry: Pick<JournalEntry, "kind" | "at" | "body">,
): JournalSummary {
  const { kind, at, body } = entry;
  const last = (text: string) => ({ at, text });
  switch (kind) {
    case "stage.entered":
      return {
        ...picture,
        stage: textOf(body["stage"]) ?? picture.stage,
        iteration: numberOf(body["iteration"]) ?? picture.iteration,
        since: at,
        step: null,
      };
    case "stage.ended": {
      const score = numberOf(body["score"]);
      const scores = score === null ? picture.scores : [...picture.scores, { iteration: picture.iteration, score }];
      const reason = textOf(body["reason"]) ?? "";
      const what = `${textOf(body["stage"]) ?? picture.stage ?? "stage"} ended with ${textOf(body["event"]) ?? "?"}`;
      return { ...picture, scores, step: null, last: last(reason === "" ? what : `${what}: ${reason}`) };
    }
    case "step.started": {
      const step = textOf(body["step"]);
      return { ...picture, step, last: last(`${step ?? "a step"} began`) };
    }
    case "step.finished": {
      const step = textOf(body["step"]);
      return {
        ...picture,
        step: step === picture.step ? null : picture.step,
        last: last(`${step ?? "a step"} finished`),
        denied: withDenial(picture.denied, body["result"] ?? null),
      };
    }
    case "graph.moved": {
      const events = Array.isArray(body["events"]) ? body["events"] : [];
      return { ...picture, last: last(events.map(graphMoveText).join(", ")) };
    }
    case "step.failed": {
      const step = textOf(body["step"]);
      const why = textOf(body["reason"]) ?? "no reason given";
      return {
        ...picture,
        step: step === picture.step ? null : picture.step,
        last: last(`${step ?? "a step"} failed: ${why}`),
      };
    }
    case "effect.settled":
      return { ...picture, last: last(`${effectOf(body)} ${textOf(body["outcome"]) ?? "settled"}`) };
    case "effect.undoing":
      return { ...picture, last: last(`${effectOf(body)}: the undo was started`) };
    case "effect.undone":
      return { ...picture, last: last(`${effectOf(body)} ${textOf(body["outcome"]) ?? "undone"}`) };
    case "effect.unknown":
      return { ...picture, last: last(`${effectOf(body)}: not known whether it happened`) };
    case "note":
      return { ...picture, last: last(textOf(body["text"]) ?? "") };
    case "run.waiting":
    case "run.paused":
      return { ...picture, step: null, last: last(textOf(body["reason"]) ?? kind.slice("run.".length)) };
    case "run.ended":
      return { ...picture, step: null };
    default:
      return picture;
  }
}

function effectOf(body: JsonObject): string {
  return (textOf(body["key"]) ?? "an effect").split("/").slice(1).join("/");
}

function textOf(value: Json | undefined): string | null {
  return typeof value === "string" ? value : null;
}

function numberOf(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}

function withDenial(denied: JournalSummary["denied"], result: Json): JournalSummary["denied"] {
  if (!isJsonObject(result) || result["cause"] !== "permission_denied") return denied;
  const message = textOf(result["message"]);
  return message === null || denied.includes(message) ? denied : [...denied, message];
}

/**
 * Reads only the graph of a run and the view of it that `status` shows; null if it has none. Runs no git command and
 * skips entries before the newest checkpoint, so that a live view can poll it.
 */
export async function readGraph(
  handle: RunHandle,
  params: { readonly now: number; readonly status: RunStatus },
): Promise<{ readonly graph: Graph; readonly picture: GraphPicture } | null> {
  const { checkpoint } = await handle.newestWhole();
  if (checkpoint === undefined) return null;
  const since = await Array.fromAsync(handle.log({ after: checkpoint.entry }));
  const graph = graphNow(checkpoint, since);
  if (graph === null) return null;
  const lastEntryAt = since.findLast(isWrittenByHolder)?.at ?? checkpoint.createdAt;
  return { graph, picture: pictureGraph(graph, graphTimes({ ...params, lastEntryAt })) };
}

/** Tags and drops need no lease, so other processes may have written them. */
export function isWrittenByHolder({ epoch }: Pick<JournalEntry, "epoch">): boolean {
  return epoch > 0;
}

/** The current graph: that of the newest checkpoint with the later journal entries applied. Must not fail. */
export function graphNow(
  newest: Pick<Checkpoint, "run" | "sequence" | "planes">,
  since: readonly StateEntry[],
): Graph | null {
  const { position } = newest.planes;
  try {
    const entries = since.filter(({ kind }) => GRAPH_KINDS.has(kind));
    const { state } = loadState({ run: newest.run, checkpoint: newest, entries, effects: [], apply: null });
    return state.position.graph;
  } catch (error) {
    // `verify` reports an entry that cannot be read.
    if (error instanceof HoldfastError) return position.graph;
    throw error;
  }
}

/** "checkpoint" is included because graph entries do not count if a newer checkpoint cannot be used. */
const GRAPH_KINDS: ReadonlySet<string> = new Set(["graph.set", "graph.moved", "checkpoint"]);

/** If no process executes the run, none of its nodes runs, regardless of their stored states. */
export function graphTimes(params: {
  readonly status: RunStatus;
  readonly now: number;
  readonly lastEntryAt: string | null;
}): Moment {
  const { status, now, lastEntryAt } = params;
  const live = status.kind === "running";
  const heartbeat = status.kind === "crashed" ? status.holder.heartbeatAt : null;
  const later = heartbeat !== null && (lastEntryAt === null || Date.parse(heartbeat) > Date.parse(lastEntryAt));
  return { live, now, seenAt: later ? heartbeat : lastEntryAt };
}
