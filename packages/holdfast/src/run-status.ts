/** Computes the status of runs from their journals and leases, for `status`, `list`, `loops` and library users. */
import type { CoreAdapters } from "@holdfast/core/adapters";
import type { Checkpoint } from "@holdfast/core/checkpoint";
import type { Graph } from "@holdfast/core/graph";
import { graphMoveText } from "@holdfast/core/graph-state";
import type { JournalEntry } from "@holdfast/core/journal";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import { type Lease, type OwnerLiveness, PRIORITIES, inTurn, priorityKey, readPriority } from "@holdfast/core/lease";
import type { Budget, Position } from "@holdfast/core/position";
import { type RunSummary, type WaitingFor, isEnded } from "@holdfast/core/run";
import type { RunHandle } from "@holdfast/core/run-handle";
import type { Signal } from "@holdfast/core/signal-files";
import { type StateEntry, loadState } from "@holdfast/core/state";
import { type RunStatus, type StatusFacts, isResumable, isRunning, statusOf } from "@holdfast/core/status";
import { HoldfastError } from "@holdfast/platform/error";
import { CRUNCH_SHAPE } from "@holdfast/workflows/crunch/options";
import { type LoopSummary, summarizeLoop } from "@holdfast/workflows/ralph/loop-summary";
import { type GraphPicture, type Moment, pictureGraph } from "./graph-view.ts";

/** The status of a run, computed from its journal and its lease, never from a stored status field. */
export interface RunDetails {
  readonly run: RunSummary;
  readonly condition: Condition;
  /**
   * The status as users see it, with further facts: whether the holder is silent, pending signals, position in the
   * queue.
   */
  readonly standing: RunStatus;
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
  /** The pull request that the run opened or adopted, according to its newest checkpoint. */
  readonly pullRequest: { readonly number: number; readonly url: string } | null;
  /** Tool calls that were denied to agents, each once. */
  readonly denied: readonly string[];
  /**
   * Sequences of the newest checkpoints that cannot be read. The other fields then come from the checkpoint before
   * them.
   */
  readonly damaged: readonly number[];
}

/** `now`: milliseconds since the epoch. */
export async function readStatus(
  handle: RunHandle,
  params: { readonly now: number; readonly standing: RunStatus },
): Promise<RunDetails> {
  const { now, standing } = params;
  const [run, holder, workspace] = await Promise.all([handle.summary(), handle.holder(), handle.workspace()]);
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
    graph: graph === null ? null : pictureGraph(graph, graphTimes({ condition, now, lastEntryAt })),
    loop: planes === undefined ? null : summarizeLoop(planes),
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

/** Workflows store arbitrary values; a workflow that stores a pull request uses this shape. */
export function pullRequestOf(value: Json | undefined): RunDetails["pullRequest"] {
  if (!isJsonObject(value)) return null;
  const { number, url } = value;
  return typeof number === "number" && typeof url === "string" ? { number, url } : null;
}

/**
 * An end takes precedence over any lease, and a live holder over a wait. A waiting run keeps its reason also if no
 * process holds it.
 */
export function conditionOf(params: {
  readonly run: Pick<RunSummary, "state">;
  readonly holder: { readonly lease: Lease; readonly alive: OwnerLiveness } | undefined;
  readonly question: Question | null;
  /** Whether a workflow has entered a stage. */
  readonly worked: boolean;
}): Condition {
  const { state } = params.run;
  const { holder } = params;
  if (state.kind === "done") return { kind: "done", at: state.at };
  if (state.kind === "failed" || state.kind === "aborted")
    return { kind: "failed", at: state.at, reason: state.reason };
  if (holder?.alive === "alive") return { kind: "running", lease: holder.lease };
  if (state.kind === "waiting")
    return {
      kind: "waiting",
      for: state.for,
      reason: state.reason,
      until: state.until,
      question: state.for === "you" ? params.question : null,
    };
  if (holder?.alive === "unknown") return { kind: "held", lease: holder.lease };
  if (!params.worked) return { kind: "manual" };
  return holder === undefined ? { kind: "stopped" } : { kind: "crashed", lease: holder.lease };
}

export type Condition =
  /** A live process on this host executes the run. */
  | { readonly kind: "running"; readonly lease: Lease }
  /** The holder is on another host, so this host cannot check whether it is alive. */
  | { readonly kind: "held"; readonly lease: Lease }
  | {
      readonly kind: "waiting";
      readonly for: WaitingFor;
      readonly reason: string;
      readonly until: string | null;
      readonly question: Question | null;
    }
  /** Its process exited without releasing its lease. `resume` continues the run. */
  | { readonly kind: "crashed"; readonly lease: Lease }
  /** Its process released the lease before the end (Ctrl+C, stop). `resume` continues the run. */
  | { readonly kind: "stopped" }
  /** Saved by hand or by a user's program: no workflow executes it. */
  | { readonly kind: "manual" }
  | { readonly kind: "done"; readonly at: string }
  | { readonly kind: "failed"; readonly at: string; readonly reason: string };

/** A run with its status, computed from its journal and its lease at this moment. */
export interface RunWithStatus {
  readonly run: RunSummary;
  readonly standing: RunStatus;
  /** Whether `resume` would continue the run now. */
  readonly resumable: boolean;
  readonly priority: number;
  /** The holder of the lease; null: the run is not held. */
  readonly holder: (Pick<Lease["owner"], "label" | "pid" | "host"> & Pick<Lease, "takenAt" | "heartbeatAt">) | null;
  /** Position in the queue for a slot, from 1; null: the run is not queued. */
  readonly turn: number | null;
  readonly order: Signal | null;
}

export interface LoopOverview {
  /** When reading began. */
  readonly at: string;
  /** How many may run at once; null: no limit. */
  readonly limit: number | null;
  readonly atWork: number;
  /**
   * Running loops first, then queued ones in queue order, then the others. Newest first within each group, except in
   * the queue.
   */
  readonly loops: readonly RunWithStatus[];
}

export async function readLoops(
  parts: CoreAdapters,
  params: { readonly runs: () => Promise<readonly RunSummary[]>; readonly limit: number | null },
): Promise<LoopOverview> {
  const at = new Date(parts.clock.now()).toISOString();
  const loops = await readStatuses(parts, params.runs);
  return {
    at,
    limit: params.limit,
    atWork: loops.filter(({ standing }) => isRunning(standing)).length,
    loops: loops.toSorted((a, b) => rank(a) - rank(b) || (a.turn ?? 0) - (b.turn ?? 0)),
  };
}

/**
 * Keeps the given order. Reads the runs after their leases: a run that ends in between then counts as ended, not as
 * crashed.
 */
export async function readStatuses(
  parts: CoreAdapters,
  read: () => Promise<readonly RunSummary[]>,
): Promise<readonly RunWithStatus[]> {
  const holders = await readHolders(parts);
  const runs = await read();
  const now = parts.clock.now();
  const stood = await Promise.all(runs.map((run) => standOne(parts, run, holders.get(run.id) ?? null, now)));
  const queue = stood
    .flatMap((one) => {
      const lease = holders.get(one.run.id)?.lease;
      return one.standing.kind === "queued" && lease !== undefined ? [{ lease, priority: one.priority }] : [];
    })
    .toSorted(inTurn)
    .map(({ lease }) => lease.run);
  return stood.map((one) => ({ ...one, turn: one.standing.kind === "queued" ? queue.indexOf(one.run.id) + 1 : null }));
}

type Holder = NonNullable<StatusFacts["holder"]>;

/**
 * A holder that released its lease and exited between the two reads did not crash. So the leases must be equal before
 * and after.
 */
async function readHolders(parts: CoreAdapters): Promise<ReadonlyMap<string, Holder>> {
  let leases = await parts.store.listLeases();
  for (;;) {
    const holders = new Map(leases.map((lease) => [lease.run, holderOf(parts, lease)]));
    const after = await parts.store.listLeases();
    if (signatureOf(leases) === signatureOf(after)) return holders;
    leases = after;
  }
}

function signatureOf(leases: readonly Lease[]): string {
  return leases.map(({ run, epoch }) => `${run} ${epoch}`).join("\n");
}

async function standOne(
  parts: CoreAdapters,
  run: RunSummary,
  holder: Holder | null,
  now: number,
): Promise<RunWithStatus> {
  const ended = isEnded(run.state);
  const order = ended ? null : ((await parts.requests?.orderFor(run.id)) ?? null);
  const standing = statusOf({
    state: run.state,
    manual: isManual(run),
    stage: run.latest?.stage ?? null,
    completing: completingStages(run.workflow),
    holder,
    order,
    now,
  });
  const kept = await parts.store.getMeta(priorityKey(run.id));
  return {
    run,
    standing,
    resumable: isResumable(standing),
    priority: kept === undefined ? PRIORITIES.normal : readPriority(kept),
    holder: holder === null ? null : briefOf(holder.lease),
    turn: null,
    order,
  };
}

function holderOf(parts: CoreAdapters, lease: Lease): Holder {
  const liveness = parts.liveness(lease.owner);
  return { lease, liveness, suspended: liveness === "alive" && parts.suspended?.(lease.owner) === true };
}

function isManual({ workflow, latest }: RunSummary): boolean {
  return workflow === "manual" || latest?.stage === "none";
}

function briefOf({ owner, takenAt, heartbeatAt }: Lease): NonNullable<RunWithStatus["holder"]> {
  const { label, pid, host } = owner;
  return { label, pid, host, takenAt, heartbeatAt };
}

function rank({ standing }: RunWithStatus): number {
  if (isRunning(standing) || standing.kind === "elsewhere") return 0;
  if (standing.kind === "queued") return 1;
  return ENDED.has(standing.kind) ? 3 : 2;
}

const ENDED: ReadonlySet<RunStatus["kind"]> = new Set(["completed", "failed", "aborted", "limit_reached"]);

/** Stages in which the work is finished and only the end is left; unknown for custom workflows. */
function completingStages(workflow: string): ReadonlySet<string> {
  return STAGES[workflow] ?? NONE;
}

const NONE: ReadonlySet<string> = new Set();
const STAGES: Readonly<Record<string, ReadonlySet<string>>> = {
  impl: new Set(["done", "fatal"]),
  crunch: new Set(Object.keys(CRUNCH_SHAPE.ends)),
  ralph: new Set(["publish", "done", "limit", "fatal"]),
};

/** What a journal says about the progress of a run, while the run works and after it stopped. */
interface JournalSummary {
  readonly stage: string | null;
  readonly iteration: number;
  readonly since: string | null;
  readonly scores: readonly { readonly iteration: number; readonly score: number }[];
  /** Started and neither finished nor failed. */
  readonly step: string | null;
  readonly last: { readonly at: string; readonly text: string } | null;
  /** The question that the run waits to have answered. */
  readonly question: Question | null;
  readonly endReason: string | null;
  /** Tool calls that were denied to agents, each once. */
  readonly denied: readonly string[];
}

export interface Question {
  readonly name: string;
  readonly question: string;
  readonly options: readonly string[];
}

export const EMPTY_SUMMARY: JournalSummary = {
  stage: null,
  iteration: 0,
  since: null,
  scores: [],
  step: null,
  last: null,
  question: null,
  endReason: null,
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
    case "effect.unknown":
      return { ...picture, last: last(`${effectOf(body)}: not known whether it happened`) };
    case "note":
      return { ...picture, last: last(textOf(body["text"]) ?? "") };
    case "run.waiting":
      return {
        ...picture,
        step: null,
        question: questionOf(body["decision"]),
        last: last(textOf(body["reason"]) ?? "waiting"),
      };
    case "run.continued":
    case "run.reopened":
      return { ...picture, question: null, endReason: null };
    case "run.ended":
      return { ...picture, step: null, question: null, endReason: textOf(body["reason"]) };
    default:
      return picture;
  }
}

function effectOf(body: JsonObject): string {
  return (textOf(body["key"]) ?? "an effect").split("/").slice(1).join("/");
}

function questionOf(value: Json | undefined): Question | null {
  if (typeof value !== "object" || value === null || Array.isArray(value) || !isObject(value)) return null;
  const name = textOf(value["name"]);
  const question = textOf(value["question"]);
  const options = Array.isArray(value["options"])
    ? value["options"].filter((option) => typeof option === "string")
    : [];
  return name === null || question === null ? null : { name, question, options };
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
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
  now: number,
): Promise<{ readonly graph: Graph; readonly picture: GraphPicture } | null> {
  const [run, holder, { checkpoint }] = await Promise.all([handle.summary(), handle.holder(), handle.newestWhole()]);
  if (checkpoint === undefined) return null;
  const since = await Array.fromAsync(handle.log({ after: checkpoint.entry }));
  const graph = graphNow(checkpoint, since);
  if (graph === null) return null;
  const lastEntryAt = since.findLast(isWrittenByHolder)?.at ?? checkpoint.createdAt;
  const condition = conditionOf({ run, holder, question: null, worked: true });
  return { graph, picture: pictureGraph(graph, graphTimes({ condition, now, lastEntryAt })) };
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
  readonly condition: Condition;
  readonly now: number;
  readonly lastEntryAt: string | null;
}): Moment {
  const { condition, now, lastEntryAt } = params;
  const live = condition.kind === "running" || condition.kind === "held";
  const heartbeat = condition.kind === "crashed" ? condition.lease.heartbeatAt : null;
  const later = heartbeat !== null && (lastEntryAt === null || Date.parse(heartbeat) > Date.parse(lastEntryAt));
  return { live, now, seenAt: later ? heartbeat : lastEntryAt };
}
