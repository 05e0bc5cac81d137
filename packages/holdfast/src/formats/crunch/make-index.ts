import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { sameJson } from "../name-losses.ts";
import { field } from "../patch-document.ts";
import type { CrunchFile } from "./crunch-directory.ts";
import { triggerWord } from "./crunch-triggers.ts";

/**
 * The index that these files should have, oldest first, and in what the old one differs. Fields that we do not know are
 * kept, of the index and of every entry whose checkpoint is still there.
 */
export function makeIndex(params: { readonly checkpoints: readonly CrunchFile[]; readonly old: JsonObject | null }): {
  readonly document: JsonObject;
  readonly problems: readonly string[];
} {
  const { checkpoints } = params;
  const old = params.old ?? {};
  const known = new Map<string, JsonObject>();
  const listed = field(old, "checkpoints");
  for (const entry of isJsonArray(listed) ? listed : []) {
    const id = isJsonObject(entry) ? field(entry, "checkpoint_id") : undefined;
    if (isJsonObject(entry) && typeof id === "string") known.set(id, entry);
  }
  const entries = checkpoints.map((file) => entryOf(file, known.get(file.checkpoint.id ?? "") ?? {}));
  const newest = checkpoints.at(-1)?.checkpoint;
  const number = newest?.work.kind === "issue" ? newest.work.number : (field(old, "issue_number") ?? null);
  const document: JsonObject = {
    ...old,
    issue_number: number,
    checkpoints: entries,
    latest: newest?.id ?? null,
    total_checkpoints: entries.length,
  };
  return { document, problems: params.old === null ? [] : problemsOf(old, document, known) };
}

/** By time, then as the old index had them, then by id. What has no time comes first: it may be of any age. */
export function compareEntries(a: CrunchFile, b: CrunchFile, place: (id: string) => number | undefined): number {
  const [one, other] = [a.checkpoint, b.checkpoint];
  const [first, second] = [one.createdAt ?? "", other.createdAt ?? ""];
  if (first !== second) return first < second ? -1 : 1;
  const [left, right] = [one.id ?? "", other.id ?? ""];
  const byPlace = (place(left) ?? Number.MAX_SAFE_INTEGER) - (place(right) ?? Number.MAX_SAFE_INTEGER);
  if (byPlace !== 0) return byPlace;
  if (left !== right) return left < right ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}

/** A trigger that nobody told is left out, not made up. */
function entryOf({ checkpoint }: CrunchFile, old: JsonObject): JsonObject {
  const document = checkpoint.original?.document ?? {};
  const recovery = field(checkpoint.planes.extensions, "recovery");
  const canResume = isJsonObject(recovery) ? field(recovery, "can_resume") : undefined;
  const entry: Record<string, Json> = { ...old, checkpoint_id: checkpoint.id ?? "" };
  const createdAt = field(document, "created_at") ?? checkpoint.createdAt;
  if (createdAt !== null) entry["created_at"] = createdAt;
  if (checkpoint.trigger !== "import") entry["trigger"] = field(old, "trigger") ?? triggerWord(checkpoint.trigger);
  entry["phase"] = phaseOf(document) ?? checkpoint.planes.position.stage;
  entry["can_resume"] = typeof canResume === "boolean" ? canResume : true;
  return entry;
}

function phaseOf(document: JsonObject): Json | undefined {
  const state = field(document, "workflow_state");
  return isJsonObject(state) ? field(state, "current_phase") : undefined;
}

function problemsOf(old: JsonObject, made: JsonObject, known: ReadonlyMap<string, JsonObject>): readonly string[] {
  const problems: string[] = [];
  const entries = made["checkpoints"];
  const ids = new Set<string>();
  for (const entry of isJsonArray(entries) ? entries : []) {
    if (!isJsonObject(entry)) continue;
    const id = String(entry["checkpoint_id"]);
    ids.add(id);
    const was = known.get(id);
    if (was === undefined) problems.push(`it does not list ${id}`);
    else if (!sameJson(was, entry)) problems.push(`it is wrong about ${id}`);
  }
  for (const id of known.keys())
    if (!ids.has(id)) problems.push(`it lists ${id}, of which there is no file that can be read`);
  for (const name of ["issue_number", "latest", "total_checkpoints"]) {
    if (!sameJson(field(old, name) ?? null, made[name] ?? null)) problems.push(`its ${name} is wrong`);
  }
  if (problems.length === 0 && !sameJson(old, made)) problems.push("it has another order");
  return problems;
}
