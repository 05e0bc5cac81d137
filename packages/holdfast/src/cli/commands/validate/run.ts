import { FORMAT_NAMES } from "../../../core/format-names.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import type { validateSpec } from "./spec.ts";
import { validateText } from "./view.ts";

export async function run(shell: Shell, input: Input<(typeof validateSpec)["flags"]>): Promise<Exit> {
  const format = FORMAT_NAMES.find((name) => name === input.text("format"));
  const { validateFiles } = await import("../../../app/foreign/validate-files.ts");
  const rows = validateFiles({
    paths: input.operands,
    cwd: shell.cwd,
    ...(format === undefined ? {} : { format }),
  });
  shell.print({ json: () => rows, text: (page) => validateText(rows, page) });
  return rows.every(({ ok }) => ok) ? "done" : "corrupt";
}
