import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { HoldfastError } from "../../core/error.ts";

/** Formats that have a JSON Schema, published with the package. */
const FILES = { "loop-json": "loop-checkpoint.schema.json" } as const;

export function schemaText(name: keyof typeof FILES): string {
  // The package's root is above: how far depends on whether this is the library, the bundle or the source.
  for (let directory = import.meta.dirname; ; directory = dirname(directory)) {
    try {
      return readFileSync(join(directory, "schemas", FILES[name]), "utf8");
    } catch (cause) {
      if (dirname(directory) !== directory) continue;
      throw new HoldfastError({
        code: "IO_FAILED",
        message: `The schema ${FILES[name]} is not in this installation`,
        hint: "Install the package again.",
        cause,
      });
    }
  }
}
