// The loop-json document: its shape, its trigger words, and the paths of checkpoint files in both layouts.

import type { Trigger } from "@holdfast/core/checkpoint";
import {
  type JsonObject,
  type Shape,
  type TypeOf,
  count,
  finite,
  jsonObject,
  list,
  nullable,
  object,
  oneOf,
  text,
} from "@holdfast/core/json";
import {
  type DocumentSource,
  checkDocument,
  invalidDocument,
  optional,
  parseIsoTime,
  unsupportedVersion,
} from "./document.ts";

/** The published pattern. Few real ids follow it. */
export const PUBLISHED_LOOP_ID = /^ralph-[a-z0-9-]+-[a-f0-9]{8}$/;

/** Ids that can name a directory: also dates, base 36, a bare UUID, and an empty slug. */
export function isUsableLoopId(id: string): boolean {
  return /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9_-])?$/.test(id) && !id.includes("..");
}

/** The six published words, and four that the format's life cycle names but its schema omits. */
export const TRIGGER_OF_LOOP = {
  manual: "manual",
  automatic: "automatic",
  phase_boundary: "stage",
  iteration: "iteration",
  pre_risky_op: "before_risky",
  error_recovery: "error_recovery",
  phase_start: "stage",
  artifact_complete: "artifact_complete",
  before_external_call: "before_risky",
  iteration_boundary: "iteration",
} as const satisfies Readonly<Record<string, Trigger>>;

export type LoopTrigger = keyof typeof TRIGGER_OF_LOOP;
type PublishedTrigger = (typeof PUBLISHED)[number];

const PUBLISHED = [
  "manual",
  "automatic",
  "phase_boundary",
  "iteration",
  "pre_risky_op",
  "error_recovery",
] as const satisfies readonly LoopTrigger[];

/** Triggers for which one of the six words is close enough. */
const NEAREST: Readonly<Partial<Record<Trigger, PublishedTrigger>>> = {
  before_external: "pre_risky_op",
  before_restore: "pre_risky_op",
  restore: "error_recovery",
};

export function isPublishedTrigger(word: string): boolean {
  return PUBLISHED.some((one) => one === word);
}

/** Writes published words only. A trigger without one becomes "automatic", and the loss is reported. */
export function encodeTrigger(trigger: Trigger): PublishedTrigger {
  return PUBLISHED.find((word) => TRIGGER_OF_LOOP[word] === trigger) ?? NEAREST[trigger] ?? "automatic";
}

export const WORKFLOW_TYPES = {
  ralph_loop: true,
  flow_command: true,
  skill_execution: true,
  agent_task: true,
} as const;
const EXECUTION_MODES = { strict: true, seeded: true, logged: true, default: true } as const;

/**
 * Checks the published schema with corrections: loop_id may be null, ids need not be UUIDs, and the life cycle's
 * triggers are accepted.
 */
export function parseLoopDocument(document: JsonObject, source: DocumentSource): LoopDocument {
  const metadata = document["metadata"];
  const version = jsonObject(metadata) === null ? Reflect.get(Object(metadata), "schema_version") : undefined;
  if (typeof version === "string" && isNewer(version))
    throw unsupportedVersion(source, { path: "/metadata/schema_version", version, known: "1.0 or 2.0" });
  return checkDocument(DOCUMENT, document, source);
}

function isNewer(version: string): boolean {
  const [, major, minor] = /^(\d{1,9})\.(\d{1,9})$/.exec(version) ?? [];
  return Number(major) > 2 || (Number(major) === 2 && Number(minor) > 0);
}

/** A loop's checkpoint in a loop's directory must name its loop. */
export function requireLoopId(document: LoopDocument, source: DocumentSource): void {
  if (document.workflow_type !== "ralph_loop" || (document.loop_id ?? null) !== null) return;
  throw invalidDocument(source, {
    path: "/loop_id",
    why: "the loop id is missing, although the file is in the directory of a loop",
  });
}

/** For an object that is checked and then only copied. */
function plain(shape: Shape<object>): Shape<JsonObject> {
  return (value) => shape(value);
}

function matching(expected: string, test: (value: string) => boolean): Shape<string> {
  return (value) => (typeof value === "string" && test(value) ? null : { path: "", expected, actual: value });
}

function between(from: number, to: number, expected: string): Shape<number> {
  return (value) =>
    finite(value) ??
    (typeof value === "number" && value >= from && value <= to ? null : { path: "", expected, actual: value });
}

const integer: Shape<number> = (value) =>
  typeof value === "number" && Number.isSafeInteger(value)
    ? null
    : { path: "", expected: "a whole number", actual: value };
const loopTrigger: Shape<LoopTrigger> = (value) =>
  typeof value === "string" && Object.hasOwn(TRIGGER_OF_LOOP, value)
    ? null
    : { path: "", expected: `one of ${Object.keys(TRIGGER_OF_LOOP).join(", ")}`, actual: value };
const named = matching("a text that is not empty", (value) => value !== "");
const STATE = object({
  phase: text,
  step: optional(text),
  progress: plain(
    object({
      total_steps: optional(count),
      completed_steps: optional(count),
      percentage: optional(between(0, 100, "a number from 0 to 100")),
    }),
  ),
  iteration: optional(object({ current: optional(count), max: optional(count), failures: optional(count) })),
  artifacts: list(
    plain(
      object({
        path: optional(text),
        hash: optional(text),
        status: optional(oneOf({ created: true, modified: true, deleted: true, unchanged: true })),
      }),
    ),
  ),
  variables: optional(jsonObject),
  agent_state: optional(
    plain(
      object({
        current_agent: optional(text),
        memory: optional(jsonObject),
        pending_actions: optional(list(text)),
      }),
    ),
  ),
});

const CONFIG = object({
  model: optional(text),
  temperature: optional(between(0, 2, "a number from 0 to 2")),
  seed: optional(integer),
  execution_mode: optional(oneOf(EXECUTION_MODES)),
  agent: optional(text),
  tools: optional(list(text)),
  inputs: optional(jsonObject),
});

const METADATA = object({
  size_bytes: optional(count),
  compression: optional(oneOf({ none: true, gzip: true, lz4: true })),
  retention_days: optional(integer),
  tags: optional(list(text)),
  schema_version: optional(oneOf({ "1.0": true, "2.0": true })),
});

const FIELDS = object({
  checkpoint_id: named,
  workflow_id: named,
  loop_id: optional(nullable(matching("an id that can be the name of a directory", isUsableLoopId))),
  workflow_type: optional(oneOf(WORKFLOW_TYPES)),
  created_at: matching("a time (ISO 8601)", (value) => parseIsoTime(value) !== null),
  trigger: optional(loopTrigger),
  state: STATE,
  execution_config: optional(CONFIG),
  metadata: optional(METADATA),
});

export type LoopDocument = JsonObject & TypeOf<typeof FIELDS>;

// Tied to the type by hand, because the type also allows every other key.
const DOCUMENT: Shape<LoopDocument> = (value) => FIELDS(value);

type Compression = "none" | "gzip" | "lz4";

// A document may name lz4. Holdfast does not write LZ4, so such a document is written without compression.
const SUFFIX: Readonly<Record<Compression, string>> = { none: ".json", gzip: ".json.gz", lz4: ".json" };

/** What determines a checkpoint's path. */
export interface CheckpointPathParams {
  readonly loopId: string | null;
  readonly workflowId: string;
  readonly iteration: number;
  /** ISO 8601 UTC. */
  readonly createdAt: string;
  readonly trigger: string;
  readonly compression: Compression;
}

/**
 * Only the loop id decides: with one, the loop's own directory; without, the legacy directory, even for a loop. The
 * names are the published ones. In a loop's directory a second checkpoint of an iteration has the name of the first, so
 * a writer must check before it writes.
 */
export function checkpointPath(params: CheckpointPathParams): string {
  return `${checkpointDirectory(params.loopId)}${checkpointName(params)}`;
}

/**
 * Path of the second and later checkpoints of an iteration, which would overwrite each other under the published name.
 * The tool's own recovery looks for this name. null in the legacy layout, whose names are distinct.
 */
export function secondaryPath(params: CheckpointPathParams): string | null {
  if (params.loopId === null) return null;
  const time = Date.parse(params.createdAt);
  const at = Number.isNaN(time) ? 0 : time;
  return `${checkpointDirectory(params.loopId)}checkpoint-${params.iteration}-${at}${SUFFIX[params.compression]}`;
}

export function checkpointDirectory(loopId: string | null): string {
  return loopId === null ? ".aiwg/checkpoints/" : `.aiwg/ralph/loops/${loopId}/checkpoints/`;
}

/** Files of a loop's directory that describe the loop and are not checkpoints. */
export const LOOP_FILES = ["state.json", "reflection-memory.json"] as const;

/** The loop whose directory this is; null: it is not the directory of a loop. */
export function loopNamedBy(directory: string): string | null {
  return /(?:^|[/\\])\.aiwg[/\\]ralph[/\\]loops[/\\]([^/\\]+)$/.exec(directory)?.[1] ?? null;
}

function checkpointName(params: CheckpointPathParams): string {
  const suffix = SUFFIX[params.compression];
  if (params.loopId !== null) return `iteration-${String(params.iteration).padStart(3, "0")}${suffix}`;
  const time = params.createdAt.replace(".000Z", "Z").replaceAll(":", "-");
  return `${params.workflowId.replaceAll(/[^A-Za-z0-9._-]+/g, "-")}-${time}-${params.trigger}${suffix}`;
}

/** What a path says about its checkpoint. Readers and descriptions of the format use four names; all are accepted. */
type LoopPath =
  | {
      readonly kind: "multi_loop";
      readonly loopId: string;
      readonly iteration: number;
      readonly compression: Compression;
    }
  | {
      readonly kind: "legacy";
      readonly workflowId: string;
      /** As in the name, with hyphens for colons. */
      readonly time: string;
      readonly trigger: string;
      readonly compression: Compression;
    };

export function parseLoopPath(path: string): LoopPath | null {
  const slashed = path.replaceAll("\\", "/");
  const inLoop = IN_LOOP.exec(slashed)?.groups;
  if (inLoop !== undefined) {
    const { loop = "", suffix } = inLoop;
    const iteration = inLoop["iteration"] ?? inLoop["number"];
    if (!isUsableLoopId(loop)) return null;
    return { kind: "multi_loop", loopId: loop, iteration: Number(iteration), compression: compressionOf(suffix) };
  }
  const legacy = LEGACY.exec(slashed)?.groups;
  if (legacy === undefined) return null;
  const { workflow = "", time = "", trigger = "", suffix } = legacy;
  return { kind: "legacy", workflowId: workflow, time, trigger, compression: compressionOf(suffix) };
}

const IN_LOOP =
  /(?:^|\/)\.aiwg\/ralph\/loops\/(?<loop>[^/]+)\/checkpoints\/(?:iteration-(?<iteration>\d{1,9})|checkpoint-(?<number>\d{1,9})(?:-\d+)?)\.json(?<suffix>\.gz|\.lz4)?$/;
const LEGACY =
  /(?:^|\/)\.aiwg\/checkpoints\/(?<workflow>[^/]+)-(?<time>\d{4}-\d\d-\d\dT[\d.-]+Z)-(?<trigger>[a-z_]+)\.json(?<suffix>\.gz|\.lz4)?$/;

function compressionOf(suffix: string | undefined): Compression {
  if (suffix === ".gz") return "gzip";
  return suffix === ".lz4" ? "lz4" : "none";
}

type LoopKind = "multi_loop" | "single_loop" | "no_loop";

/** A loop without an id dates from when there was only one loop, and remains in the legacy layout. */
export function loopKind(document: { readonly loopId: string | null; readonly workflowType: string | null }): LoopKind {
  if (document.loopId !== null) return "multi_loop";
  return document.workflowType === "ralph_loop" ? "single_loop" : "no_loop";
}
