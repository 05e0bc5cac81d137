import { isJsonObject } from "./json.ts";
import type { Json } from "./json.ts";

/** One event of a `graph.moved` entry, for people: "build complete", "docs fail (no such file)", "a → b approve". */
export function graphMoveText(event: Json): string {
  if (!isJsonObject(event)) return "";
  const { kind, node, definition, error, reason, from, to } = event;
  const edge = typeof from === "string" && typeof to === "string" ? `${from} → ${to}` : undefined;
  const subject = node ?? edge ?? (isJsonObject(definition) ? definition["id"] : undefined);
  const why = error ?? reason;
  return [subject, kind, typeof why === "string" && why !== "" ? `(${why})` : undefined]
    .filter((part) => typeof part === "string")
    .join(" ");
}
