import { SCHEMA_NAMES } from "../../../core/format-names.ts";
import type { CommandSpec } from "../../command.ts";

export const schemaSpec = {
  name: "schema",
  summary: "print the published JSON Schema of a format",
  details: ["Draft 2020-12. Without a name, those that there are."],
  operands: [{ name: "NAME", about: "a format", required: false, completes: "nothing", choices: SCHEMA_NAMES }],
  consent: "reads",
  paths: false,
  flags: {},
  examples: [
    { line: "holdfast schema", about: "which there are" },
    { line: "holdfast schema loop-json > loop-checkpoint.schema.json", about: "for an editor or a validator" },
  ],
  reads: true,
  json: 'The schema itself; without a name {"schemas": [names]}.',
} as const satisfies CommandSpec;
