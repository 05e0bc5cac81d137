import type { ImplHistoryEntry } from "../../core/impl-values.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { foreignStage, ownStage } from "./stage-names.ts";

/**
 * The whole history. Remembered, because a checkpoint that is written back has it unchanged: neither side may be changed
 * in place, as their types say.
 */
export function ownHistory(history: readonly JsonObject[]): readonly ImplHistoryEntry[] {
  const known = remembered.get(history);
  if (known !== undefined) return known;
  const entries = history.map(ownEntry);
  remembered.set(history, entries);
  return entries;
}

const remembered = new WeakMap<readonly JsonObject[], readonly ImplHistoryEntry[]>();

/** Entries may lack any field. What is missing becomes what says least: no text, iteration 0. */
export function ownEntry(entry: JsonObject): ImplHistoryEntry {
  const { stage, iteration, timestamp, result, event, reason, score } = entry;
  const foreign = typeof stage === "string" ? stage : "";
  const said = typeof result === "string" ? result : "";
  const known = EVENTS.get(foreign)?.get(said);
  const happened = typeof event === "string" ? event : (known?.event ?? said);
  return {
    stage: ownStage(foreign, happened),
    iteration: typeof iteration === "number" ? iteration : 0,
    timestamp: typeof timestamp === "string" ? ownTime(timestamp) : "",
    result: known?.result ?? resultOf(said),
    event: happened,
    reason: typeof reason === "string" ? reason : "",
    score: typeof score === "number" ? score : null,
  };
}

/** With `event` and `reason` beyond what the format describes; its readers leave them alone. */
export function foreignEntry(entry: ImplHistoryEntry): JsonObject {
  return {
    stage: entry.event.startsWith("parse_") ? "parse" : foreignStage(entry.stage),
    iteration: entry.iteration,
    timestamp: foreignTime(entry.timestamp),
    result: entry.result,
    score: entry.score,
    event: entry.event,
    reason: entry.reason,
  };
}

/** An entry of ours, or null: the values of a checkpoint may hold anything. */
export function asOwnEntry(value: Json): ImplHistoryEntry | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const { stage, iteration, timestamp, result, event, reason, score } = value as JsonObject;
  if (typeof stage !== "string" || typeof timestamp !== "string") return null;
  if (typeof event !== "string" || typeof reason !== "string") return null;
  if (result !== "success" && result !== "failure" && result !== "retry") return null;
  if (typeof iteration !== "number" || !Number.isSafeInteger(iteration) || iteration < 0) return null;
  const fits = typeof score === "number" && Number.isInteger(score) && score >= 0 && score <= 100;
  if (score !== null && !fits) return null;
  return { stage, iteration, timestamp, result, event, reason, score: typeof score === "number" ? score : null };
}

/** The format spells UTC as an offset. Times without zone stay as they are: nobody knows where that clock stood. */
export function foreignTime(iso: string): string {
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

/** What the tool really writes, and the three words that its description knows. */
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

/** Of a result that no stage is known to have. */
function resultOf(said: string): ImplHistoryEntry["result"] {
  if (said === "success" || said === "pass") return "success";
  return said === "failure" || said === "fail" ? "failure" : "retry";
}
