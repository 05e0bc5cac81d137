import { join } from "node:path";

/** The text of a workflow file as a user writes it, over the sources as they are instead of an installed package. */
export function workflowSource(text: string): string {
  return text.replace('"holdfast"', JSON.stringify(join(import.meta.dirname, "../index.ts")));
}
