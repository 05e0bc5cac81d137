import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { Encoded, ForeignCheckpoint, Loss } from "../format.ts";
import { nameLosses } from "../name-losses.ts";
import type { Reasons } from "../name-losses.ts";
import { field, patchDocument } from "../patch-document.ts";
import { writeJson } from "../write-json.ts";
import { decodeContextDocument } from "./decode-context-store.ts";

export function encodeContextCheckpoint(checkpoint: ForeignCheckpoint): Encoded {
  const document = documentOf(checkpoint);
  return { bytes: writeJson(document), path: `${fileName(document)}.json`, losses: lossesOf(checkpoint, document) };
}

/** Several versions of one task, as a list. */
export function encodeContextStore(checkpoints: readonly ForeignCheckpoint[]): Encoded {
  const documents = checkpoints.map(documentOf);
  const losses = checkpoints.flatMap((checkpoint, place) =>
    lossesOf(checkpoint, documents[place] ?? {}).map((loss) => ({ ...loss, path: `${place}.${loss.path}` })),
  );
  const text = JSON.stringify(documents, null, 2);
  return { bytes: new TextEncoder().encode(text), path: `${fileName(documents[0] ?? {}, "all")}.json`, losses };
}

function documentOf(checkpoint: ForeignCheckpoint): JsonObject {
  const after = viewOf(checkpoint);
  if (checkpoint.original?.format !== "context-store") return after;
  const { document: original } = checkpoint.original;
  return patchDocument({ original, before: viewOf(decodeAgain(original)), after });
}

/** In the order of `to_dict`. */
function viewOf({ id, createdAt, work, planes }: ForeignCheckpoint): JsonObject {
  const metadata = field(planes.extensions, "metadata");
  return {
    task_id: taskOf(work, planes),
    version: versionOf(id) ?? 1,
    values: planes.context.values,
    token_usage: planes.context.tokens,
    metadata: isJsonObject(metadata) ? metadata : {},
    ...(createdAt === null ? {} : { created_at: createdAt }),
  };
}

function taskOf(work: ForeignCheckpoint["work"], planes: ForeignCheckpoint["planes"]): string {
  switch (work.kind) {
    case "task":
      return work.text === "" ? "task" : work.text;
    case "issue":
      return `issue-${work.number}`;
    case "none":
      return planes.position.workflow === "none" ? "task" : planes.position.workflow;
  }
}

function versionOf(id: string | null): number | null {
  const version = id !== null && /^[1-9]\d{0,14}$/.test(id) ? Number(id) : null;
  return version;
}

function fileName(document: JsonObject, version: Json = document["version"] ?? 1): string {
  const task = String(document["task_id"] ?? "task")
    .replaceAll(/[^\w.-]+/g, "-")
    .replace(/^[.-]+/, "");
  return `${task.slice(0, 80) || "task"}-${String(version)}`;
}

const REASONS: Reasons = {
  id: "A context checkpoint has a number from 1",
  work: "A context checkpoint is of a task that has a name",
  "extensions.metadata": "Metadata is an object that says something",
};

function lossesOf(given: ForeignCheckpoint, document: JsonObject): readonly Loss[] {
  return nameLosses(given, decodeAgain(document), REASONS);
}

/** A document that never was a file, or is not one any more. */
function decodeAgain(document: JsonObject): ForeignCheckpoint {
  const source = { format: "context-store", file: "a checkpoint" } as const;
  return decodeContextDocument({ document, source, path: "", remarks: [] }).checkpoint;
}
