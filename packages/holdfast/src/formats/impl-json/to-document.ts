import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { ForeignCheckpoint } from "../format.ts";
import { sameJson } from "../name-losses.ts";
import { putField } from "../put-field.ts";
import { IMPL_ENDS, IMPL_STAGES } from "./document.ts";
import type { ImplDocument } from "./document.ts";
import { asOwnEntry, foreignEntry, foreignTime, ownEntry, ownHistory } from "./history-entries.ts";
import { foreignStage, ownStage } from "./stage-names.ts";
import { createdAt, foreignHistory, IMPL_EXTENSION, pullRequestOf } from "./to-checkpoint.ts";

/**
 * A checkpoint as the format has it. Fields of the document it came from that still say the same stay as they are
 * spelled; those that nobody knows stay where they are.
 */
export function toDocument(checkpoint: ForeignCheckpoint, original: ImplDocument | null): JsonObject {
  const kept = extensionOf(checkpoint);
  const document: Record<string, Json> = { ...original };
  const version = original?.version ?? kept.version ?? (checkpoint.planes.position.stage === "simplify" ? 2 : 1);
  putField(document, { key: "version", value: version });
  if (checkpoint.createdAt !== null && createdAt(document) !== checkpoint.createdAt)
    putField(document, { key: "timestamp", value: foreignTime(checkpoint.createdAt) });
  putField(document, { key: "state", value: toState(checkpoint, original?.state ?? null) });
  return document;
}

function toState(checkpoint: ForeignCheckpoint, original: JsonObject | null): JsonObject {
  const { position, context, inputs, files } = checkpoint.planes;
  const kept = extensionOf(checkpoint);
  const state: Record<string, Json> = { ...original };
  const spelled = state["current_stage"];
  const stage =
    typeof spelled === "string" && ownStage(spelled) === position.stage ? spelled : stageWord(position.stage);
  const request = ownRequest(context.values["pullRequest"]);
  const fresh = original === null;
  const put = (key: string, value: Json, byDefault?: Json): void =>
    putField(state, { key, value, ...(byDefault === undefined || fresh ? {} : { byDefault }) });
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

/** Entries that came from the document stay as they were written; only what was added since is written anew. */
function toHistory(entries: Json | undefined, original: readonly JsonObject[]): readonly JsonObject[] {
  if (entries === ownHistory(original)) return original;
  if (!isJsonArray(entries)) return [];
  const written: JsonObject[] = [];
  entries.forEach((value, index) => {
    const before = original[index];
    if (before !== undefined && sameJson(ownEntry(before), value)) {
      written.push(before);
      return;
    }
    const entry = asOwnEntry(value);
    // Finding issue and base is no stage there: an entry for it would read as one more implementation.
    if (entry !== null && entry.stage !== "setup") written.push(foreignEntry(entry));
  });
  return written;
}

/** A stage that the format does not know goes on where the work begins; the loss is named. */
function stageWord(stage: string): string {
  const word = foreignStage(stage);
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

function extensionOf({ planes }: ForeignCheckpoint): {
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
