import type { JsonObject } from "../../core/json.ts";
import { jsonObject, list, nullable, object, oneOf, text } from "../../core/shape.ts";
import type { Shape } from "../../core/shape.ts";
import { fitDocument, optional } from "../fit-document.ts";
import { invalidDocument, newerDocument } from "../refusals.ts";
import type { Source } from "../refusals.ts";

export const IMPL_STAGES = { impl: true, review: true, simp: true, pr: true, rebase: true, fatal: true } as const;
/** Two words for one end: the file says done, its state machine finish. */
export const IMPL_ENDS = { done: true, finish: true } as const;
type ForeignStage = keyof typeof IMPL_STAGES | keyof typeof IMPL_ENDS;

export interface ImplDocument extends JsonObject {
  readonly version: 1 | 2;
  readonly state: ImplDocumentState;
}

/** Fields that may be missing have a default in the tool that writes them. */
export interface ImplDocumentState extends JsonObject {
  readonly issue_no: number;
  readonly current_stage: ForeignStage;
  readonly iteration: number;
  readonly worktree: string;
}

/** Version first: another version may have quite another state. */
export function fitImplDocument(document: JsonObject, source: Source): ImplDocument {
  const { version } = document;
  if (typeof version === "number" && Number.isInteger(version) && version > 2)
    throw newerDocument(source, { path: "/version", version: String(version), known: "1 or 2" });
  if (version !== 1 && version !== 2) {
    const got = version === undefined ? "none" : JSON.stringify(version).slice(0, 40);
    throw invalidDocument(source, {
      path: "/version",
      why: `there is a version mismatch: expected 1 or 2, got ${got}`,
    });
  }
  return fitDocument(DOCUMENT, document, source);
}

const whole =
  (from: number, to: number): Shape<number> =>
  (value) =>
    typeof value === "number" && Number.isSafeInteger(value) && value >= from && value <= to
      ? null
      : {
          path: "",
          expected:
            to < Number.MAX_SAFE_INTEGER ? `a whole number from ${from} to ${to}` : `a whole number from ${from}`,
          actual: value,
        };
const numberOrText: Shape<number | string> = (value) => (typeof value === "string" ? null : whole(1, MOST)(value));
const MOST = Number.MAX_SAFE_INTEGER;
const score = whole(0, 100);

const ENTRY_FIELDS = object<Record<string, unknown>>({
  stage: optional(text),
  iteration: optional(whole(0, MOST)),
  timestamp: optional(text),
  result: optional(text),
  score: optional(nullable(score)),
  artifact: optional(nullable(text)),
  event: optional(text),
  reason: optional(text),
});

/** Nearly all of a long document are entries, and nearly all of them are as they should be. */
const HISTORY_ENTRY: Shape<Record<string, unknown>> = (value) => (isUsual(value) ? null : ENTRY_FIELDS(value));

function isUsual(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const { stage, iteration, timestamp, result, score: given, artifact, event, reason } = value as JsonObject;
  return (
    typeof stage === "string" &&
    typeof iteration === "number" &&
    iteration >= 0 &&
    Number.isSafeInteger(iteration) &&
    typeof timestamp === "string" &&
    typeof result === "string" &&
    (given === null || score(given) === null) &&
    isTextOrMissing(artifact) &&
    isTextOrMissing(event) &&
    isTextOrMissing(reason)
  );
}

function isTextOrMissing(value: unknown): boolean {
  return value === undefined || typeof value === "string";
}

const STATE = object<Record<string, unknown>>({
  issue_no: whole(0, MOST),
  current_stage: oneOf({ ...IMPL_STAGES, ...IMPL_ENDS }),
  iteration: whole(1, MOST),
  worktree: text,
  plan_file: optional(nullable(text)),
  last_feedback: optional(text),
  last_score: optional(score),
  history: optional(list(HISTORY_ENTRY)),
  pr_number: optional(nullable(numberOrText)),
  pr_url: optional(nullable(text)),
});

// Tied to the interfaces by hand: a shape of a type that is JSON all through would have to name every key there may be.
const DOCUMENT: Shape<ImplDocument> = (value) =>
  jsonObject(value) ?? object<Record<string, unknown>>({ timestamp: optional(text), state: STATE })(value);
