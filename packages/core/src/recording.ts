// Reads a run's journal as the record for a replay, and finds where a replay or another run diverges from it.

import { unknownPart } from "./budget.ts";
import type { FilesPlane, Planes } from "./checkpoint.ts";
import { type JournalEntry, numberOf, textOf } from "./journal.ts";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "./json.ts";
import type { Amounts } from "./position.ts";
import { type AskedAgent, type RecordedAgent, type RecordedLookup, parseRecordedCall } from "./recorded-calls.ts";
import { capture } from "./values.ts";
import { diffJson } from "./diff-json.ts";
import { withoutNonces } from "./workflow.ts";

/** A run's journal in the form that a replay needs: the result of each step, in the order in which it was written. */
export interface Recording {
  readonly run: string;
  readonly steps: readonly RecordedStep[];
  /** In the order in which they were written. */
  readonly costs: readonly RecordedCost[];
  readonly checkpoints: readonly RecordedCheckpoint[];
  /** Newest try of each agent step, by `callKey`. */
  readonly agents: ReadonlyMap<string, RecordedAgent & { readonly entry: number }>;
  readonly lookups: readonly (RecordedLookup & { readonly entry: number })[];
  /** Clock readings, in order. */
  readonly readings: readonly { readonly entry: number; readonly stageAttempt: number; readonly value: number }[];
  /** Stage attempts that ended, and the entry of each end. */
  readonly ended: ReadonlyMap<number, number>;
  /** Stage attempts in the order in which they were entered. */
  readonly entered: readonly { readonly entry: number; readonly stageAttempt: number }[];
  /** Entries at which another process acquired the run's lease. */
  readonly resumedAt: readonly number[];
  readonly calls: number;
  readonly last: number;
}

export interface RecordedStep {
  readonly entry: number;
  readonly at: string;
  readonly stageAttempt: number;
  readonly step: string;
  readonly came:
    | { readonly kind: "finished"; readonly result: Json; readonly recorded: boolean }
    | { readonly kind: "failed"; readonly reason: string; readonly code: string | null }
    /** A rule of the error policy ended the run. */
    | { readonly kind: "aborted"; readonly reason: string };
  /** Newest try of an agent; null: the step is not an agent call, or the call is not recorded. */
  readonly call: (RecordedAgent & { readonly entry: number }) | null;
  /** Sequence of the checkpoint in the same commit. */
  readonly checkpoint: number | null;
}

/** The cost of one try of a step: one that ended it, failed, was interrupted, or was lost with its process. */
export interface RecordedCost {
  readonly entry: number;
  readonly stageAttempt: number;
  readonly step: string;
  readonly amounts: Amounts;
  /** Held for what the call did not report. */
  readonly held: Amounts | null;
}

export interface RecordedCheckpoint {
  readonly sequence: number;
  readonly entry: number;
  readonly at: string;
  readonly trigger: string;
  readonly name: string | null;
  readonly stage: string;
  readonly iteration: number;
  /** Its commit ended a step or a stage: the workflow itself took the checkpoint. */
  readonly isOwn: boolean;
  /** A run that had ended continues from this checkpoint. */
  readonly isReopening: boolean;
}

export function callKey(stageAttempt: number, step: string): string {
  return `${stageAttempt}/${step}`;
}

/** Entry at which the last process resumed this stage attempt; 0: the process that entered it also ended it. */
export function lastResumed({ resumedAt, entered, ended }: Recording, stageAttempt: number): number {
  const at = entered.findIndex((one) => one.stageAttempt === stageAttempt);
  const from = entered[at]?.entry ?? 0;
  // A process that holds the lease later (to tag the run, to restore it) has nothing to do with this stage attempt.
  const to = ended.get(stageAttempt) ?? entered[at + 1]?.entry ?? Number.POSITIVE_INFINITY;
  return resumedAt.findLast((entry) => entry > from && entry < to) ?? 0;
}

export function readRecording(run: string, entries: readonly JournalEntry[]): Recording {
  const steps: RecordedStep[] = [];
  const checkpoints: RecordedCheckpoint[] = [];
  const agents = new Map<string, RecordedAgent & { readonly entry: number }>();
  const lookups: (RecordedLookup & { readonly entry: number })[] = [];
  const readings: { readonly entry: number; readonly stageAttempt: number; readonly value: number }[] = [];
  const ended = new Map<number, number>();
  const entered: { readonly entry: number; readonly stageAttempt: number }[] = [];
  const resumedAt: number[] = [];
  const costs: RecordedCost[] = [];
  /** What was reserved for steps in flight. */
  const estimates = new Map<string, Amounts | null>();
  /** Steps in flight that may change files. */
  const writing = new Set<string>();
  let calls = 0;
  /** What ended in the preceding entries: a checkpoint after them may belong to the same commit. */
  let behind: Behind = NOTHING_BEHIND;
  for (const { entry, kind, at, body } of entries) {
    const stageAttempt = numberOf(body, "stageAttempt");
    const step = textOf(body, "step");
    const key = callKey(stageAttempt, step);
    const amounts = PAID.has(kind) ? amountsOf(body["spent"]) : null;
    if (amounts !== null) {
      const estimate = estimates.get(key) ?? null;
      const held = kind === "step.lost" || estimate === null ? amountsOf(body["held"]) : unknownPart(estimate, amounts);
      estimates.delete(key);
      costs.push({ entry, stageAttempt, step, amounts, held });
    }
    switch (kind) {
      case "lease.taken":
        resumedAt.push(entry);
        break;
      case "call.recorded": {
        const call = parseRecordedCall({ run, entry, body });
        calls += call.kind === "clock" ? 0 : 1;
        if (call.kind === "clock")
          for (const value of call.values) readings.push({ entry, stageAttempt: call.stageAttempt, value });
        if (call.kind === "agent") agents.set(callKey(call.stageAttempt, call.step), { ...call, entry });
        if (call.kind === "forge") lookups.push({ ...call, entry });
        break;
      }
      case "step.started":
        estimates.set(key, amountsOf(body["estimate"]));
        if (body["files"] === true) writing.add(key);
        else writing.delete(key);
        break;
      case "step.failed":
      case "step.finished": {
        const came = kind === "step.failed" ? failureOf(body) : resultOf(body);
        // The call was tried again, either inside the call or after a resume.
        if (came === null) break;
        behind = { ...behind, step: steps.length, files: writing.delete(key) };
        steps.push({ entry, at, stageAttempt, step, came, call: agents.get(key) ?? null, checkpoint: null });
        break;
      }
      case "stage.ended":
        ended.set(stageAttempt, entry);
        behind = { ...behind, stage: true };
        break;
      case "stage.entered":
        entered.push({ entry, stageAttempt });
        behind = { ...behind, stage: true };
        break;
      case "run.reopened":
        behind = { ...behind, reopened: true };
        break;
      case "restore.finished":
        behind = { ...behind, restored: true };
        break;
      case "checkpoint": {
        const sequence = numberOf(body, "sequence");
        const name = typeof body["name"] === "string" ? body["name"] : null;
        const trigger = textOf(body, "trigger");
        const found = behind.step === null ? undefined : steps[behind.step];
        // A step that changes files ends in the commit of a checkpoint with its name. A step that restores files ends in the commit of the
        // restore.
        const isOfStep =
          found !== undefined && ((behind.files && name === found.step) || (behind.restored && trigger === "restore"));
        if (isOfStep && behind.step !== null) steps[behind.step] = { ...found, checkpoint: sequence };
        const { stage, iteration } = { stage: textOf(body, "stage"), iteration: numberOf(body, "iteration") };
        const isReopening = behind.reopened;
        const isOwn = isOfStep || (behind.stage && !isReopening);
        checkpoints.push({ sequence, entry, at, trigger, name, stage, iteration, isOwn, isReopening });
        break;
      }
      default:
    }
    if (!TOGETHER.has(kind)) behind = NOTHING_BEHIND;
  }
  return {
    run,
    steps,
    costs,
    checkpoints,
    agents,
    lookups,
    readings,
    ended,
    entered,
    resumedAt,
    calls,
    last: entries.at(-1)?.entry ?? 0,
  };
}

/** Null: the call continued. A failed try contains the error policy's verdict; a failure without a verdict was thrown into the stage. */
function failureOf(body: JsonObject): RecordedStep["came"] | null {
  const { verdict, errors } = body;
  if (isJsonObject(errors) && typeof errors["abort"] === "string") return { kind: "aborted", reason: errors["abort"] };
  if (isJsonObject(verdict)) return null;
  return { kind: "failed", reason: textOf(body, "reason"), code: textOf(body, "code") || null };
}

function resultOf(body: JsonObject): RecordedStep["came"] {
  return { kind: "finished", result: body["result"] ?? null, recorded: body["recorded"] === true };
}

/** Kinds of entries that may have a cost. */
const PAID: ReadonlySet<string> = new Set(["step.finished", "step.failed", "step.interrupted", "step.lost"]);

interface Behind {
  /** Index of the step in `steps`. */
  readonly step: number | null;
  readonly files: boolean;
  readonly stage: boolean;
  readonly restored: boolean;
  readonly reopened: boolean;
}

const NOTHING_BEHIND: Behind = { step: null, files: false, stage: false, restored: false, reopened: false };

/** Kinds of entries that may come between the end of a step and the checkpoint of the same commit. */
const TOGETHER: ReadonlySet<string> = new Set([
  "step.finished",
  "step.failed",
  "stage.ended",
  "stage.entered",
  "run.ended",
  "run.reopened",
  "restore.finished",
  "call.recorded",
]);

function amountsOf(value: Json | undefined): Amounts | null {
  if (!isJsonObject(value)) return null;
  const { tokens, microUsd, milliseconds, unpriced, uncounted } = value;
  if (typeof tokens !== "number" || typeof microUsd !== "number" || typeof milliseconds !== "number") return null;
  return {
    tokens,
    microUsd,
    milliseconds,
    ...(typeof unpriced === "number" ? { unpriced } : {}),
    ...(typeof uncounted === "number" ? { uncounted } : {}),
  };
}

/** The first point at which a replay differs from the record. */
export interface Divergence {
  readonly where: {
    readonly stage: string;
    readonly iteration: number;
    readonly stageAttempt: number;
    /** Null: it does not belong to one step. */
    readonly step: string | null;
    /** Sequence of the checkpoint that was compared; null: there is none at that point. */
    readonly checkpoint: number | null;
    /** Entry in the recorded journal; null: there is none. */
    readonly entry: number | null;
  };
  readonly what:
    | "call" // an agent is asked for something else
    | "checkpoint" // a checkpoint differs
    | "event" // the workflow records another event
    | "step" // a step is requested that the record does not have
    | "missing" // a recorded step is not requested
    | "lookup" // the forge gets a query that the record does not have
    | "end" // the run ends differently
    | "environment" // the environment of agents differs
    | "files"; // the worktree differs from the newest checkpoint
  /** Path of the value that was compared: `/position/feedback`, `prompt`, `$PATH`. */
  readonly field: string;
  readonly expected: Json;
  readonly actual: Json;
}

/** Formats a divergence as one line. Long values are cut around their first difference. */
export function divergenceText({ where, what, field, expected, actual }: Divergence, width = 200): string {
  const [was, is] = cutValues(expected, actual, width);
  return `${placeText(where)}: ${WORDS[what]} ${field}: recorded ${was}, now ${is}`;
}

/** "iteration 2, stage verify, step check, entry 41". */
export function placeText({ iteration, stage, step, checkpoint, entry }: Divergence["where"]): string {
  return [
    iteration === 0 ? null : `iteration ${iteration}`,
    `stage ${stage}`,
    step === null ? null : `step ${step}`,
    checkpoint === null ? null : `checkpoint ${checkpoint}`,
    entry === null ? null : `entry ${entry}`,
  ]
    .filter((part) => part !== null)
    .join(", ");
}

const WORDS: Readonly<Record<Divergence["what"], string>> = {
  call: "the agent's",
  checkpoint: "the checkpoint's",
  event: "the event's",
  step: "the step",
  missing: "the step",
  lookup: "the question to the forge",
  end: "the run's",
  environment: "the environment's",
  files: "the worktree's",
};

/** Cuts both values from a little before the first character that differs, so that the reader sees the difference. */
export function cutValues(expected: Json, actual: Json, width: number): readonly [string, string] {
  const [a, b] = [jsonText(expected), jsonText(actual)];
  if (a.length <= width && b.length <= width) return [a, b];
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same += 1;
  const from = Math.max(0, same - Math.floor(width / 4));
  const cut = (text: string): string => {
    const part = text.slice(from, from + width);
    return `${from > 0 ? "…" : ""}${part}${from + width < text.length ? "…" : ""}`.toWellFormed();
  };
  return [cut(a), cut(b)];
}

function jsonText(value: Json): string {
  return value === null ? "nothing" : JSON.stringify(value);
}

/** Compares an agent request with the recorded one. The prompt comes last, because any other difference explains it. */
export function compareAsked(recorded: AskedAgent, asked: AskedAgent): FirstChange | null {
  const { prompt: then, ...before } = recorded;
  const { prompt: now, ...after } = asked;
  const change = firstChange(capture(before), capture(after));
  if (change !== null) return { ...change, field: change.field.replace(/^\//, "") };
  return withoutNonces(then) === withoutNonces(now) ? null : { field: "prompt", expected: then, actual: now };
}

/**
 * Compares a replayed checkpoint with the recorded one: position, files, values, conversation, inputs, settings and imported data. It
 * ignores what differs between processes and folders: steps in flight, prompt nonces, the worktree's path, snapshot dates and journal
 * numbers.
 */
export function comparePlanes(recorded: Planes, played: Planes): FirstChange | null {
  return firstChange(comparable(recorded), comparable(played));
}

function comparable(planes: Planes): Json {
  const { context, conversation, inputs, config, extensions } = planes;
  const { stageAttempt, graph, fence: _fence, ...position } = planes.position;
  return capture({
    position,
    graph: graph === null ? null : withoutKeys(capture(graph), TIMES),
    stageAttempt: { number: stageAttempt.number, steps: stageAttempt.steps },
    values: context.values,
    tokens: context.tokens,
    files: filesOf(planes.files),
    conversation,
    inputs,
    config,
    extensions,
  });
}

/** Keys of a graph node that hold times. */
const TIMES: ReadonlySet<string> = new Set(["startedAt", "endedAt", "approvedAt"]);

function filesOf(files: FilesPlane | null): Json {
  if (files === null) return null;
  const { tree, head, branch, artifactCount } = files;
  const artifacts = files.artifacts.map(({ path, digest, status }) => ({ path, digest, status }));
  return { tree, head, branch, artifactCount, artifacts };
}

/** A result of a run that does not depend on clocks, ids or folders: an agent's answer, a check's verdict, the end of a stage. */
export interface Outcome {
  readonly entry: number;
  readonly stageAttempt: number;
  readonly stage: string;
  readonly iteration: number;
  /** Null: the end of the stage itself. */
  readonly step: string | null;
  readonly kind: "agent" | "check" | "stage";
  readonly came: JsonObject;
  /** Tree of the files at that moment; null: unknown. */
  readonly tree: string | null;
}

export interface RunsCompared {
  /** How many outcomes, from the beginning, are equal in both runs. */
  readonly same: number;
  readonly step: FirstDivergence | null;
  readonly files: FirstDivergence | null;
  readonly verdict: FirstDivergence | null;
}

/** Where two runs diverge: the outcome of each (null: it has no more), and the field. */
export interface FirstDivergence extends FirstChange {
  readonly a: Outcome | null;
  readonly b: Outcome | null;
}

/**
 * Finds the first divergence of each sort. Swapping the runs swaps the sides of the answer and nothing else. `ids` are the ids of both
 * runs: agents may write the run's id, which always differs.
 */
export function compareRuns(a: readonly Outcome[], b: readonly Outcome[], ids: readonly string[] = []): RunsCompared {
  const step = firstParting(a, b, ({ stage, iteration, step: name, came }) => ({
    stage,
    iteration,
    step: name,
    came: comparableRun(came, ids),
  }));
  const files = firstParting(a, b, ({ tree }) => tree);
  const isVerdict = ({ kind }: Outcome): boolean => kind !== "agent";
  const verdict = firstParting(a.filter(isVerdict), b.filter(isVerdict), ({ came, stage }) => ({ stage, came }));
  return { same: step === null ? a.length : sharedBefore(a, b, step), step, files, verdict };
}

/** Removes what differs between any two runs: ids with the number of the stage attempt, nonces, commits and times. */
function comparableRun(value: Json, ids: readonly string[]): Json {
  if (typeof value === "string") {
    const named = ids
      .toSorted((one, other) => other.length - one.length)
      .reduce((text, id) => text.replaceAll(nameOf(id), "<run>"), withoutNonces(value));
    return named.replaceAll(TIME, "<time>").replaceAll(COMMIT, "<commit>");
  }
  if (isJsonArray(value)) return value.map((part) => comparableRun(part, ids));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, comparableRun(part, ids)]));
}

/** Ids consist of lower-case letters, digits and hyphens, so they need no escaping in a pattern. */
function nameOf(id: string): RegExp {
  return new RegExp(`(?<![a-z0-9-])${id}(?![a-z0-9-])(?:\\.\\d+)?`, "g");
}

const TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?/g;
const COMMIT = /\b[0-9a-f]{40}\b/g;

function firstParting(
  a: readonly Outcome[],
  b: readonly Outcome[],
  of: (outcome: Outcome) => Json,
): FirstDivergence | null {
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const [left, right] = [a[at] ?? null, b[at] ?? null];
    if (left === null || right === null)
      return { a: left, b: right, field: "", expected: left && of(left), actual: right && of(right) };
    const change = firstChange(of(left), of(right));
    if (change !== null) return { a: left, b: right, ...change };
  }
  return null;
}

function sharedBefore(a: readonly Outcome[], b: readonly Outcome[], { a: left, b: right }: FirstDivergence): number {
  return left === null ? (right === null ? 0 : b.indexOf(right)) : a.indexOf(left);
}

/** Reads the outcomes from a journal, oldest entry first. */
export function readOutcomes(entries: Iterable<Pick<JournalEntry, "entry" | "kind" | "body">>): readonly Outcome[] {
  const outcomes: Outcome[] = [];
  const agents = new Set<string>();
  let at = { stage: "", iteration: 0 };
  let waiting: number[] = [];
  for (const { entry, kind, body } of entries) {
    const stageAttempt = numberOf(body, "stageAttempt");
    const step = textOf(body, "step");
    const push = (outcome: Omit<Outcome, "entry" | "stageAttempt" | "stage" | "iteration" | "tree">): void => {
      waiting.push(outcomes.length);
      outcomes.push({ entry, stageAttempt, ...at, tree: null, ...outcome });
    };
    switch (kind) {
      case "stage.entered":
        at = { stage: textOf(body, "stage"), iteration: numberOf(body, "iteration") };
        break;
      case "step.started":
        if (isJsonObject(body["estimate"])) agents.add(`${stageAttempt}/${step}`);
        break;
      case "step.finished": {
        const result = body["result"] ?? null;
        const came = agents.has(`${stageAttempt}/${step}`) ? answerOf(result) : verdictOf(result);
        if (came !== null) push({ step, kind: agents.has(`${stageAttempt}/${step}`) ? "agent" : "check", came });
        break;
      }
      case "stage.ended":
        push({ step: null, kind: "stage", came: { event: textOf(body, "event"), score: body["score"] ?? null } });
        break;
      case "checkpoint": {
        const tree = typeof body["tree"] === "string" ? body["tree"] : null;
        for (const index of waiting) {
          const found = outcomes[index];
          if (found !== undefined) outcomes[index] = { ...found, tree };
        }
        waiting = [];
        break;
      }
      default:
    }
  }
  return outcomes;
}

function answerOf(result: Json): JsonObject | null {
  if (!isJsonObject(result)) return null;
  const { outcome = null, cause = null, text = null, changed = null, collected = null } = result;
  return { outcome, cause, text, changed, collected };
}

/** The verdict of a step whose result has the form of a check; null: it does not. */
function verdictOf(result: Json): JsonObject | null {
  if (!isJsonObject(result)) return null;
  const { kind, code, pass } = result;
  if (typeof pass === "boolean") return { pass };
  return typeof kind === "string" && (typeof code === "number" || code === null) ? { kind, code } : null;
}

interface FirstChange {
  /** JSON pointer. */
  readonly field: string;
  readonly expected: Json;
  readonly actual: Json;
}

/** The first difference of two values, by the order of their keys; null: they are equal. */
export function firstChange(expected: Json, actual: Json): FirstChange | null {
  const [change] = diffJson({ from: expected, to: actual, limit: 1 }).changes;
  if (change === undefined) return null;
  return { field: change.path, expected: change.from ?? null, actual: change.to ?? null };
}

/** Removes the named keys at any depth. */
export function withoutKeys(value: Json, keys: ReadonlySet<string>): Json {
  if (isJsonArray(value)) return value.map((part) => withoutKeys(part, keys));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !keys.has(key))
      .map(([key, part]) => [key, withoutKeys(part, keys)]),
  );
}
