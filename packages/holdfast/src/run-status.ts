/** Computes the status of runs from their journals and leases, for `status` and library users. */
import type { Checkpoint, Planes } from "@holdfast/core/checkpoint";
import type { Graph } from "@holdfast/core/graph";
import { graphMoveText } from "@holdfast/core/graph-state";
import { type JournalEntry, NO_WORK, type WorkedTime, addWork } from "@holdfast/core/journal";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Budget, Position } from "@holdfast/core/position";
import type { RunSummary } from "@holdfast/core/run";
import type { RunHandle } from "@holdfast/core/run-handle";
import type { FindingKind } from "@holdfast/core/findings";
import { type RunWithStatus, isRequestUndone } from "@holdfast/core/run-statuses";
import { spendTime } from "@holdfast/core/budget";
import { type StateEntry, loadState } from "@holdfast/core/state";
import type { RunStatus } from "@holdfast/core/status";
import type { Store } from "@holdfast/core/store";
import type { UnpushedFiles } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { type LoopSummary, summarizeLoop } from "@holdfast/workflows/ralph/loop-summary";
import type { Continuer } from "./continuation.ts";
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
  /** Who continues a run that waits; null: only the user does. */
  readonly continues: Continuer | null;
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
  /** The checkpoint to which an ended run was restored since, so that its files and position are not those of its end; null: none. */
  readonly restored: number | null;
  /**
   * The checkpoint from which `resume RUN@N --force` continues a run that has ended: the one that `restore --smart` picks for a failed run,
   * the newest one of an aborted or restored run. null: it has not ended, or none would help.
   */
  readonly restart: number | null;
  /** The flag of `resume` that raises the limit which ended the run, such as `max-iterations`; null: none did. */
  readonly raise: string | null;
  /**
   * Sequences of the newest checkpoints that cannot be read. The other fields then come from the checkpoint before
   * them.
   */
  readonly damaged: readonly number[];
  /** Files of the run that the remote of `files.remote` lacks; null: no remote is configured, or the run has no files here. */
  readonly unpushed: UnpushedFiles | null;
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
): Promise<Omit<RunDetails, "unpushed" | "continues">> {
  const { status } = found;
  const workspace = await handle.workspace();
  const { checkpoint: latest, damaged } = await handle.newestWhole();
  let picture = EMPTY_SUMMARY;
  let lastEntryAt: string | null = null;
  let worked = NO_WORK;
  const since: JournalEntry[] = [];
  for await (const entry of handle.log()) {
    picture = reduceSummary(picture, entry);
    if (latest !== undefined && entry.entry >= latest.entry)
      worked = entry.entry === latest.entry ? addWork(NO_WORK, entry) : addWork(worked, entry);
    if (isWrittenByHolder(entry)) lastEntryAt = entry.at;
    if (latest !== undefined && entry.entry > latest.entry) since.push(entry);
  }
  const planes = latest?.planes;
  const issue = planes?.inputs.issue ?? null;
  const graph = latest === undefined ? null : graphNow(latest, since);
  const raise = await limitToRaise(found, planes?.context.values ?? {});
  return {
    ...found,
    stage: picture.stage ?? planes?.position.stage ?? null,
    iteration: picture.stage === null ? (planes?.position.iteration ?? 0) : picture.iteration,
    since: picture.since,
    scores: picture.scores,
    best: betterOf(planes?.position.best ?? null, picture.best),
    budget:
      planes === undefined ? null : spendTime(planes.position.budget, worked.total + workingOn(worked, status, now)),
    graph: graph === null ? null : pictureGraph(graph, graphTimes({ status, now, lastEntryAt })),
    loop: planes === undefined ? null : summarizeLoop(planes),
    step: picture.step,
    denied: picture.denied,
    raise,
    restored: picture.restored,
    // A higher limit continues it where it is.
    restart: raise === null ? await restartFrom(handle, found, picture) : null,
    last: picture.last,
    worktree: workspace?.root ?? null,
    branch: planes?.files?.branch?.replace(/^refs\/heads\//, "") ?? null,
    issue: issue === null ? null : { number: issue.number, title: issue.title },
    pullRequest: await findRequest(store, found.run.id, planes),
    damaged,
  };
}

/**
 * Milliseconds since the last entry in which its process works: a long call writes none. Up to now, or up to the last heartbeat of a process
 * that died or hangs.
 */
export function workingOn({ last }: Pick<WorkedTime, "last">, status: RunStatus, now: number): number {
  if (status.kind !== "running" && status.kind !== "crashed") return 0;
  if (last === null || last.epoch !== status.holder.epoch) return 0;
  return Math.max(0, (isWorking(status) ? now : Date.parse(status.holder.heartbeatAt)) - last.at);
}

/** Whether a process works on it now, as far as this host knows. */
export function isWorking(status: RunStatus): boolean {
  return status.kind === "running" && !status.suspended && status.silentSince === null;
}

async function limitToRaise({ run, status }: RunWithStatus, values: JsonObject): Promise<string | null> {
  if (status.kind !== "failed") return null;
  if (status.limit) return "max";
  if (run.workflow !== "impl") return null;
  const { reachedLimit } = await import("@holdfast/workflows/impl/limits");
  try {
    return reachedLimit(values);
  } catch (error) {
    // Values that cannot be read have no known limit. `verify` reports damage.
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/** Reads only. A failed run is judged from its whole journal. */
async function restartFrom(
  handle: RunHandle,
  { run, status }: RunWithStatus,
  { restored }: JournalSummary,
): Promise<number | null> {
  const newest = run.latest?.sequence ?? null;
  switch (status.kind) {
    case "failed": {
      const choice = await handle.planRollback();
      return choice.kind === "back" ? choice.chosen : null;
    }
    case "aborted":
      return status.at === null ? null : newest;
    case "done":
      return restored === null ? null : newest;
    default:
      return null;
  }
}

/** The better of two scores; of equal ones the first. */
function betterOf(one: Position["best"], other: Position["best"]): Position["best"] {
  return one === null || (other !== null && other.score > one.score) ? other : one;
}

/**
 * The pull request of a run: the one in its values, or else the newest one that its effects have. After a restore to a checkpoint from before
 * it, the pull request is still there.
 */
export async function findRequest(
  store: Pick<Store, "getRun" | "listEffects">,
  run: string,
  planes: Pick<Planes, "context"> | undefined,
): Promise<RunDetails["pullRequest"]> {
  const found = pullRequestOf(planes?.context.values["pullRequest"]) ?? (await openedRequest(store, run));
  return found === null ? null : { ...found, undone: await isRequestUndone(store, run, found) };
}

export async function openedRequest(
  store: Pick<Store, "listEffects">,
  run: string,
): Promise<PullRequestAddress | null> {
  const effects = (await store.listEffects(run)).filter(({ kind }) => kind === "pull_request");
  const receipts = effects.map(({ state }) => ("receipt" in state ? pullRequestOf(state.receipt) : null));
  return receipts.findLast((receipt) => receipt !== null) ?? null;
}

/** The newest name that the user gave to a checkpoint of a run without an issue or a task; null: there is none. */
export async function savedName(store: Pick<Store, "listCheckpoints">, run: RunSummary): Promise<string | null> {
  if (run.work.kind !== "none" || run.latest === null) return null;
  const newest = await store.listCheckpoints({ run: run.id, limit: NAMED_AMONG });
  return newest.find(({ name }) => name !== null)?.name ?? null;
}

/** Checkpoints that are looked at for a name. */
const NAMED_AMONG = 20;

/** Workflows store arbitrary values; a workflow that stores a pull request uses this shape. */
export function pullRequestOf(value: Json | undefined): PullRequestAddress | null {
  if (!isJsonObject(value)) return null;
  const { number, url } = value;
  return typeof number === "number" && typeof url === "string" ? { number, url } : null;
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
  /** The best score, and the checkpoint that has it, also if a restore went back from it. */
  readonly best: Position["best"];
  /** The score of a stage that just ended, which the next checkpoint has. */
  readonly scored: number | null;
  /** The stage in which the run ended; null: it has not ended. */
  readonly end: string | null;
  /** The target of the restore that finished last. */
  readonly target: number | null;
  /** The checkpoint that an ended run was restored to; null: it is at its end. */
  readonly restored: number | null;
}

export const EMPTY_SUMMARY: JournalSummary = {
  stage: null,
  iteration: 0,
  since: null,
  scores: [],
  step: null,
  last: null,
  denied: [],
  best: null,
  scored: null,
  end: null,
  target: null,
  restored: null,
};

/** Findings about the folders of the machine that resumed: they mean nothing where the status is read. */
const OF_MACHINE: ReadonlySet<string> = new Set([
  "branch_missing",
  "worktree_missing",
  "worktree_moved",
  "worktree_outdated",
] satisfies readonly FindingKind[]);

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
      return { ...picture, scores, scored: score, step: null, last: last(reason === "" ? what : `${what}: ${reason}`) };
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
      if (OF_MACHINE.has(textOf(body["finding"]) ?? "")) return picture;
      return { ...picture, last: last(textOf(body["text"]) ?? "") };
    case "run.waiting":
    case "run.paused":
      return { ...picture, step: null, last: last(textOf(body["reason"]) ?? kind.slice("run.".length)) };
    case "run.ended":
      return { ...picture, step: null, end: picture.stage };
    case "run.reopened":
      return { ...picture, end: null, restored: null };
    case "restore.finished": {
      const target = textOf(body["target"]);
      return { ...picture, target: Number(/@(\d+)$/.exec(target ?? "")?.[1] ?? 0) || null };
    }
    case "checkpoint":
      return afterCheckpoint(picture, { at, body });
    default:
      return picture;
  }
}

/** A restore moves the run to the stage of its target, without an entry of that stage. */
function afterCheckpoint(picture: JournalSummary, { at, body }: Pick<JournalEntry, "at" | "body">): JournalSummary {
  const sequence = numberOf(body["sequence"]);
  const { scored } = picture;
  const saved =
    scored === null || sequence === null
      ? picture
      : { ...picture, scored: null, best: betterOf(picture.best, { sequence, score: scored }) };
  const stage = textOf(body["stage"]);
  if (body["trigger"] !== "restore" || stage === null) return saved;
  const iteration = numberOf(body["iteration"]) ?? picture.iteration;
  const restored = picture.end === null || picture.end === stage ? null : picture.target;
  const moved = stage !== picture.stage || iteration !== picture.iteration;
  return { ...saved, stage, iteration, restored, ...(moved ? { since: at, step: null } : {}) };
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
