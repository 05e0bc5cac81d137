// The impl-json format: decodes and encodes `.tmp/impl-checkpoint.json` of issue-to-pull-request tools.

import { type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { type LossReasons, listLosses, parseIsoTime, patchDocument, sameJson, withoutProtoKeys } from "./document.ts";
import type { ExternalCheckpoint, Format, Remark } from "./format.ts";
import {
  EMPTY_IMPL_VALUES,
  type ExternalEntry,
  IMPL_ENDS,
  IMPL_STAGES,
  type ImplDocument,
  type ImplDocumentState,
  countersFromHistory,
  decodeEntry,
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

  encode(given) {
    const checkpoint = withoutProtoKeys(given);
    const source = { format: "impl-json", file: PATH } as const;
    const { original } = checkpoint;
    const before = original?.format === "impl-json" ? parseImplDocument(original.document, source) : null;
    const document = toDocument(checkpoint, before);
    const back = toCheckpoint(parseImplDocument(document, source));
    return { bytes: writeJson(document), path: PATH, losses: listLosses(given, back, REASONS) };
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
    createdAt: parseIsoTime(document.timestamp ?? "")?.iso ?? null,
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
  const history = (state.history ?? []).map(decodeEntry);
  const feedback = state.last_feedback || null;
  return {
    ...empty,
    position: {
      ...empty.position,
      iteration: state.iteration,
      ...countersFromHistory(history),
      // The format writes 0 for no score yet.
      score: state.last_score || null,
      feedback,
      // The only thing such a file says about why a run ended.
      reason: state.current_stage === "fatal" ? feedback : null,
    },
    context: { values: { ...EMPTY_IMPL_VALUES, pullRequest: pullRequestOf(state), history }, tokens: {} },
    extensions: {
      [IMPL_EXTENSION]: { version, worktree: state.worktree, plan_file: state.plan_file ?? null },
    },
  };
}

/** The number is a text in the format. If it is missing, the URL ends with it. */
function pullRequestOf({ pr_number, pr_url }: ImplDocumentState) {
  const url = pr_url ?? "";
  const digits = String(pr_number ?? /\/(\d+)$/.exec(url)?.[1] ?? "");
  const number = /^\d{1,15}$/.test(digits) ? Number(digits) : 0;
  return number === 0 ? null : { number, url };
}

function remarksOn(document: ImplDocument): readonly Remark[] {
  const { state, version, timestamp } = document;
  const remarks: Remark[] = [];
  const remark = (path: string, text: string): void => void remarks.push({ path, text });
  if (timestamp === undefined) remark("/timestamp", "It says nothing about when it was written");
  else {
    const time = parseIsoTime(timestamp);
    if (time === null) remark("/timestamp", `"${timestamp.slice(0, 40)}" is not a time; it is kept and not used`);
    else if (!time.zoned) remark("/timestamp", "A time without zone was taken as UTC");
  }
  if (state.current_stage === "finish") remark("/state/current_stage", "finish was taken as done");
  if (state.current_stage === "simp" && version === 1)
    remark("/state/current_stage", "Version 1 knows no stage simp; it was taken as in version 2");
  if ((state.pr_number ?? null) !== null && pullRequestOf(state) === null)
    remark("/state/pr_number", "It is not the number of a pull request; it is kept and not used");
  return [...remarks, ...historyRemarks(state)];
}

function historyRemarks({ history = [] }: ImplDocumentState): readonly Remark[] {
  const path = "/state/history";
  const naive = history.filter(({ timestamp = "Z" }) => !ZONE.test(timestamp)).length;
  const partial = history.filter((entry) => WHOLE_ENTRY.some((name) => entry[name] === undefined)).length;
  return [
    ...(naive === 0 ? [] : [{ path, text: `${naive} times without zone are kept as they are` }]),
    ...(partial === 0 ? [] : [{ path, text: `${partial} entries are not complete` }]),
  ];
}

const ZONE = /(?:[Zz]|[+-]\d\d:?\d\d)$/;
const WHOLE_ENTRY = ["stage", "iteration", "timestamp", "result", "score"] as const;

/** Converts a checkpoint to a document. An original without a time remains so, and an existing time is kept. */
function toDocument(checkpoint: ExternalCheckpoint, original: ImplDocument | null): JsonObject {
  if (original === null) return viewOf(checkpoint, null);
  const was = toCheckpoint(original);
  const after = viewOf({ ...checkpoint, createdAt: checkpoint.createdAt ?? was.createdAt }, original);
  return patchDocument({ original, before: viewOf(was, original), after });
}

/** Everything that the format can express about a checkpoint. */
function viewOf(checkpoint: ExternalCheckpoint, original: ImplDocument | null): JsonObject {
  const { position, context, inputs, files } = checkpoint.planes;
  const { work, createdAt } = checkpoint;
  const kept = extensionOf(checkpoint);
  const request = ownRequest(context.values["pullRequest"]);
  return {
    version: original?.version ?? kept.version ?? (position.stage === "simplify" ? 2 : 1),
    ...(createdAt === null ? {} : { timestamp: encodeTime(createdAt) }),
    state: {
      issue_no: work.kind === "issue" ? Math.max(0, work.number) : 0,
      current_stage: stageWord(position.stage),
      iteration: Math.max(1, position.iteration),
      worktree: files?.worktree ?? kept.worktree ?? "",
      plan_file: inputs.plan?.path ?? kept.planFile,
      last_feedback: position.feedback ?? "",
      last_score: wholeScore(position.score),
      history: toHistory(context.values["history"], original?.state.history ?? []),
      pr_number: request === null ? null : String(request.number),
      pr_url: request?.url ?? null,
    },
  };
}

/** Entries from the document remain as written; only new ones are encoded. */
function toHistory(entries: Json | undefined, original: readonly ExternalEntry[]): readonly JsonObject[] {
  if (!isJsonArray(entries)) return [];
  return entries.flatMap((value, index) => {
    const before = original[index];
    // The entry comes from a JSON document, so the cast is safe.
    if (before !== undefined && sameJson(decodeEntry(before), value)) return [before as JsonObject];
    const entry = parseOwnEntry(value);
    // The format has no setup stage: an entry for it would count as another implementation.
    return entry === null || entry.stage === "setup" ? [] : [encodeEntry(entry)];
  });
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
