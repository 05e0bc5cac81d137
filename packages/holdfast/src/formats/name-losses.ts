import { emptyPlanes } from "../core/checkpoint.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { ForeignCheckpoint, Loss } from "./format.ts";
import { field, sameJson } from "./patch-document.ts";

/**
 * Every part of the planes that says something and that the target does not carry, named as in our planes; `carried`
 * names those that it does, each with all that is below it. What is not of the planes (id, work, workflow) is the codec's.
 */
export function nameLosses(params: {
  readonly checkpoint: ForeignCheckpoint;
  /** The target, for the reason: "a crunch checkpoint". */
  readonly target: string;
  readonly carried: ReadonlySet<string>;
}): readonly Loss[] {
  const { planes } = params.checkpoint;
  const blank = emptyPlanes({ workflow: planes.position.workflow, stage: planes.position.stage });
  const lost = new Set<string>();
  const visit = (path: string, value: Json, empty: Json | undefined): void => {
    if (!params.carried.has(path) && (empty === undefined || !sameJson(value, empty))) lost.add(path);
  };
  for (const name of ["position", "context", "inputs", "config", "extensions"] as const) {
    const [plane, empty] = [toJson(planes[name]), toJson(blank[name])];
    for (const key of Object.keys(plane)) {
      // A key that would make another path of the name is not named apart.
      visit(PLAIN.test(key) ? `${name}.${key}` : name, field(plane, key) ?? null, field(empty, key));
    }
  }
  visit("files", planes.files === null ? null : toJson(planes.files), null);
  visit("conversation", planes.conversation === null ? null : toJson(planes.conversation), null);
  visit("effects", toJson(planes.effects), toJson(blank.effects));
  return [...lost].map((path) => ({ path, why: `${params.target} has no place for it` }));
}

const PLAIN = /^[\w-]+$/;

/** Planes are JSON by contract, but an interface without index signature is not JsonObject to the compiler. */
function toJson(plane: object): JsonObject {
  return plane as JsonObject;
}
