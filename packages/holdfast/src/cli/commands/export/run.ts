import { EXPORT_NAMES, FORMAT_NAMES } from "../../../core/format-names.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import type { exportSpec } from "./spec.ts";
import { whichFormat } from "./which-format.ts";
import { writeOut } from "./write-out.ts";

export async function run(shell: Shell, input: Input<(typeof exportSpec)["flags"]>): Promise<Exit> {
  const named = input.text("to");
  if (named === undefined) throw whichFormat(EXPORT_NAMES);
  const holdfast = await shell.open({ create: false });
  const address = await holdfast.resolve(input.operand(0) ?? "");
  const where = { output: input.text("output"), dryRun: input.on("dry-run") };
  const to = FORMAT_NAMES.find((name) => name === named);
  if (to === undefined) {
    const transcript = await holdfast.foreign.transcript(address.run);
    return await writeOut(shell, { from: address.run, to: "atif", foreign: [], encoded: [transcript] }, where);
  }
  const { foreign, encoded } = await holdfast.foreign.encode(address, to);
  return await writeOut(shell, { from: address.id, to, foreign: [foreign], encoded: [encoded] }, where);
}
