import type { JournalEntry } from "./journal.ts";

/**
 * Does this entry say that something came about which only a checkpoint could bring back: values, what an agent said, the graph? Finished plain steps are found
 * in the journal.
 */
export function isUnsavedChange({ kind, body }: Pick<JournalEntry, "kind" | "body">): boolean {
  if (kind === "graph.set" || kind === "graph.moved") return true;
  return kind === "step.finished" && (body["recorded"] === true || body["spent"] !== null);
}
