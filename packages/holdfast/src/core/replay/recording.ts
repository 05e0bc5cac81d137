import type { JournalEntry } from "../journal/journal.ts";
import { numberOf, textOf } from "../journal/journal-field.ts";
import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json.ts";
import type { Amounts } from "../position/position.ts";
import { parseRecordedCall } from "./recorded-call.ts";
import type { RecordedAgent, RecordedLookup } from "./recorded-call.ts";

/** A run's journal as a replay needs it: what each step of each visit came to, in the order in which that was written. */
export interface Recording {
  readonly run: string;
  readonly steps: readonly RecordedStep[];
  readonly checkpoints: readonly RecordedCheckpoint[];
  /** Newest try of each agent step, by `callKey`. */
  readonly agents: ReadonlyMap<string, RecordedAgent & { readonly entry: number }>;
  readonly lookups: readonly (RecordedLookup & { readonly entry: number })[];
  /** Readings of the clock, in order. */
  readonly readings: readonly { readonly entry: number; readonly visit: number; readonly value: number }[];
  /** Visits whose end is in the journal, and the entry that says so. */
  readonly ended: ReadonlyMap<number, number>;
  /** Which visit a stage was entered with, in order. */
  readonly entered: readonly { readonly entry: number; readonly visit: number }[];
  /** Entries at which another process took the run up. */
  readonly takenUp: readonly number[];
  readonly calls: number;
  readonly last: number;
}

export interface RecordedStep {
  readonly entry: number;
  readonly at: string;
  readonly visit: number;
  readonly step: string;
  readonly came:
    | { readonly kind: "finished"; readonly result: Json; readonly recorded: boolean }
    | { readonly kind: "failed"; readonly reason: string; readonly code: string | null }
    /** A rule of the error policy said that the run ends. */
    | { readonly kind: "aborted"; readonly reason: string };
  /** Of all tries since the one before it that came to an end. */
  readonly spent: readonly Spent[];
  /** Newest try of an agent; null: it is none's, or that is not on record. */
  readonly call: (RecordedAgent & { readonly entry: number }) | null;
  /** Sequence of the checkpoint in the same commit. */
  readonly checkpoint: number | null;
}

interface Spent {
  readonly entry: number;
  readonly amounts: Amounts;
}

export interface RecordedCheckpoint {
  readonly sequence: number;
  readonly entry: number;
  readonly at: string;
  readonly trigger: string;
  readonly name: string | null;
  readonly stage: string;
  readonly iteration: number;
  /** Its commit says that a step or a stage ended: the workflow took it, nobody else. */
  readonly isOwn: boolean;
  /** A run that had ended goes on from it. */
  readonly isReopening: boolean;
}

export function callKey(visit: number, step: string): string {
  return `${visit}/${step}`;
}

/** Entry at which the last process took up this visit; 0: the one that entered it carried it to its end. */
export function lastTakenUp({ takenUp, entered, ended }: Recording, visit: number): number {
  const at = entered.findIndex((one) => one.visit === visit);
  const from = entered[at]?.entry ?? 0;
  // Whoever holds the run after that (to tag it, to go on from somewhere else) has no part in the visit.
  const to = ended.get(visit) ?? entered[at + 1]?.entry ?? Number.POSITIVE_INFINITY;
  return takenUp.findLast((entry) => entry > from && entry < to) ?? 0;
}

export function readRecording(run: string, entries: readonly JournalEntry[]): Recording {
  const steps: RecordedStep[] = [];
  const checkpoints: RecordedCheckpoint[] = [];
  const agents = new Map<string, RecordedAgent & { readonly entry: number }>();
  const lookups: (RecordedLookup & { readonly entry: number })[] = [];
  const readings: { readonly entry: number; readonly visit: number; readonly value: number }[] = [];
  const ended = new Map<number, number>();
  const entered: { readonly entry: number; readonly visit: number }[] = [];
  const takenUp: number[] = [];
  const tries = new Map<string, Tries>();
  let calls = 0;
  /** What ended in the entries right before: a checkpoint behind them may be of the same commit. */
  let behind: Behind = NOTHING_BEHIND;
  for (const { entry, kind, at, body } of entries) {
    const visit = numberOf(body, "visit");
    const step = textOf(body, "step");
    const key = callKey(visit, step);
    switch (kind) {
      case "lease.taken":
        takenUp.push(entry);
        break;
      case "call.recorded": {
        const call = parseRecordedCall({ run, entry, body });
        calls += call.kind === "clock" ? 0 : 1;
        if (call.kind === "clock") for (const value of call.values) readings.push({ entry, visit: call.visit, value });
        if (call.kind === "agent") agents.set(callKey(call.visit, call.step), { ...call, entry });
        if (call.kind === "forge") lookups.push({ ...call, entry });
        break;
      }
      case "step.started":
        tries.set(key, { files: body["files"] === true, spent: tries.get(key)?.spent ?? [] });
        break;
      case "step.lost":
        spend(tries, key, { entry, body });
        break;
      case "step.failed":
      case "step.finished": {
        spend(tries, key, { entry, body });
        const came = kind === "step.failed" ? failureOf(body) : resultOf(body);
        // Tried again inside the call, or by whoever resumed it.
        if (came === null) break;
        const { spent, files } = tries.get(key) ?? NO_TRIES;
        tries.delete(key);
        behind = { ...behind, step: steps.length, files };
        steps.push({ entry, at, visit, step, came, spent, call: agents.get(key) ?? null, checkpoint: null });
        break;
      }
      case "stage.ended":
        ended.set(visit, entry);
        behind = { ...behind, stage: true };
        break;
      case "stage.entered":
        entered.push({ entry, visit });
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
        // A step that changes files ends in the commit of a checkpoint that has its name; one that puts files back, in that of the restore.
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
    checkpoints,
    agents,
    lookups,
    readings,
    ended,
    entered,
    takenUp,
    calls,
    last: entries.at(-1)?.entry ?? 0,
  };
}

/** null: the call went on. What the error policy decided stands with a failed try; what it had no say in was thrown into the stage. */
function failureOf(body: JsonObject): RecordedStep["came"] | null {
  const { verdict, errors } = body;
  if (isJsonObject(errors) && typeof errors["abort"] === "string") return { kind: "aborted", reason: errors["abort"] };
  if (isJsonObject(verdict)) return null;
  return { kind: "failed", reason: textOf(body, "reason"), code: textOf(body, "code") || null };
}

function resultOf(body: JsonObject): RecordedStep["came"] {
  return { kind: "finished", result: body["result"] ?? null, recorded: body["recorded"] === true };
}

interface Tries {
  readonly files: boolean;
  readonly spent: readonly Spent[];
}

const NO_TRIES: Tries = { files: false, spent: [] };

interface Behind {
  /** Index of the step. */
  readonly step: number | null;
  readonly files: boolean;
  readonly stage: boolean;
  readonly restored: boolean;
  readonly reopened: boolean;
}

const NOTHING_BEHIND: Behind = { step: null, files: false, stage: false, restored: false, reopened: false };

/** Entries that may stand between the end of a step and the checkpoint of the same commit. */
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

function spend(tries: Map<string, Tries>, key: string, { entry, body }: Pick<JournalEntry, "entry" | "body">): void {
  const amounts = amountsOf(body["spent"]);
  const known = tries.get(key) ?? NO_TRIES;
  if (amounts !== null) tries.set(key, { ...known, spent: [...known.spent, { entry, amounts }] });
}

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
