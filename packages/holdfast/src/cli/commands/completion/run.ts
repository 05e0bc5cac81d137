import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { COMPLETION_SCRIPTS } from "./scripts.ts";
import type { completionSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof completionSpec)["flags"]>): Promise<Exit> {
  const name = input.operand(0) ?? "";
  const script = new Map<string, string>(Object.entries(COMPLETION_SCRIPTS)).get(name) ?? "";
  shell.print({ json: () => ({ shell: name, script }), text: () => script });
  return "done";
}
