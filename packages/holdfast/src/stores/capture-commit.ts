import type { CheckpointParent, Planes } from "../core/checkpoint/checkpoint.ts";
import { deepFreeze } from "../core/deep-freeze.ts";
import { HoldfastError } from "../core/error.ts";
import type { EntryKind } from "../core/journal/journal.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { claimOf } from "../core/lease/lease-claim.ts";
import type { LeaseClaim } from "../core/lease/lease-claim.ts";
import { createSmallStateWriter } from "../core/context/small-state.ts";
import type { SmallStateWriter } from "../core/context/small-state.ts";
import {
  checkEntryKind,
  checkName,
  checkSequence,
  checkTrigger,
  planeFacts,
} from "../core/checkpoint/store-arguments.ts";
import type { PlaneFacts } from "../core/checkpoint/store-arguments.ts";
import type { Trigger } from "../core/checkpoint/trigger.ts";
import { canonicalJson, capture } from "../core/values/index.ts";
import type { Commit, NewCheckpoint } from "../ports/store.ts";

/** A commit as captured in the call: nothing the caller still holds can change it. */
export interface CapturedCommit {
  readonly lease: LeaseClaim;
  readonly entries: readonly CapturedEntry[];
  readonly checkpoint: CapturedCheckpoint | null;
}

export interface CapturedEntry {
  readonly kind: EntryKind;
  /** Canonical JSON of the body. */
  readonly text: string;
  /** Frozen. */
  readonly body: () => JsonObject;
}

export interface CapturedCheckpoint {
  readonly sequence: number | null;
  readonly trigger: Trigger;
  readonly name: string | null;
  readonly parent: CheckpointParent | null;
  readonly planes: CapturedPlanes;
  readonly facts: PlaneFacts;
}

/** Small planes are captured as the very text that is stored. */
export type CapturedPlanes =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "value"; readonly value: Planes & Json };

/** What a handle remembers of the planes it captured last for a run. */
export interface RunMemory {
  readonly writer: SmallStateWriter;
  /** Whether the planes were small the last time; looking at large ones as if they were small is wasted. */
  small: boolean;
  /** The value captured last: what is equal to it is shared. */
  previous: Json | undefined;
}

export function createRunMemory(params: { readonly small: boolean }): RunMemory {
  return { writer: createSmallStateWriter(), small: params.small, previous: undefined };
}

export function captureCommit(commit: Commit, memory: RunMemory): CapturedCommit {
  const { entries, checkpoint } = commit;
  return {
    lease: claimOf(commit.lease),
    entries: entries === undefined ? NO_ENTRIES : entries.map(captureEntry),
    checkpoint: checkpoint === undefined ? null : captureCheckpoint(checkpoint, memory),
  };
}

const NO_ENTRIES: readonly CapturedEntry[] = [];

function captureEntry(entry: NonNullable<Commit["entries"]>[number]): CapturedEntry {
  checkEntryKind(entry.kind);
  const { kind, body } = entry;
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `The body of ${kind} is not an object`,
      hint: "Give an object.",
    });
  }
  const text = canonicalJson(body);
  let parsed: JsonObject | undefined;
  return { kind, text, body: () => (parsed ??= parseBody(text)) };
}

function parseBody(text: string): JsonObject {
  const value: unknown = JSON.parse(text);
  return isObject(value) ? deepFreeze(value) : {};
}

function captureCheckpoint(checkpoint: NewCheckpoint, memory: RunMemory): CapturedCheckpoint {
  checkTrigger(checkpoint.trigger);
  const { name, parent, sequence } = checkpoint;
  const facts = planeFacts(checkpoint.planes);
  return {
    sequence: sequence === undefined ? null : checkSequence(sequence),
    trigger: checkpoint.trigger,
    name: name === undefined ? null : checkName(name),
    parent: parent === undefined ? null : { id: parent.id, digest: parent.digest },
    planes: capturePlanes(checkpoint.planes, memory),
    facts,
  };
}

function capturePlanes(live: Planes, memory: RunMemory): CapturedPlanes {
  const text = memory.small ? memory.writer.write(live) : undefined;
  if (text !== undefined) return { kind: "text", text };
  const value = capture(live, memory.previous);
  if (!isPlanes(value))
    throw new HoldfastError({ code: "USAGE", message: "The planes are not an object", hint: "Give an object." });
  memory.previous = value;
  memory.small = false;
  return { kind: "value", value };
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What the planes hold beyond the facts that lists show is the caller's; planeFacts looks at those. */
function isPlanes(value: Json): value is Planes & JsonObject {
  return isObject(value);
}
