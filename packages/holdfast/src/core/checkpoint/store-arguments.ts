import type { CheckpointParent, Planes } from "./checkpoint.ts";
import { HoldfastError } from "../error.ts";
import { ENTRY_KINDS } from "../journal/journal.ts";
import type { Json, JsonObject } from "../json.ts";
import { RUN_ID } from "../run/run.ts";
import type { Run, Work } from "../run/run.ts";
import { TRIGGERS } from "./trigger.ts";
import { capture } from "../values/index.ts";

/** What callers without a type checker can get wrong, refused before anything is queued. */

export function checkRunId(run: unknown): string {
  if (typeof run === "string" && RUN_ID.test(run)) return run;
  throw usage(
    `${JSON.stringify(run)} is not a run id`,
    "A run id has 1 to 63 lower-case letters, digits and inner hyphens.",
  );
}

/** Each once, without the one that they are others of. */
export function othersOf(run: string, others: readonly string[]): readonly string[] {
  return [...new Set(others.map(checkRunId))].filter((one) => one !== run);
}

/** Kinds that only the store itself writes: they are the record of its own methods. */
const OWN_KINDS: ReadonlySet<string> = new Set([
  "run.created",
  "lease.taken",
  "lease.released",
  "checkpoint",
  "checkpoint.dropped",
  "checkpoint.quarantined",
  "tag.added",
  "tag.removed",
]);
const COMMITTABLE: ReadonlySet<string> = new Set(ENTRY_KINDS.filter((kind) => !OWN_KINDS.has(kind)));

export function checkEntryKind(kind: string): void {
  if (COMMITTABLE.has(kind) || /^x\.[^\p{C}]{1,200}$/u.test(kind)) return;
  const why = OWN_KINDS.has(kind) ? "is written by the store alone" : "is not an entry kind";
  throw usage(`${JSON.stringify(kind)} ${why}`, "Kinds of your own begin with `x.`.");
}

const TRIGGER_SET: ReadonlySet<string> = new Set(TRIGGERS);

export function checkTrigger(trigger: string): void {
  if (!TRIGGER_SET.has(trigger))
    throw usage(`${JSON.stringify(trigger)} is not a trigger`, `One of: ${TRIGGERS.join(", ")}.`);
}

/** The few facts that lists show without reading the planes. */
export interface PlaneFacts {
  readonly stage: string;
  readonly iteration: number;
  readonly score: number | null;
  readonly tree: string | null;
}

export function planeFacts(planes: Planes): PlaneFacts {
  const { position, files } = planes;
  if (typeof position !== "object" || position === null) throw usage("The planes lack a position", PLANES_HINT);
  const { stage, iteration, score } = position;
  const tree = files === null || files === undefined ? null : files.tree;
  if (
    typeof stage !== "string" ||
    !stage.isWellFormed() ||
    typeof iteration !== "number" ||
    (score !== null && typeof score !== "number")
  ) {
    throw usage("The position lacks a stage, an iteration or a score", PLANES_HINT);
  }
  if (tree !== null && typeof tree !== "string") throw usage("The files plane lacks its tree", PLANES_HINT);
  return { stage, iteration, score, tree };
}

const PLANES_HINT = "Start from the newest checkpoint's planes, or from empty ones.";

/** It is addressed as `run@tag` beside `run@7` and `run@latest`, so it must not look like either. */
/** What a person called a checkpoint. */
export function checkName(name: unknown): string {
  if (typeof name === "string" && name.length <= 1000 && name.isWellFormed()) return name;
  throw usage("A checkpoint's name is a text of at most 1000 characters", "Shorten it.");
}

export function checkSequence(sequence: unknown): number {
  if (typeof sequence === "number" && Number.isSafeInteger(sequence) && sequence >= 1) return sequence;
  throw usage(`${JSON.stringify(sequence)} is not a checkpoint's sequence`, "Sequences are 1, 2, 3 …");
}

function usage(message: string, hint: string): HoldfastError {
  return new HoldfastError({ code: "USAGE", message, hint });
}

/** Milliseconds of an ISO 8601 time. */
export function checkTime(time: unknown): number {
  const ms = typeof time === "string" ? Date.parse(time) : Number.NaN;
  if (Number.isFinite(ms)) return ms;
  throw usage(`${JSON.stringify(time)} is not a time`, "Give an ISO 8601 time.");
}

export function captureNewRun(run: NewRunArguments): Omit<Run, "createdAt"> {
  checkRunId(run.id);
  if (typeof run.workflow !== "string" || run.workflow === "")
    throw usage("A run needs the name of its workflow", "Give `workflow`.");
  const { forkedFrom } = run;
  const work = capture(run.work);
  const labels = capture(run.labels ?? {});
  if (!isWork(work)) throw usage("A run needs its work", "An issue with its number, a task with its text, or none.");
  if (!isObject(labels)) throw usage("Labels must be an object", "Give names and values.");
  return {
    id: run.id,
    workflow: run.workflow,
    work,
    forkedFrom: forkedFrom === undefined ? null : Object.freeze({ id: forkedFrom.id, digest: forkedFrom.digest }),
    labels,
  };
}

interface NewRunArguments {
  readonly id: string;
  readonly workflow: string;
  readonly work: Work;
  readonly forkedFrom?: CheckpointParent;
  readonly labels?: JsonObject;
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isWork(value: Json): value is Work & JsonObject {
  if (!isObject(value)) return false;
  switch (value["kind"]) {
    case "issue":
      return typeof value["number"] === "number";
    case "task":
      return typeof value["text"] === "string";
    default:
      return value["kind"] === "none";
  }
}
