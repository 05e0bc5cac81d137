import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { Encoded, ForeignCheckpoint, Loss } from "../format.ts";
import { nameLosses } from "../name-losses.ts";
import { field, patchDocument } from "../patch-document.ts";
import { writeJson } from "../write-json.ts";
import { decodeContextDocument } from "./decode-context-store.ts";

export function encodeContextCheckpoint(checkpoint: ForeignCheckpoint): Encoded {
  const document = documentOf(checkpoint);
  return { bytes: writeJson(document), path: `${fileName(document)}.json`, losses: lossesOf(checkpoint) };
}

/** Several versions of one task, as a list. */
export function encodeContextStore(checkpoints: readonly ForeignCheckpoint[]): Encoded {
  const documents = checkpoints.map(documentOf);
  const losses = checkpoints.flatMap((checkpoint, place) =>
    lossesOf(checkpoint).map((loss) => ({ ...loss, path: `${place}.${loss.path}` })),
  );
  const text = JSON.stringify(documents, null, 2);
  return { bytes: new TextEncoder().encode(text), path: `${fileName(documents[0] ?? {}, "all")}.json`, losses };
}

function documentOf(checkpoint: ForeignCheckpoint): JsonObject {
  const after = viewOf(checkpoint);
  if (checkpoint.original?.format !== "context-store") return after;
  const { document: original } = checkpoint.original;
  const source = { format: "context-store", file: "the original of a checkpoint" } as const;
  const before = decodeContextDocument({ document: original, source, path: "", remarks: [] }).checkpoint;
  return patchDocument({ original, before: viewOf(before), after });
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

const CARRIED: ReadonlySet<string> = new Set(["context.values", "context.tokens", "extensions.metadata"]);

function lossesOf(checkpoint: ForeignCheckpoint): readonly Loss[] {
  const { id, trigger, work, workflow, planes } = checkpoint;
  const none = "a context checkpoint has no place for it";
  const metadata = field(planes.extensions, "metadata");
  const told = metadata === undefined || (isJsonObject(metadata) && Object.keys(metadata).length > 0);
  return [
    ...lose(versionOf(id) === null, "id", "a context checkpoint has a number from 1"),
    ...lose(trigger !== "manual", "trigger", none),
    ...lose(workflow !== "none", "workflow", none),
    ...lose(planes.position.workflow !== "none", "position.workflow", none),
    ...lose(planes.position.stage !== "none", "position.stage", none),
    ...lose(work.kind !== "task" || work.text === "", "work", "a context checkpoint is of a task that has a name"),
    ...lose(!told, "extensions.metadata", "metadata is an object that says something"),
    ...nameLosses({ checkpoint, target: "a context checkpoint", carried: CARRIED }).filter(
      (loss) => loss.path !== "position.workflow" && loss.path !== "position.stage",
    ),
  ];
}

function lose(is: boolean, path: string, why: string): readonly Loss[] {
  return is ? [{ path, why }] : [];
}
