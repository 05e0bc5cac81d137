import type { JournalEntry } from "../journal/journal.ts";
import { numberOf, textOf } from "../journal/journal-field.ts";
import { withoutNonces } from "../agent/fence.ts";
import { isJsonArray, isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json.ts";
import { firstChange } from "./first-change.ts";
import type { FirstChange } from "./first-change.ts";

/** One thing that a run came to which does not hang on clocks, ids or folders: an agent's answer, a check's verdict, the end of a stage. */
export interface Outcome {
  readonly entry: number;
  readonly visit: number;
  readonly stage: string;
  readonly iteration: number;
  /** null: the end of the stage itself. */
  readonly step: string | null;
  readonly kind: "agent" | "check" | "stage";
  readonly came: JsonObject;
  /** The files at that moment; null: not told. */
  readonly tree: string | null;
}

export interface RunsCompared {
  /** Outcomes from the beginning on that are the same in both. */
  readonly same: number;
  readonly step: Parting | null;
  readonly files: Parting | null;
  readonly verdict: Parting | null;
}

/** Where two runs part: what each did there (null: nothing more), and the field. */
export interface Parting extends FirstChange {
  readonly a: Outcome | null;
  readonly b: Outcome | null;
}

/**
 * Each is the first of its sort. Swapping the runs swaps the sides of the answer, and nothing else. `ids` are those of both runs: what agents write may
 * name the run, and must differ then.
 */
export function compareRuns(a: readonly Outcome[], b: readonly Outcome[], ids: readonly string[] = []): RunsCompared {
  const step = firstParting(a, b, ({ stage, iteration, step: name, came }) => ({
    stage,
    iteration,
    step: name,
    came: comparable(came, ids),
  }));
  const files = firstParting(a, b, ({ tree }) => tree);
  const isVerdict = ({ kind }: Outcome): boolean => kind !== "agent";
  const verdict = firstParting(a.filter(isVerdict), b.filter(isVerdict), ({ came, stage }) => ({ stage, came }));
  return { same: step === null ? a.length : sharedBefore(a, b, step), step, files, verdict };
}

/** Without what differs in every two runs: their ids with the number of the stage attempt, nonces, commits and times. */
function comparable(value: Json, ids: readonly string[]): Json {
  if (typeof value === "string") {
    const named = ids
      .toSorted((one, other) => other.length - one.length)
      .reduce((text, id) => text.replaceAll(nameOf(id), "<run>"), withoutNonces(value));
    return named.replaceAll(TIME, "<time>").replaceAll(COMMIT, "<commit>");
  }
  if (isJsonArray(value)) return value.map((part) => comparable(part, ids));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, comparable(part, ids)]));
}

/** Ids hold lower-case letters, digits and hyphens: nothing in them is special in a pattern. */
function nameOf(id: string): RegExp {
  return new RegExp(`(?<![a-z0-9-])${id}(?![a-z0-9-])(?:\\.\\d+)?`, "g");
}

const TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?/g;
const COMMIT = /\b[0-9a-f]{40}\b/g;

function firstParting(a: readonly Outcome[], b: readonly Outcome[], of: (outcome: Outcome) => Json): Parting | null {
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const [left, right] = [a[at] ?? null, b[at] ?? null];
    if (left === null || right === null)
      return { a: left, b: right, field: "", expected: left && of(left), actual: right && of(right) };
    const change = firstChange(of(left), of(right));
    if (change !== null) return { a: left, b: right, ...change };
  }
  return null;
}

function sharedBefore(a: readonly Outcome[], b: readonly Outcome[], { a: left, b: right }: Parting): number {
  return left === null ? (right === null ? 0 : b.indexOf(right)) : a.indexOf(left);
}

/** From a journal, oldest entry first. */
export function readOutcomes(entries: Iterable<Pick<JournalEntry, "entry" | "kind" | "body">>): readonly Outcome[] {
  const outcomes: Outcome[] = [];
  const agents = new Set<string>();
  let at = { stage: "", iteration: 0 };
  let waiting: number[] = [];
  for (const { entry, kind, body } of entries) {
    const visit = numberOf(body, "visit");
    const step = textOf(body, "step");
    const push = (outcome: Omit<Outcome, "entry" | "visit" | "stage" | "iteration" | "tree">): void => {
      waiting.push(outcomes.length);
      outcomes.push({ entry, visit, ...at, tree: null, ...outcome });
    };
    switch (kind) {
      case "stage.entered":
        at = { stage: textOf(body, "stage"), iteration: numberOf(body, "iteration") };
        break;
      case "step.started":
        if (isJsonObject(body["estimate"])) agents.add(`${visit}/${step}`);
        break;
      case "step.finished": {
        const result = body["result"] ?? null;
        const came = agents.has(`${visit}/${step}`) ? answerOf(result) : verdictOf(result);
        if (came !== null) push({ step, kind: agents.has(`${visit}/${step}`) ? "agent" : "check", came });
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

/** Of a step that speaks as checks do; null: another step. */
function verdictOf(result: Json): JsonObject | null {
  if (!isJsonObject(result)) return null;
  const { kind, code, pass } = result;
  if (typeof pass === "boolean") return { pass };
  return typeof kind === "string" && (typeof code === "number" || code === null) ? { kind, code } : null;
}
