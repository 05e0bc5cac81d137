import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { commonMembers } from "./loop-standing.ts";
import type { StandingLoop } from "./loop-standing.ts";

export const REGISTRY_PATH = ".aiwg/ralph/registry.json";

export function statePath(loopId: string): string {
  return `.aiwg/ralph/loops/${loopId}/state.json`;
}

/**
 * The registry of loops (its version 2) with those of this store that have not ended. Entries of other tools and other stores are kept as they
 * are, and so is what else stands there: nobody else's loop is forgotten by ours.
 */
export function registryDocument(params: {
  /** What is there; null: nothing, or nothing that can be read. */
  readonly before: JsonObject | null;
  readonly loops: readonly StandingLoop[];
  readonly store: string;
  /** null: as many as want to. */
  readonly limit: number | null;
}): JsonObject {
  const { before, store, limit } = params;
  const own = params.loops.flatMap((loop) => (loop.live.loopId === null ? [] : [entryOf(loop, loop.live.loopId)]));
  const ids = new Set(own.map(({ loop_id }) => loop_id));
  const listed = before?.["active_loops"];
  const others = (isJsonArray(listed) ? listed : []).filter(
    (entry) =>
      isJsonObject(entry) &&
      typeof entry["loop_id"] === "string" &&
      !ids.has(entry["loop_id"]) &&
      storeOf(entry) !== store,
  );
  const active = [...others, ...own];
  return {
    ...before,
    version: "2.0.0",
    max_concurrent_loops: limit ?? Math.max(PUBLISHED_LIMIT, active.length),
    active_loops: active,
    registry_path: REGISTRY_PATH,
    last_updated: newestOf(active, before?.["last_updated"]),
  };
}

/** A number has to stand there. */
const PUBLISHED_LIMIT = 4;

/** Is it the same but for signs of life? Then there is no news in it. */
export function sayTheSame(one: JsonObject, other: JsonObject | null): boolean {
  return other !== null && JSON.stringify(withoutPulse(one)) === JSON.stringify(withoutPulse(other));
}

function withoutPulse(document: JsonObject): JsonObject {
  const { last_updated: _updated, active_loops: loops, ...rest } = document;
  const still = (isJsonArray(loops) ? loops : []).map((entry) => {
    if (!isJsonObject(entry)) return entry;
    const { last_active: _pulse, ...same } = entry;
    return same;
  });
  return { ...rest, active_loops: still };
}

function entryOf(loop: StandingLoop, loopId: string) {
  const { run, live, newest, standing, priority, store } = loop;
  const { maxIterations, maxMinutes } = live.options;
  return {
    ...commonMembers(loop),
    loop_id: loopId,
    last_active: standing.heartbeatAt ?? newest.createdAt,
    state_file: statePath(loopId),
    max_iterations: maxIterations,
    ...(maxMinutes === null ? {} : { timeout_minutes: maxMinutes }),
    priority,
    holdfast: { store, run: run.id, standing: standing.detail },
  };
}

function storeOf(entry: JsonObject): Json | undefined {
  const mark = entry["holdfast"];
  return isJsonObject(mark) ? mark["store"] : undefined;
}

function newestOf(active: readonly Json[], before: Json | undefined): string {
  const times = active.flatMap((entry) => (isJsonObject(entry) ? [entry["last_active"]] : []));
  const known = [...times, before].filter((time) => typeof time === "string" && !Number.isNaN(Date.parse(time)));
  const sorted = known.map(String).toSorted((a, b) => Date.parse(a) - Date.parse(b));
  return sorted.at(-1) ?? "1970-01-01T00:00:00.000Z";
}
