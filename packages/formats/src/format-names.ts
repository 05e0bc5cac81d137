// The names of the external formats that users type.

/** Checkpoint formats of other tools that Holdfast reads and writes. */
export const FORMAT_NAMES = ["impl-json", "crunch-yaml", "context-store", "loop-json"] as const;

/** Adds the transcript format that is only written. */
export const EXPORT_NAMES = [...FORMAT_NAMES, "atif"] as const;

export type ExportName = (typeof EXPORT_NAMES)[number];

/** Documents with a published JSON Schema. */
export const SCHEMA_NAMES = [
  "config",
  "loop-json",
  "loop-registry",
  "loop-state",
  "reflection-memory",
  "atif",
] as const;
