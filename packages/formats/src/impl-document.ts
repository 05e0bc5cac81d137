// The impl-json document: its shape, its history entries, its stage words and the counters that its history implies.

import {
  type Json,
  type JsonObject,
  type Shape,
  type TypeOf,
  isJsonObject,
  list,
  nullable,
  object,
  oneOf,
  text,
} from "@holdfast/core/json";
import type { Counters } from "@holdfast/core/position";
import { type DocumentSource, checkDocument, invalidDocument, optional, unsupportedVersion } from "./document.ts";

export const IMPL_STAGES = { impl: true, review: true, simp: true, pr: true, rebase: true, fatal: true } as const;
/** Two words for one end: the file says done, its state machine says finish. */
export const IMPL_ENDS = { done: true, finish: true } as const;
/** Checks the version first, because another version may have a different state. */
export function parseImplDocument(document: JsonObject, source: DocumentSource): ImplDocument {
  const { version } = document;
  if (typeof version === "number" && Number.isInteger(version) && version > 2)
    throw unsupportedVersion(source, { path: "/version", version: String(version), known: "1 or 2" });
  if (version !== 1 && version !== 2) {
    const got = version === undefined ? "none" : JSON.stringify(version).slice(0, 40);
    throw invalidDocument(source, {
      path: "/version",
      why: `there is a version mismatch: expected 1 or 2, got ${got}`,
    });
  }
  return checkDocument(DOCUMENT, document, source);
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

const HISTORY_ENTRY = object({
  stage: optional(text),
  iteration: optional(whole(0, MOST)),
  timestamp: optional(text),
  result: optional(text),
  score: optional(nullable(score)),
  artifact: optional(nullable(text)),
  event: optional(text),
  reason: optional(text),
});

const STATE = object({
  issue_no: whole(0, MOST),
  current_stage: oneOf({ ...IMPL_STAGES, ...IMPL_ENDS }),
  iteration: whole(1, MOST),
  worktree: text,
  // The fields from here have a default in the tool that writes them.
  plan_file: optional(nullable(text)),
  last_feedback: optional(text),
  last_score: optional(score),
  history: optional(list(HISTORY_ENTRY)),
  pr_number: optional(nullable(numberOrText)),
  pr_url: optional(nullable(text)),
});

const FIELDS = object({ timestamp: optional(text), state: STATE });

/** An entry of the history as the tool writes it, with its unknown fields. */
export type ExternalEntry = TypeOf<typeof HISTORY_ENTRY>;
export type ImplDocumentState = TypeOf<typeof STATE>;
export type ImplDocument = JsonObject & TypeOf<typeof FIELDS> & { readonly version: 1 | 2 };

// Tied to the type by hand: the type also allows every other key, and the version is checked before.
const DOCUMENT: Shape<ImplDocument> = (value) => FIELDS(value);

/** Entries may lack any field. A missing one gets the neutral value: no text, iteration 0. */
export function decodeEntry(entry: ExternalEntry): ImplHistoryEntry {
  const { stage = "", iteration = 0, timestamp = "", result = "", reason = "", score = null } = entry;
  const known = EVENTS.get(stage)?.get(result);
  const event = entry.event ?? known?.event ?? result;
  return {
    stage: decodeStage(stage, event),
    iteration,
    timestamp: ownTime(timestamp),
    result: known?.result ?? resultOf(result),
    event,
    reason,
    score,
  };
}

/**
 * Adds `event` and `reason` beyond the format's description; its readers ignore them. The history may name any stage;
 * only `current_stage` has a fixed list, which lacks ci.
 */
export function encodeEntry(entry: ImplHistoryEntry): JsonObject {
  const stage = entry.stage === "ci" ? "ci" : encodeStage(entry.stage);
  return {
    stage: entry.event.startsWith("parse_") ? "parse" : stage,
    iteration: entry.iteration,
    timestamp: encodeTime(entry.timestamp),
    result: entry.result,
    score: entry.score,
    event: entry.event,
    reason: entry.reason,
  };
}

/** Returns a valid entry, or null, because a checkpoint's values can hold anything. */
export function parseOwnEntry(value: Json): ImplHistoryEntry | null {
  if (!isJsonObject(value)) return null;
  const { stage, iteration, timestamp, result, event, reason, score } = value;
  if (typeof stage !== "string" || typeof timestamp !== "string") return null;
  if (typeof event !== "string" || typeof reason !== "string") return null;
  if (result !== "success" && result !== "failure" && result !== "retry") return null;
  if (typeof iteration !== "number" || !Number.isSafeInteger(iteration) || iteration < 0) return null;
  const fits = typeof score === "number" && Number.isInteger(score) && score >= 0 && score <= 100;
  if (score !== null && !fits) return null;
  return { stage, iteration, timestamp, result, event, reason, score: typeof score === "number" ? score : null };
}

/** The format writes UTC as an offset. A time without a zone remains unchanged, because its zone is unknown. */
export function encodeTime(iso: string): string {
  return iso.endsWith("Z") ? `${iso.slice(0, -1)}+00:00` : iso;
}

function ownTime(time: string): string {
  return time.endsWith("+00:00") ? `${time.slice(0, -6)}Z` : time;
}

interface Known {
  readonly event: string;
  readonly result: ImplHistoryEntry["result"];
}

const PASS = (event: string): Known => ({ event, result: "success" });
const AGAIN = (event: string): Known => ({ event, result: "retry" });
const FAIL = (event: string): Known => ({ event, result: "failure" });

/** The words that the tool really writes, and the three of its description. */
const EVENTS: ReadonlyMap<string, ReadonlyMap<string, Known>> = new Map(
  Object.entries({
    impl: {
      success: PASS("impl_done"),
      ci_fix: PASS("impl_done"),
      incomplete: AGAIN("impl_not_done"),
      retry: AGAIN("impl_not_done"),
      failure: FAIL("impl_not_done"),
    },
    parse: {
      pass: PASS("parse_pass"),
      success: PASS("parse_pass"),
      fail: AGAIN("parse_fail"),
      retry: AGAIN("parse_fail"),
    },
    review: {
      pass: PASS("review_pass"),
      success: PASS("review_pass"),
      retry: AGAIN("review_fail"),
      failure: FAIL("review_fail"),
    },
    simp: {
      pass: PASS("simp_pass"),
      success: PASS("simp_pass"),
      fail: AGAIN("simp_fail"),
      retry: AGAIN("simp_fail"),
      failure: FAIL("simp_fail"),
    },
    pr: {
      pr_pass: PASS("pr_pass"),
      success: PASS("pr_pass"),
      pr_fail_fixable: AGAIN("pr_fail_fixable"),
      retry: AGAIN("pr_fail_fixable"),
      failure: FAIL("pr_fail_fixable"),
      pr_fail_need_rebase: AGAIN("pr_fail_need_rebase"),
    },
    rebase: {
      rebase_ok: PASS("rebase_ok"),
      success: PASS("rebase_ok"),
      rebase_conflict: FAIL("rebase_conflict"),
      failure: FAIL("rebase_conflict"),
    },
  }).map(([stage, results]) => [stage, new Map(Object.entries(results))]),
);

/** The result for a word that is unknown for the stage. */
function resultOf(outcome: string): ImplHistoryEntry["result"] {
  if (outcome === "success" || outcome === "pass") return "success";
  return outcome === "failure" || outcome === "fail" ? "failure" : "retry";
}

/**
 * The format stores no counters: in that tool, stop and resume reset every limit. The history contains all counters but
 * one (iterations without change), so a run that continues here keeps its limits. Counts as the impl workflow does.
 */
export function countersFromHistory(history: readonly ImplHistoryEntry[]): {
  readonly attempts: Counters;
  readonly streaks: Counters;
} {
  const attempts = { review: 0, simplify: 0, pr: 0, rebase: 0 };
  const streaks = { parse: 0, review: 0 };
  let best = Number.NEGATIVE_INFINITY;
  for (const [index, entry] of history.entries()) {
    switch (entry.event) {
      case "impl_done":
        // The format records an iteration as a success before its files are parsed.
        if (!isParseFailure(entry, history[index + 1])) streaks.parse = 0;
        break;
      case "parse_pass":
        streaks.parse = 0;
        break;
      case "parse_fail":
        streaks.parse += 1;
        break;
      case "review_pass":
        streaks.review = 0;
        break;
      case "review_fail":
        attempts.review += 1;
        streaks.review = entry.score !== null && entry.score > best ? 1 : streaks.review + 1;
        break;
      case "simp_fail":
        attempts.simplify += 1;
        break;
      case "pr_fail_fixable":
      case "pr_fail_need_rebase":
        attempts.pr += 1;
        break;
      case "rebase_ok":
        attempts.rebase += 1;
        break;
      default:
    }
    if (entry.score !== null && entry.score > best) best = entry.score;
  }
  return { attempts: counted(attempts), streaks: counted(streaks) };
}

function isParseFailure(entry: ImplHistoryEntry, next: ImplHistoryEntry | undefined): boolean {
  return next?.event === "parse_fail" && next.iteration === entry.iteration;
}

/** A counter at zero is absent. */
function counted(counters: Counters): Counters {
  return Object.fromEntries(Object.entries(counters).filter(([, count]) => count > 0));
}

/** The stage for a word of the format. `event` distinguishes what the format combines in one stage. */
export function decodeStage(stage: string, event = ""): string {
  switch (stage) {
    case "simp":
      return "simplify";
    case "finish":
      return "done";
    case "parse":
      return "impl";
    case "pr":
      return event.startsWith("ci_") ? "ci" : "pr";
    default:
      return stage;
  }
}

/** The format has no setup stage, and watching CI is part of its pull request stage. */
export function encodeStage(stage: string): string {
  switch (stage) {
    case "setup":
      return "impl";
    case "simplify":
      return "simp";
    case "ci":
      return "pr";
    default:
      return stage;
  }
}

/** The values of an impl run before setup: at its start, and after an import. */
export const EMPTY_IMPL_VALUES = {
  issue: null,
  base: null,
  templates: null,
  progress: null,
  output: null,
  commitReport: null,
  finalize: null,
  reviews: [],
  failing: null,
  pushed: null,
  pullRequest: null,
  stuckReport: null,
  history: [],
} as const satisfies JsonObject;

/** One entry of the run's history. */
export type ImplHistoryEntry = {
  readonly stage: string;
  readonly iteration: number;
  /** ISO 8601, UTC. */
  readonly timestamp: string;
  readonly result: "success" | "failure" | "retry";
  readonly event: string;
  readonly reason: string;
  readonly score: number | null;
};
