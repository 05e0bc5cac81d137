import type { GraphEvent } from "./graph-state.ts";
import type { Json } from "../json.ts";

/** One event of a `graph.moved` entry, for people: "build complete", "docs fail (no such file)", "a → b approve". */
export function graphMoveText(event: Json | GraphEvent): string {
  if (typeof event !== "object" || event === null) return "";
  const { kind, node, definition, error, reason, from, to } = event as Readonly<Record<string, unknown>>;
  const edge = typeof from === "string" && typeof to === "string" ? `${from} → ${to}` : undefined;
  const added = typeof definition === "object" && definition !== null && "id" in definition ? definition.id : undefined;
  const why = error ?? reason;
  return [node ?? edge ?? added, kind, typeof why === "string" && why !== "" ? `(${why})` : undefined]
    .filter((part) => typeof part === "string")
    .join(" ");
}
