import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import { NO_IMPL_VALUES } from "../../core/impl-values.ts";
import { isJsonArray } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { ForeignCheckpoint, Remark } from "../format.ts";
import { readTime } from "../read-time.ts";
import { countersFromHistory } from "./counters-from-history.ts";
import type { ImplDocument, ImplDocumentState } from "./document.ts";
import { ownHistory } from "./history-entries.ts";
import { ownStage } from "./stage-names.ts";

/** Where the planes keep what the format says and they have no field for. */
export const IMPL_EXTENSION = "impl-json";

/** The document in our words; the other way is to-document.ts. */
export function toCheckpoint(document: ImplDocument): ForeignCheckpoint {
  const { state } = document;
  return {
    id: null,
    createdAt: createdAt(document),
    // It is written when one stage has ended and the next has not begun.
    trigger: "stage",
    workflow: "impl",
    work: state.issue_no === 0 ? { kind: "none" } : { kind: "issue", number: state.issue_no },
    planes: toPlanes(document),
    original: { format: "impl-json", document },
  };
}

function toPlanes({ version, state }: ImplDocument): Planes {
  const empty = emptyPlanes({ workflow: "impl", stage: ownStage(state.current_stage) });
  const history = ownHistory(foreignHistory(state));
  const feedback = textOrNull(state["last_feedback"]);
  return {
    ...empty,
    position: {
      ...empty.position,
      iteration: state.iteration,
      ...countersFromHistory(history),
      score: scoreOf(state["last_score"]),
      feedback,
      // All that such a file says about why a run ended.
      reason: state.current_stage === "fatal" ? feedback : null,
    },
    context: { values: { ...NO_IMPL_VALUES, pullRequest: pullRequestOf(state), history }, tokens: {} },
    extensions: {
      [IMPL_EXTENSION]: { version, worktree: state.worktree, plan_file: state["plan_file"] ?? null },
    },
  };
}

export function foreignHistory(state: JsonObject): readonly JsonObject[] {
  const { history } = state;
  // Entries are objects: the document was looked over when it was read.
  return isJsonArray(history) ? (history as readonly JsonObject[]) : [];
}

/** What the format calls no score yet is 0. */
function scoreOf(score: Json | undefined): number | null {
  return typeof score === "number" && score !== 0 ? score : null;
}

function textOrNull(value: Json | undefined): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** The number is a text there; where it is missing, the address ends in it. */
export function pullRequestOf(state: JsonObject): { readonly number: number; readonly url: string } | null {
  const { pr_number, pr_url } = state;
  const url = typeof pr_url === "string" ? pr_url : "";
  const digits = pr_number === undefined || pr_number === null ? /\/(\d+)$/.exec(url)?.[1] : String(pr_number);
  const number = /^\d{1,15}$/.test(digits ?? "") ? Number(digits) : 0;
  return number === 0 ? null : { number, url };
}

export function createdAt(document: JsonObject): string | null {
  const { timestamp } = document;
  return typeof timestamp === "string" ? (readTime(timestamp)?.iso ?? null) : null;
}

export function remarksOn(document: ImplDocument): readonly Remark[] {
  const { state, version } = document;
  const { timestamp } = document;
  const remarks: Remark[] = [];
  const say = (path: string, text: string): void => void remarks.push({ path, text });
  if (typeof timestamp !== "string") say("/timestamp", "It says nothing about when it was written");
  else {
    const time = readTime(timestamp);
    if (time === null) say("/timestamp", `"${timestamp.slice(0, 40)}" is not a time; it is kept and not used`);
    else if (!time.zoned) say("/timestamp", "A time without zone was taken as UTC");
  }
  if (state.issue_no === 0) say("/state/issue_no", "0 was taken as: for no issue");
  if (state.current_stage === "finish") say("/state/current_stage", "finish was taken as done");
  if (state.current_stage === "simp" && version === 1)
    say("/state/current_stage", "Version 1 knows no stage simp; it was taken as in version 2");
  if (state.worktree === "") say("/state/worktree", "It names no worktree");
  if (state["pr_number"] !== undefined && state["pr_number"] !== null && pullRequestOf(state) === null)
    say("/state/pr_number", "It is not the number of a pull request; it is kept and not used");
  return [...remarks, ...historyRemarks(state)];
}

function historyRemarks(state: ImplDocumentState): readonly Remark[] {
  const path = "/state/history";
  let naive = 0;
  let partial = 0;
  for (const { stage, iteration, timestamp, result, score } of foreignHistory(state)) {
    if (typeof timestamp === "string" && !isZoned(timestamp)) naive += 1;
    const whole =
      stage !== undefined &&
      iteration !== undefined &&
      timestamp !== undefined &&
      result !== undefined &&
      score !== undefined;
    if (!whole) partial += 1;
  }
  return [
    ...(naive === 0 ? [] : [{ path, text: `${naive} times without zone are kept as they are` }]),
    ...(partial === 0 ? [] : [{ path, text: `${partial} entries are not complete` }]),
  ];
}

/** By its end: there may be many, and most have neither sign where a zone has one. */
function isZoned(time: string): boolean {
  const last = time.charCodeAt(time.length - 1);
  if (last === 0x5a || last === 0x7a) return true;
  return (isSign(time, 6) || isSign(time, 5)) && ZONE.test(time);
}

function isSign(time: string, fromEnd: number): boolean {
  const code = time.charCodeAt(time.length - fromEnd);
  return code === 0x2b || code === 0x2d;
}

const ZONE = /[+-]\d\d:?\d\d$/;
