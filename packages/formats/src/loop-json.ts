// The loop-json format: decodes and encodes a loop's checkpoint files, schema 1.0 and 2.0.

import {
  type ExecutionConfig,
  type FilesPlane,
  type Planes,
  type Trigger,
  emptyPlanes,
} from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, asJsonObject, isJsonObject, sha256 } from "@holdfast/core/json";
import { canonicalJson } from "@holdfast/core/values";
import { usageError } from "@holdfast/platform/error";
import { type LossReasons, listLosses, parseIsoTime, patchDocument, uuidOf, withoutProtoKeys } from "./document.ts";
import type { ExternalCheckpoint, ExternalFile, Format, Remark } from "./format.ts";
import {
  type CheckpointPathParams,
  type LoopDocument,
  type LoopTrigger,
  PUBLISHED_LOOP_ID,
  TRIGGER_OF_LOOP,
  WORKFLOW_TYPES,
  checkpointPath,
  encodeTrigger,
  isPublishedTrigger,
  isUsableLoopId,
  loopKind,
  parseLoopDocument,
  parseLoopPath,
  requireLoopId,
  secondaryPath,
} from "./loop-document.ts";
import { peekJson, readJson, writeJson } from "./strict-json.ts";

/**
 * One file per checkpoint, in a loop's directory or in the legacy layout. The bytes are not compressed here: the
 * suggested path determines how the writer compresses them.
 */
export const loopJson: Format = {
  name: "loop-json",
  title: "Workflow checkpoint of a loop (schema 1.0 and 2.0)",
  capabilities: { many: false, directory: false, resumable: true },

  detect(file) {
    const document = peekJson(file);
    const signs = document !== null && Object.hasOwn(document, "workflow_id") && isJsonObject(document["state"]);
    if (signs) return { match: "yes", why: "It has a workflow_id and a state" };
    return parseLoopPath(file.path) === null
      ? { match: "no", why: "It has no workflow_id with a state" }
      : { match: "maybe", why: "It is where such files are, but its content differs" };
  },

  decode(file) {
    const source = { format: "loop-json", file: file.path } as const;
    const { document, remarks } = readJson(file, "loop-json");
    const fitting = parseLoopDocument(document, source);
    if (parseLoopPath(file.path)?.kind === "multi_loop") requireLoopId(fitting, source);
    return { checkpoints: [toCheckpoint(fitting)], remarks: [...remarks, ...remarksOn(fitting, file)] };
  },

  encode(given) {
    const checkpoint = withoutProtoKeys(given);
    const source = { format: "loop-json", file: "the checkpoint to be written" } as const;
    const { original } = checkpoint;
    const before = original?.format === "loop-json" ? parseLoopDocument(original.document, source) : null;
    const document = parseLoopDocument(toDocument(checkpoint, before), source);
    const losses = listLosses(given, toCheckpoint(document), REASONS);
    const location = locationOf(document, checkpoint.createdAt ?? "");
    const elsewhere = secondaryPath(location);
    return {
      bytes: writeJson(document),
      path: checkpointPath(location),
      ...(elsewhere === null ? {} : { elsewhere }),
      losses,
    };
  },
};

function locationOf(document: LoopDocument, createdAt: string): CheckpointPathParams {
  return {
    loopId: document.loop_id ?? null,
    workflowId: document.workflow_id,
    iteration: document.state.iteration?.current ?? 0,
    createdAt,
    trigger: document.trigger ?? "automatic",
    compression: document.metadata?.compression ?? "gzip",
  };
}

const REASONS: LossReasons = {
  id: "A checkpoint must have an id there; one was made",
  trigger: "The format has no word for this trigger",
  workflow: "The format has only four types of workflow",
  work: "The format has ids of workflows and no issues or tasks",
  "position.workflow": "The format has only four types of workflow",
  "position.attempts": "Of the counters only the number of failures is written",
  "context.tokens": "The format does not count tokens",
  files: "Of the files only path, hash and status of the artifacts are written",
  inputs: "The format has no place for issue, task, base and plan",
  "config.temperature": "A temperature is a number from 0 to 2",
  "config.seed": "A seed is a whole number",
  "extensions.loop-json": "Its artifacts are older than the files of the checkpoint",
};

/** Extension for what the format has but the planes have no field for. */
export const LOOP_EXTENSION = "loop-json";

/** The checkpoint of a document that was read before. */
export function decodeLoopDocument(document: JsonObject): ExternalCheckpoint {
  return toCheckpoint(parseLoopDocument(document, { format: "loop-json", file: "the imported document" }));
}

/**
 * Converts a document to a checkpoint; `toDocument` is the inverse. Values are shared with the document, never copied.
 */
function toCheckpoint(document: LoopDocument): ExternalCheckpoint {
  const workflow = document.workflow_type ?? "none";
  return {
    id: document.checkpoint_id,
    createdAt: parseIsoTime(document.created_at)?.iso ?? null,
    trigger: decodeTrigger(document.trigger),
    workflow,
    work: { kind: "none" },
    planes: toPlanes(document, workflow),
    original: { format: "loop-json", document },
  };
}

/** A document without a trigger was saved automatically. */
function decodeTrigger(trigger: LoopTrigger | undefined): Trigger {
  return trigger === undefined ? "automatic" : TRIGGER_OF_LOOP[trigger];
}

function toPlanes(document: LoopDocument, workflow: string): Planes {
  const { state } = document;
  const empty = emptyPlanes({ workflow, stage: state.phase });
  const failures = state.iteration?.failures ?? 0;
  return {
    ...empty,
    position: {
      ...empty.position,
      iteration: state.iteration?.current ?? 0,
      attempts: failures === 0 ? {} : { failures },
    },
    context: { values: state.variables ?? {}, tokens: {} },
    config: decodeConfig(document, empty.config),
    extensions: { [LOOP_EXTENSION]: toExtension(document) },
  };
}

function decodeConfig({ execution_config: config }: LoopDocument, empty: ExecutionConfig): ExecutionConfig {
  return {
    agent: config?.agent ?? empty.agent,
    model: config?.model ?? empty.model,
    temperature: config?.temperature ?? empty.temperature,
    seed: config?.seed ?? empty.seed,
    mode: config?.execution_mode ?? empty.mode,
    tools: config?.tools ?? empty.tools,
    inputs: config?.inputs ?? empty.inputs,
  };
}

/** The schema version is not a fact about the run and is updated on writing. */
function toExtension(document: LoopDocument): JsonObject {
  const { state } = document;
  const { schema_version: _, ...metadata } = document.metadata ?? {};
  return defined({
    workflow_id: document.workflow_id,
    loop_id: document.loop_id ?? null,
    step: state.step,
    progress: state.progress,
    max_iterations: state.iteration?.max,
    artifacts: state.artifacts,
    agent_state: state.agent_state,
    metadata: Object.keys(metadata).length === 0 ? undefined : metadata,
  });
}

function remarksOn(document: LoopDocument, file: ExternalFile): readonly Remark[] {
  const remarks: Remark[] = [];
  const remark = (path: string, text: string): void => void remarks.push({ path, text });
  const loopId = document.loop_id ?? null;
  if (!UUID.test(document.checkpoint_id))
    remark("/checkpoint_id", "It is not a UUID, which the published schema asks for");
  if (loopId !== null && !PUBLISHED_LOOP_ID.test(loopId))
    remark("/loop_id", `${loopId} does not follow the published pattern`);
  if (loopKind({ loopId, workflowType: document.workflow_type ?? null }) === "single_loop")
    remark("/loop_id", "A loop without id was taken as the only one, of the legacy layout");
  if (parseIsoTime(document.created_at)?.zoned === false) remark("/created_at", "A time without zone was taken as UTC");
  if (document.trigger !== undefined && !isPublishedTrigger(document.trigger))
    remark("/trigger", `${document.trigger} is named by the format's life cycle and not by its schema`);
  const named = document.metadata?.compression;
  if (named !== undefined && file.compression !== "none" && named !== file.compression)
    remark("/metadata/compression", `It names ${named}, but the file was ${file.compression}`);
  const place = parseLoopPath(file.path);
  if (place?.kind === "multi_loop" && loopId !== null && place.loopId !== loopId)
    remark("/loop_id", `It is in the directory of the loop ${place.loopId}`);
  return remarks;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * Converts a checkpoint to a document, always in schema version 2. A loop without an id remains without one: only its own
 * tool moves a loop out of the legacy layout.
 */
function toDocument(checkpoint: ExternalCheckpoint, original: LoopDocument | null): JsonObject {
  const document =
    original === null
      ? viewOf(checkpoint, { isFresh: true })
      : patchDocument({
          original,
          before: viewOf(toCheckpoint(original), { isFresh: false }),
          after: viewOf(checkpoint, { isFresh: false }),
        });
  return { ...document, metadata: { ...asJsonObject(document["metadata"]), schema_version: "2.0" } };
}

/** Everything that the format can express about a checkpoint. A new document omits empty fields and defaults. */
function viewOf(checkpoint: ExternalCheckpoint, { isFresh }: { readonly isFresh: boolean }): JsonObject {
  const { position, context, files, config } = checkpoint.planes;
  const kept = asJsonObject(checkpoint.planes.extensions[LOOP_EXTENSION]);
  const filled = <T extends object>(value: T): T | undefined =>
    isFresh && Object.keys(value).length === 0 ? undefined : value;
  const unless = <T extends Json>(byDefault: T, value: T): T | undefined =>
    isFresh && value === byDefault ? undefined : value;
  const { temperature, seed } = config;
  const failures = failuresOf(position.attempts);
  const keptId = kept["workflow_id"];
  const workflowId = typeof keptId === "string" ? keptId : madeWorkflowId(checkpoint);
  return defined({
    checkpoint_id: nonEmpty(checkpoint.id) ?? madeId(workflowId, checkpoint),
    workflow_id: workflowId,
    loop_id: usableLoopId(kept["loop_id"]) ?? null,
    workflow_type: Object.hasOwn(WORKFLOW_TYPES, checkpoint.workflow) ? checkpoint.workflow : undefined,
    created_at: requireTime(checkpoint),
    trigger: encodeTrigger(checkpoint.trigger),
    state: defined({
      phase: position.stage,
      step: kept["step"],
      progress: kept["progress"] ?? {},
      iteration: filled(
        defined({
          // A document that names the maximum of a loop also has its zeros.
          current: kept["max_iterations"] === undefined ? unless(0, position.iteration) : position.iteration,
          max: kept["max_iterations"],
          failures: kept["max_iterations"] === undefined ? unless(0, failures) : failures,
        }),
      ),
      artifacts: files === null ? (kept["artifacts"] ?? []) : files.artifacts.map(artifactOf),
      variables: filled(context.values),
      agent_state: kept["agent_state"],
    }),
    execution_config: filled(
      defined({
        model: config.model ?? undefined,
        temperature: temperature !== null && temperature >= 0 && temperature <= 2 ? temperature : undefined,
        seed: seed !== null && Number.isSafeInteger(seed) ? seed : undefined,
        execution_mode: unless("default", config.mode),
        agent: config.agent ?? undefined,
        tools: filled(config.tools),
        inputs: filled(config.inputs),
      }),
    ),
    // The compression determines the file name. New checkpoints use the format's default.
    metadata: { ...(isFresh ? { compression: "gzip" } : {}), ...asJsonObject(kept["metadata"]) },
  });
}

function requireTime({ createdAt }: ExternalCheckpoint): string {
  if (createdAt !== null) return createdAt;
  throw usageError(
    "A loop checkpoint needs a creation time, and this one has none",
    "Give the checkpoint a time before it is written.",
    { format: "loop-json", path: "/created_at" },
  );
}

function defined(fields: Readonly<Record<string, Json | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
}

/**
 * A UUID, as the published schema asks for. It is the same each time the checkpoint is written, and includes the time,
 * because an iteration has several checkpoints.
 */
function madeId(workflowId: string, { createdAt, planes }: ExternalCheckpoint): string {
  return uuidOf(sha256(canonicalJson([workflowId, planes.position.iteration, createdAt])));
}

function madeWorkflowId({ work }: ExternalCheckpoint): string {
  return work.kind === "issue" ? `issue-${work.number}` : "holdfast";
}

function artifactOf({ path, digest, status }: FilesPlane["artifacts"][number]): JsonObject {
  return { path, ...(digest === null ? {} : { hash: digest }), status };
}

function failuresOf(attempts: Readonly<Record<string, number>>): number {
  const failures = Object.hasOwn(attempts, "failures") ? (attempts["failures"] ?? 0) : 0;
  return Number.isSafeInteger(failures) && failures >= 0 ? failures : 0;
}

function usableLoopId(value: Json | undefined): string | undefined {
  return typeof value === "string" && isUsableLoopId(value) ? value : undefined;
}

function nonEmpty(text: string | null): string | null {
  return text === "" ? null : text;
}
