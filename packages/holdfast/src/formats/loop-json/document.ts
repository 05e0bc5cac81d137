import type { JsonObject } from "../../core/json.ts";
import { finite, jsonObject, list, nullable, object, oneOf, text } from "../../core/shape.ts";
import type { Shape } from "../../core/shape.ts";
import { fitDocument, optional } from "../fit-document.ts";
import { readTime } from "../read-time.ts";
import { invalidDocument, newerDocument } from "../refusals.ts";
import type { Source } from "../refusals.ts";
import { isUsableLoopId } from "./loop-id.ts";
import { OWN_TRIGGER } from "./triggers.ts";
import type { ForeignTrigger } from "./triggers.ts";

export const WORKFLOW_TYPES = {
  ralph_loop: true,
  flow_command: true,
  skill_execution: true,
  agent_task: true,
} as const;
const EXECUTION_MODES = { strict: true, seeded: true, logged: true, default: true } as const;

type Fields<T> = JsonObject & { readonly [K in keyof T]?: T[K] };

export type LoopDocument = JsonObject & {
  readonly checkpoint_id: string;
  readonly workflow_id: string;
  readonly created_at: string;
  readonly state: LoopState;
} & Fields<{
    loop_id: string | null;
    workflow_type: keyof typeof WORKFLOW_TYPES;
    trigger: ForeignTrigger;
    execution_config: LoopConfig;
    metadata: LoopMetadata;
  }>;

export type LoopState = JsonObject & {
  readonly phase: string;
  readonly progress: JsonObject;
  readonly artifacts: readonly JsonObject[];
} & Fields<{
    step: string;
    iteration: Fields<{ current: number; max: number; failures: number }>;
    variables: JsonObject;
    agent_state: JsonObject;
  }>;

export type LoopConfig = Fields<{
  model: string;
  temperature: number;
  seed: number;
  execution_mode: keyof typeof EXECUTION_MODES;
  agent: string;
  tools: readonly string[];
  inputs: JsonObject;
}>;

export type LoopMetadata = Fields<{
  size_bytes: number;
  compression: "none" | "gzip" | "lz4";
  retention_days: number;
  tags: readonly string[];
  schema_version: string;
}>;

/** The published schema, corrected: loop_id may be null, ids need be no UUIDs, triggers of the life cycle are known. */
export function fitLoopDocument(document: JsonObject, source: Source): LoopDocument {
  const metadata = document["metadata"];
  const version = jsonObject(metadata) === null ? Reflect.get(Object(metadata), "schema_version") : undefined;
  if (typeof version === "string" && isNewer(version))
    throw newerDocument(source, { path: "/metadata/schema_version", version, known: "1.0 or 2.0" });
  return fitDocument(DOCUMENT, document, source);
}

function isNewer(version: string): boolean {
  const [, major, minor] = /^(\d{1,9})\.(\d{1,9})$/.exec(version) ?? [];
  return Number(major) > 2 || (Number(major) === 2 && Number(minor) > 0);
}

/** In the directory of a loop, a loop's checkpoint must say which loop it is of. */
export function requireLoopId(document: LoopDocument, source: Source): void {
  if (document.workflow_type !== "ralph_loop" || (document.loop_id ?? null) !== null) return;
  throw invalidDocument(source, {
    path: "/loop_id",
    why: "there is no loop id, though it lies in the directory of a loop",
  });
}

function matching(expected: string, test: (value: string) => boolean): Shape<string> {
  return (value) => (typeof value === "string" && test(value) ? null : { path: "", expected, actual: value });
}

function between(from: number, to: number, expected: string): Shape<number> {
  return (value) =>
    finite(value) ??
    (typeof value === "number" && value >= from && value <= to ? null : { path: "", expected, actual: value });
}

const whole: Shape<number> = (value) =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0
    ? null
    : { path: "", expected: "a whole number from 0", actual: value };
const integer: Shape<number> = (value) =>
  typeof value === "number" && Number.isSafeInteger(value)
    ? null
    : { path: "", expected: "a whole number", actual: value };
const named = matching("a text that is not empty", (value) => value !== "");
const fields = object<Record<string, unknown>>;

const PROGRESS = fields({
  total_steps: optional(whole),
  completed_steps: optional(whole),
  percentage: optional(between(0, 100, "a number from 0 to 100")),
});

const STATE = fields({
  phase: text,
  step: optional(text),
  progress: PROGRESS,
  iteration: optional(fields({ current: optional(whole), max: optional(whole), failures: optional(whole) })),
  artifacts: list(
    fields({
      path: optional(text),
      hash: optional(text),
      status: optional(oneOf({ created: true, modified: true, deleted: true, unchanged: true })),
    }),
  ),
  variables: optional(jsonObject),
  agent_state: optional(
    fields({
      current_agent: optional(text),
      memory: optional(jsonObject),
      pending_actions: optional(list(text)),
    }),
  ),
});

const CONFIG = fields({
  model: optional(text),
  temperature: optional(between(0, 2, "a number from 0 to 2")),
  seed: optional(integer),
  execution_mode: optional(oneOf(EXECUTION_MODES)),
  agent: optional(text),
  tools: optional(list(text)),
  inputs: optional(jsonObject),
});

const METADATA = fields({
  size_bytes: optional(whole),
  compression: optional(oneOf({ none: true, gzip: true, lz4: true })),
  retention_days: optional(integer),
  tags: optional(list(text)),
  schema_version: optional(oneOf({ "1.0": true, "2.0": true })),
});

const KNOWN_TRIGGERS: Readonly<Record<string, true>> = Object.fromEntries(
  Object.keys(OWN_TRIGGER).map((word) => [word, true]),
);

const FIELDS = fields({
  checkpoint_id: named,
  workflow_id: named,
  loop_id: optional(nullable(matching("an id that can be the name of a directory", isUsableLoopId))),
  workflow_type: optional(oneOf(WORKFLOW_TYPES)),
  created_at: matching("a time (ISO 8601)", (value) => readTime(value) !== null),
  trigger: optional(oneOf(KNOWN_TRIGGERS)),
  state: STATE,
  execution_config: optional(CONFIG),
  metadata: optional(METADATA),
});

// Tied to the type by hand: the type has every other key there may be, too.
const DOCUMENT: Shape<LoopDocument> = (value) => FIELDS(value);
