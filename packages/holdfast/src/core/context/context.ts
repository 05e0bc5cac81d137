import type { JsonObject } from "../json.ts";

/** Values and token usage carried through a run, as a checkpoint stores them. See context-tree.ts for forks. */
export interface Context {
  readonly values: JsonObject;
  readonly tokens: Readonly<Record<string, number>>;
}
