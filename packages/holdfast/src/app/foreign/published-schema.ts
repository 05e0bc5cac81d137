import { readPackageFile } from "./package-file.ts";

/** Formats that have a JSON Schema, published with the package. */
const FILES = {
  "loop-json": "schemas/loop-checkpoint.schema.json",
  "loop-registry": "schemas/loop-registry.schema.json",
  "loop-state": "schemas/loop-state.schema.json",
  "reflection-memory": "schemas/reflection-memory.schema.json",
  atif: "schemas/atif-1.7.schema.json",
} as const;

export function schemaText(name: keyof typeof FILES): string {
  return readPackageFile(FILES[name]);
}
