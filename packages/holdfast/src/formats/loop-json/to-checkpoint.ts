import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import type { ExecutionConfig, Planes } from "../../core/checkpoint/checkpoint.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { Trigger } from "../../core/checkpoint/trigger.ts";
import type { ForeignCheckpoint, ForeignFile, Remark } from "../format.ts";
import { readTime } from "../read-time.ts";
import type { LoopDocument } from "./document.ts";
import { PUBLISHED_LOOP_ID } from "./loop-id.ts";
import { loopKind, readPlace } from "./places.ts";
import { isPublishedTrigger, OWN_TRIGGER } from "./triggers.ts";
import type { ForeignTrigger } from "./triggers.ts";

/** Where the planes keep what the format says and they have no field for. */
export const LOOP_EXTENSION = "loop-json";

/** The document in our words; the other way is to-document.ts. Values are shared with the document, never copied. */
export function toCheckpoint(document: LoopDocument): ForeignCheckpoint {
  const workflow = document.workflow_type ?? "none";
  return {
    id: document.checkpoint_id,
    createdAt: readTime(document.created_at)?.iso ?? null,
    trigger: ownTrigger(document.trigger),
    workflow,
    work: { kind: "none" },
    planes: toPlanes(document, workflow),
    original: { format: "loop-json", document },
  };
}

/** Where it says nothing, nobody asked for it. */
export function ownTrigger(trigger: ForeignTrigger | undefined): Trigger {
  return trigger === undefined ? "automatic" : OWN_TRIGGER[trigger];
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
    config: toConfig(document, empty.config),
    extensions: { [LOOP_EXTENSION]: toExtension(document) },
  };
}

function toConfig({ execution_config: config }: LoopDocument, empty: ExecutionConfig): ExecutionConfig {
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

/** The schema's version is no fact about the run, and is brought up on writing. */
function toExtension(document: LoopDocument): JsonObject {
  const { state } = document;
  const { schema_version: _, ...metadata } = document.metadata ?? {};
  const given: Readonly<Record<string, Json | undefined>> = {
    workflow_id: document.workflow_id,
    loop_id: document.loop_id ?? null,
    step: state.step,
    progress: state.progress,
    max_iterations: state.iteration?.max,
    artifacts: state.artifacts,
    agent_state: state.agent_state,
    metadata: Object.keys(metadata).length === 0 ? undefined : metadata,
  };
  return Object.fromEntries(
    Object.entries(given).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
}

export function remarksOn(document: LoopDocument, file: ForeignFile): readonly Remark[] {
  const remarks: Remark[] = [];
  const say = (path: string, text: string): void => void remarks.push({ path, text });
  const loopId = document.loop_id ?? null;
  if (!UUID.test(document.checkpoint_id))
    say("/checkpoint_id", "It is not a UUID, which the published schema asks for");
  if (loopId !== null && !PUBLISHED_LOOP_ID.test(loopId))
    say("/loop_id", `${loopId} does not follow the published pattern`);
  if (loopKind({ loopId, workflowType: document.workflow_type ?? null }) === "single_loop")
    say("/loop_id", "A loop without id was taken as the only one, of the legacy layout");
  if (readTime(document.created_at)?.zoned === false) say("/created_at", "A time without zone was taken as UTC");
  if (document.trigger !== undefined && !isPublishedTrigger(document.trigger))
    say("/trigger", `${document.trigger} is named by the format's life cycle and not by its schema`);
  const said = document.metadata?.compression;
  if (said !== undefined && file.compression !== "none" && said !== file.compression)
    say("/metadata/compression", `It says ${said}, but the file was ${file.compression}`);
  const place = readPlace(file.path);
  if (place?.kind === "multi_loop" && loopId !== null && place.loopId !== loopId)
    say("/loop_id", `It lies in the directory of the loop ${place.loopId}`);
  return remarks;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
