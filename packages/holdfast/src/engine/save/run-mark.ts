import type { Parts } from "../parts.ts";

/**
 * Begins the mark of every process of a run. Runs of two repositories may have one name (issue-1), and a host has the
 * processes of both: without the store's own id, ending ours would end theirs.
 */
export function runMark({ store }: Pick<Parts, "store">, run: string): string {
  return `${store.id}/${run}`;
}
