/** Foreign checkpoint formats that are read and written, by the names that people type. */
export const FORMAT_NAMES = ["impl-json", "crunch-yaml", "context-store", "loop-json"] as const;

/** Those, and what is only written: a run's transcript. */
export const EXPORT_NAMES = [...FORMAT_NAMES, "atif"] as const;

export type ExportName = (typeof EXPORT_NAMES)[number];

/** Those with a published JSON Schema. */
export const SCHEMA_NAMES = ["loop-json", "loop-registry", "loop-state", "reflection-memory", "atif"] as const;
