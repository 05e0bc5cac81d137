/** The `format schema` command: prints the published JSON Schema of a format. */
import { SCHEMA_NAMES } from "@holdfast/formats/format-names";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";

export const spec = {
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

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const name = SCHEMA_NAMES.find((known) => known === input.operand(0));
  if (name === undefined) {
    shell.print({
      json: () => ({ schemas: SCHEMA_NAMES }),
      text: () => SCHEMA_NAMES.map((known) => `${known}\n`).join(""),
    });
    return "done";
  }
  const { schemaText } = await import("../../interop/export.ts");
  const text = schemaText(name);
  shell.print({ json: () => JSON.parse(text), text: () => text });
  return "done";
}
