import { SCHEMA_NAMES } from "../../../core/format-names.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import type { schemaSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof schemaSpec)["flags"]>): Promise<Exit> {
  const name = SCHEMA_NAMES.find((known) => known === input.operand(0));
  if (name === undefined) {
    shell.print({
      json: () => ({ schemas: SCHEMA_NAMES }),
      text: () => SCHEMA_NAMES.map((known) => `${known}\n`).join(""),
    });
    return "done";
  }
  const { schemaText } = await import("../../../app.ts");
  const text = schemaText(name);
  shell.print({ json: () => JSON.parse(text), text: () => text });
  return "done";
}
