import { emptyPlanes } from "../core/checkpoint.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { ForeignCheckpoint, Loss } from "./format.ts";
import { field, sameJson } from "./patch-document.ts";

/**
 * Every part of a checkpoint that says something and that the target does not carry. Parts are named as in our planes;
 * `carried` names those that it does, each with all that is below it.
 */
export function nameLosses(params: {
  readonly checkpoint: ForeignCheckpoint;
  /** The target, for the reason: "a crunch checkpoint". */
  readonly target: string;
  readonly carried: ReadonlySet<string>;
}): readonly Loss[] {
  const { planes, workflow } = params.checkpoint;
  const blank = emptyPlanes({ workflow: planes.position.workflow, stage: planes.position.stage });
  const why = `${params.target} has no place for it`;
  const losses: Loss[] = [];
  const visit = (path: string, value: Json | undefined, empty: Json | undefined): void => {
    if (params.carried.has(path) || value === undefined) return;
    if (isEmpty(value) || (empty !== undefined && sameJson(value, empty))) return;
    losses.push({ path, why });
  };
  const group = (name: string, value: JsonObject, empty: JsonObject): void => {
    if (params.carried.has(name)) return;
    for (const key of Object.keys(value)) visit(`${name}.${key}`, field(value, key), field(empty, key));
  };
  visit("workflow", workflow, "none");
  for (const name of ["position", "context", "inputs", "config", "extensions"] as const) {
    group(name, toJson(planes[name]), toJson(blank[name]));
  }
  visit("files", planes.files === null ? null : toJson(planes.files), null);
  visit("conversation", planes.conversation === null ? null : toJson(planes.conversation), null);
  visit("effects", toJson(planes.effects), toJson(blank.effects));
  return losses;
}

function isEmpty(value: Json): boolean {
  return value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

/** Planes are JSON by contract, but an interface without index signature is not JsonObject to the compiler. */
function toJson(plane: object): JsonObject {
  return plane as JsonObject;
}
