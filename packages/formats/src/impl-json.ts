// The impl-json format: decodes and encodes `.tmp/impl-checkpoint.json` of issue-to-pull-request tools.

import { type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { type LossReasons, listLosses, parseIsoTime, sameJson } from "./document.ts";
import type { ExternalCheckpoint, Format, Remark } from "./format.ts";
import {
  EMPTY_IMPL_VALUES,
  IMPL_ENDS,
  IMPL_STAGES,
  type ImplDocument,
  type ImplDocumentState,
  countersFromHistory,
  decodeEntry,
  decodeHistory,
  decodeStage,
  encodeEntry,
  encodeStage,
  encodeTime,
  parseImplDocument,
  parseOwnEntry,
} from "./impl-document.ts";
import { peekJson, readJson, writeJson } from "./strict-json.ts";

const PATH = ".tmp/impl-checkpoint.json";

/**
 * `.tmp/impl-checkpoint.json` of tools that turn an issue into a pull request: one file, overwritten as the run
 * advances.
 */
export const implJson: Format = {
  name: "impl-json",
  title: "Checkpoint of an issue-to-pull-request run (impl-checkpoint.json)",
  capabilities: { many: false, directory: false, resumable: true },

  detect(file) {
    const document = peekJson(file);
    const state = document?.["state"];
    if (isJsonObject(state) && (Object.hasOwn(state, "issue_no") || Object.hasOwn(state, "current_stage")))
      return { match: "yes", why: "Its state has an issue_no or a current_stage" };
    if (/(?:^|[/\\])impl-checkpoint\.json$/.test(file.path))
      return { match: "maybe", why: "It has the name of such a file, but not the content" };
    return { match: "no", why: "It has no state with an issue_no or a current_stage" };
  },

  decode(file) {
    const { document, remarks } = readJson(file, "impl-json");
    const fitting = parseImplDocument(document, { format: "impl-json", file: file.path });
    return { checkpoints: [toCheckpoint(fitting)], remarks: [...remarks, ...remarksOn(fitting)] };
  },

  encode(checkpoint) {
    const source = { format: "impl-json", file: PATH } as const;
    const { original } = checkpoint;
    const before = original?.format === "impl-json" ? parseImplDocument(original.document, source) : null;
    const document = toDocument(checkpoint, before);
    const back = toCheckpoint(parseImplDocument(document, source));
    return { bytes: writeJson(document), path: PATH, losses: listLosses(checkpoint, back, REASONS) };
  },
};

const REASONS: LossReasons = {
  id: "The file has no id: there is one for each worktree",
  createdAt: "A document without a time remains without one, and an existing time is kept",
  trigger: "The format does not record why a checkpoint was taken",
  workflow: "The format has only one workflow",
  work: "The format has only issues, by number",
  "position.workflow": "The format has only one workflow",
  "position.stage": "The format has no such stage; the nearest earlier one that it has was written",
  "position.iteration": "Iterations are counted from 1",
  "position.attempts": "The format keeps no counters beyond what its history implies",
  "position.streaks": "The format keeps no counters beyond what its history implies",
  "position.score": "A score is a whole number from 1 to 100; 0 means none",
  "position.feedback": "An empty text means none",
  "position.reason": "Only what the next prompt contains is kept",
  "context.values.history": "Setup entries and invalid entries are not part of the history",
  "context.values.pullRequest": "A pull request is a number from 1 and an address",
  "context.values": "Of the values of a run only its history and its pull request are written",
  "context.tokens": "The format does not count tokens",
  files: "Of the files only the path of the worktree is written",
  "inputs.issue": "The format has the number of the issue and not its text",
  "inputs.plan": "Of the plan only its path is written",
  "extensions.impl-json": "The worktree, plan file or version that it names is not the one that was written",
};

/** Extension for what the format has but the planes have no field for. */
export const IMPL_EXTENSION = "impl-json";

/** Converts a document to a checkpoint; `toDocument` is the inverse. */
function toCheckpoint(document: ImplDocument): ExternalCheckpoint {
  const { state } = document;
  return {
    id: null,
    createdAt: createdAt(document),
    // The tool writes the file between two stages.
    trigger: "stage",
    workflow: "impl",
    work: state.issue_no === 0 ? { kind: "none" } : { kind: "issue", number: state.issue_no },
    planes: toPlanes(document),
    original: { format: "impl-json", document },
  };
}

function toPlanes({ version, state }: ImplDocument): Planes {
  const empty = emptyPlanes({ workflow: "impl", stage: decodeStage(state.current_stage) });
  const history = decodeHistory(foreignHistory(state));
  const feedback = textOrNull(state["last_feedback"]);
  return {
    ...empty,
    position: {
      ...empty.position,
      iteration: state.iteration,
      ...countersFromHistory(history),
      score: scoreOf(state["last_score"]),
      feedback,
      // The only thing such a file says about why a run ended.
      reason: state.current_stage === "fatal" ? feedback : null,
    },
    context: { values: { ...EMPTY_IMPL_VALUES, pullRequest: pullRequestOf(state), history }, tokens: {} },
    extensions: {
      [IMPL_EXTENSION]: { version, worktree: state.worktree, plan_file: state["plan_file"] ?? null },
    },
  };
}

function foreignHistory(state: JsonObject): readonly JsonObject[] {
  const { history } = state;
  // The document was checked when it was read: entries are objects.
  return isJsonArray(history) ? (history as readonly JsonObject[]) : [];
}

/** The format writes 0 for no score yet. */
function scoreOf(score: Json | undefined): number | null {
  return typeof score === "number" && score !== 0 ? score : null;
}

function textOrNull(value: Json | undefined): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** The number is a text in the format. If it is missing, the URL ends with it. */
function pullRequestOf(state: JsonObject): { readonly number: number; readonly url: string } | null {
  const { pr_number, pr_url } = state;
  const url = typeof pr_url === "string" ? pr_url : "";
  const digits = pr_number === undefined || pr_number === null ? /\/(\d+)$/.exec(url)?.[1] : String(pr_number);
  const number = /^\d{1,15}$/.test(digits ?? "") ? Number(digits) : 0;
  return number === 0 ? null : { number, url };
}

function createdAt(document: JsonObject): string | null {
  const { timestamp } = document;
  return typeof timestamp === "string" ? (parseIsoTime(timestamp)?.iso ?? null) : null;
}

function remarksOn(document: ImplDocument): readonly Remark[] {
  const { state, version } = document;
  const { timestamp } = document;
  const remarks: Remark[] = [];
  const remark = (path: string, text: string): void => void remarks.push({ path, text });
  if (typeof timestamp !== "string") remark("/timestamp", "It says nothing about when it was written");
  else {
    const time = parseIsoTime(timestamp);
    if (time === null) remark("/timestamp", `"${timestamp.slice(0, 40)}" is not a time; it is kept and not used`);
    else if (!time.zoned) remark("/timestamp", "A time without zone was taken as UTC");
  }
  if (state.issue_no === 0) remark("/state/issue_no", "0 was taken as: for no issue");
  if (state.current_stage === "finish") remark("/state/current_stage", "finish was taken as done");
  if (state.current_stage === "simp" && version === 1)
    remark("/state/current_stage", "Version 1 knows no stage simp; it was taken as in version 2");
  if (state.worktree === "") remark("/state/worktree", "It names no worktree");
  if (state["pr_number"] !== undefined && state["pr_number"] !== null && pullRequestOf(state) === null)
    remark("/state/pr_number", "It is not the number of a pull request; it is kept and not used");
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

/** Checks the end of the text first: there may be many times, and most have no sign where a zone has one. */
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

/**
 * Converts a checkpoint to a document. Unchanged fields of the original keep their spelling, and unknown fields remain in
 * place.
 */
function toDocument(checkpoint: ExternalCheckpoint, original: ImplDocument | null): JsonObject {
  const kept = extensionOf(checkpoint);
  const document: Record<string, Json> = { ...original };
  const version = original?.version ?? kept.version ?? (checkpoint.planes.position.stage === "simplify" ? 2 : 1);
  setField(document, { key: "version", value: version });
  if (checkpoint.createdAt !== null && createdAt(document) !== checkpoint.createdAt)
    setField(document, { key: "timestamp", value: encodeTime(checkpoint.createdAt) });
  setField(document, { key: "state", value: toState(checkpoint, original?.state ?? null) });
  return document;
}

function toState(checkpoint: ExternalCheckpoint, original: JsonObject | null): JsonObject {
  const { position, context, inputs, files } = checkpoint.planes;
  const kept = extensionOf(checkpoint);
  const state: Record<string, Json> = { ...original };
  const spelled = state["current_stage"];
  const stage =
    typeof spelled === "string" && decodeStage(spelled) === position.stage ? spelled : stageWord(position.stage);
  const request = ownRequest(context.values["pullRequest"]);
  const fresh = original === null;
  const put = (key: string, value: Json, byDefault?: Json): void =>
    setField(state, { key, value, ...(byDefault === undefined || fresh ? {} : { byDefault }) });
  put("issue_no", checkpoint.work.kind === "issue" ? Math.max(0, checkpoint.work.number) : 0);
  put("current_stage", stage);
  put("iteration", Math.max(1, position.iteration));
  put("worktree", files?.worktree ?? kept.worktree ?? "");
  put("plan_file", inputs.plan?.path ?? kept.planFile, null);
  put("last_feedback", position.feedback ?? "", "");
  put("last_score", wholeScore(position.score), 0);
  put("history", toHistory(context.values["history"], foreignHistory(state)), []);
  if (!sameJson(pullRequestOf(state), request) || fresh) {
    put("pr_number", request === null ? null : String(request.number), null);
    put("pr_url", request?.url ?? null, null);
  }
  return state;
}

/** Entries from the document remain as written; only new ones are encoded. */
function toHistory(entries: Json | undefined, original: readonly JsonObject[]): readonly JsonObject[] {
  if (entries === decodeHistory(original)) return original;
  if (!isJsonArray(entries)) return [];
  const written: JsonObject[] = [];
  entries.forEach((value, index) => {
    const before = original[index];
    if (before !== undefined && sameJson(decodeEntry(before), value)) {
      written.push(before);
      return;
    }
    const entry = parseOwnEntry(value);
    // The format has no setup stage: an entry for it would count as another implementation.
    if (entry !== null && entry.stage !== "setup") written.push(encodeEntry(entry));
  });
  return written;
}

/** An unknown stage becomes the first one, impl; the loss is reported. */
function stageWord(stage: string): string {
  const word = encodeStage(stage);
  return Object.hasOwn(IMPL_STAGES, word) || Object.hasOwn(IMPL_ENDS, word) ? word : "impl";
}

function wholeScore(score: number | null): number {
  return Math.round(Math.min(100, Math.max(0, score ?? 0)));
}

function ownRequest(value: Json | undefined): { readonly number: number; readonly url: string } | null {
  if (!isJsonObject(value)) return null;
  const { number, url } = value;
  return typeof number === "number" && Number.isSafeInteger(number) && number > 0 && typeof url === "string"
    ? { number, url }
    : null;
}

function extensionOf({ planes }: ExternalCheckpoint): {
  readonly version: 1 | 2 | null;
  readonly worktree: string | null;
  readonly planFile: string | null;
} {
  const extension = planes.extensions[IMPL_EXTENSION];
  const { version, worktree, plan_file } = isJsonObject(extension) ? extension : {};
  return {
    version: version === 1 || version === 2 ? version : null,
    worktree: typeof worktree === "string" ? worktree : null,
    planFile: typeof plan_file === "string" ? plan_file : null,
  };
}

/**
 * Writes a field of a document under construction: in its place if it exists, otherwise at the end. With `byDefault`, a
 * missing field remains missing if the value equals its default.
 */
function setField(
  document: Record<string, Json>,
  field: { readonly key: string; readonly value: Json; readonly byDefault?: Json },
): void {
  const { key, value, byDefault } = field;
  if (!Object.hasOwn(document, key) && byDefault !== undefined && JSON.stringify(value) === JSON.stringify(byDefault))
    return;
  document[key] = value;
}
