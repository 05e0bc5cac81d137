import { FORMAT_NAMES } from "../../../core/format-names.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { whichFormat } from "../export/which-format.ts";
import { writeOut } from "../export/write-out.ts";
import type { convertSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof convertSpec)["flags"]>): Promise<Exit> {
  const to = FORMAT_NAMES.find((name) => name === input.text("to"));
  if (to === undefined) throw whichFormat(FORMAT_NAMES);
  const format = FORMAT_NAMES.find((name) => name === input.text("format"));
  const { convertFile } = await import("../../../app/foreign/convert-file.ts");
  const converted = convertFile({
    path: input.operand(0) ?? "",
    cwd: shell.cwd,
    to,
    ...(format === undefined ? {} : { format }),
  });
  return await writeOut(shell, converted, { output: input.text("output"), dryRun: input.on("dry-run") });
}
