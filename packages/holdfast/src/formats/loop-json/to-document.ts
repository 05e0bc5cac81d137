import type { ExecutionConfig, FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { ForeignCheckpoint } from "../format.ts";
import { readTime } from "../read-time.ts";
import { WORKFLOW_TYPES } from "./document.ts";
import type { LoopDocument } from "./document.ts";
import { isUsableLoopId } from "./loop-id.ts";
import { LOOP_EXTENSION, ownTrigger } from "./to-checkpoint.ts";
import { foreignTrigger } from "./triggers.ts";

/**
 * A checkpoint as the format has it, always as version 2 of its schema. A loop without id stays without one: nothing
 * moves a loop of the legacy layout into the other but its own tool. Fields that nobody knows stay where they are.
 */
export function toDocument(checkpoint: ForeignCheckpoint, original: LoopDocument | null): JsonObject {
  const { planes } = checkpoint;
  const kept = extensionOf(checkpoint);
  const type = Object.hasOwn(WORKFLOW_TYPES, checkpoint.workflow) ? checkpoint.workflow : undefined;
  const keptId = kept["workflow_id"];
  const workflowId = typeof keptId === "string" ? keptId : madeWorkflowId(checkpoint);
  return overlay(original, {
    checkpoint_id: nonEmpty(checkpoint.id) ?? madeId(workflowId, checkpoint),
    workflow_id: workflowId,
    loop_id: usableLoopId(kept["loop_id"]) ?? (original !== null && !("loop_id" in original) ? undefined : null),
    workflow_type: type,
    created_at: createdAt(checkpoint, original),
    trigger: triggerWord(checkpoint, original),
    state: toState(checkpoint, original),
    execution_config: toConfig(planes.config, original?.execution_config),
    metadata: toMetadata(kept["metadata"], original),
  });
}

function toState(checkpoint: ForeignCheckpoint, original: LoopDocument | null): JsonObject {
  const { position, context, files } = checkpoint.planes;
  const kept = extensionOf(checkpoint);
  const before = original?.state;
  const iteration = overlay(before?.iteration ?? null, {
    current: present(position.iteration, 0, before?.iteration?.current),
    max: kept["max_iterations"],
    failures: present(failuresOf(position.attempts), 0, before?.iteration?.failures),
  });
  return overlay(before ?? null, {
    phase: position.stage,
    step: kept["step"],
    progress: kept["progress"] ?? {},
    iteration: Object.keys(iteration).length === 0 && before?.iteration === undefined ? undefined : iteration,
    artifacts: files === null ? (kept["artifacts"] ?? []) : files.artifacts.map(artifactOf),
    variables: Object.keys(context.values).length === 0 && before?.variables === undefined ? undefined : context.values,
    agent_state: kept["agent_state"],
  });
}

function toConfig(config: ExecutionConfig, before: JsonObject | undefined): JsonObject | undefined {
  const { model, temperature, seed, agent, tools, inputs, mode } = config;
  const written = overlay(before ?? null, {
    model: model ?? undefined,
    temperature: temperature !== null && temperature >= 0 && temperature <= 2 ? temperature : undefined,
    seed: seed !== null && Number.isSafeInteger(seed) ? seed : undefined,
    execution_mode: present(mode, "default", before?.["execution_mode"]),
    agent: agent ?? undefined,
    tools: tools.length === 0 && before?.["tools"] === undefined ? undefined : tools,
    inputs: Object.keys(inputs).length === 0 && before?.["inputs"] === undefined ? undefined : inputs,
  });
  return Object.keys(written).length === 0 && before === undefined ? undefined : written;
}

/** How it was compressed is kept, and decides what it will be called; new ones are written as the format's default is. */
function toMetadata(kept: Json | undefined, original: LoopDocument | null): JsonObject {
  const fields = isJsonObject(kept) ? kept : {};
  const fresh = original === null && fields["compression"] === undefined ? { compression: "gzip" } : {};
  return overlay(original?.metadata ?? null, { ...fresh, ...fields, schema_version: "2.0" });
}

/** Fields laid over a document in its own order. One that is undefined is left out, also where it was. */
function overlay(original: JsonObject | null, fields: Readonly<Record<string, Json | undefined>>): JsonObject {
  const document: Record<string, Json> = { ...original };
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) delete document[key];
    else document[key] = value;
  }
  return document;
}

/** What says the same as its absence is written only where it was written before. */
function present<T extends Json>(value: T, absent: T, before: Json | undefined): T | undefined {
  return value === absent && before === undefined ? undefined : value;
}

function createdAt(checkpoint: ForeignCheckpoint, original: LoopDocument | null): string {
  const spelled = original?.created_at;
  if (spelled !== undefined && readTime(spelled)?.iso === checkpoint.createdAt) return spelled;
  if (checkpoint.createdAt !== null) return checkpoint.createdAt;
  throw new HoldfastError({
    code: "USAGE",
    message: "A loop checkpoint must say when it was created, and this one does not",
    hint: "Give the checkpoint a time before it is written.",
    data: { format: "loop-json", path: "/created_at" },
  });
}

function triggerWord(checkpoint: ForeignCheckpoint, original: LoopDocument | null): string | undefined {
  if (original !== null && ownTrigger(original.trigger) === checkpoint.trigger) return original.trigger;
  return foreignTrigger(checkpoint.trigger);
}

/** With its time: an iteration has more than one. */
function madeId(workflowId: string, { createdAt: at, planes }: ForeignCheckpoint): string {
  const time = at === null ? "" : `-${at.replaceAll(/\D/g, "")}`;
  return `cp-${workflowId}-${planes.position.iteration}${time}`;
}

function madeWorkflowId({ work }: ForeignCheckpoint): string {
  return work.kind === "issue" ? `issue-${work.number}` : "holdfast";
}

function artifactOf({ path, digest, status }: FilesPlane["artifacts"][number]): JsonObject {
  return { path, ...(digest === null ? {} : { hash: digest }), status };
}

function failuresOf(attempts: Readonly<Record<string, number>>): number {
  const failures = Object.hasOwn(attempts, "failures") ? attempts["failures"] : 0;
  return isWhole(failures) ? failures : 0;
}

/** Taken as it is: what does not fit there is refused when the whole is looked over. */
function extensionOf({ planes }: ForeignCheckpoint): JsonObject {
  const extension = planes.extensions[LOOP_EXTENSION];
  return isJsonObject(extension) ? extension : {};
}

function usableLoopId(value: Json | undefined): string | undefined {
  return typeof value === "string" && isUsableLoopId(value) ? value : undefined;
}

function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function nonEmpty(text: string | null): string | null {
  return text === "" ? null : text;
}
