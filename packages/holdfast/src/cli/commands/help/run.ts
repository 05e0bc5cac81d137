import { HoldfastError } from "../../../core/error.ts";
import { nearest } from "../../../core/nearest.ts";
import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { commandText, helpDocument, helpWidth, overviewText } from "../../help-text.ts";
import { referenceMarkdown } from "./reference-markdown.ts";
import type { helpSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof helpSpec)["flags"]>): Promise<Exit> {
  const name = input.operand(0);
  const specs = shell.commands.map(({ spec }) => spec);
  const found = specs.find((spec) => spec.name === name);
  if (name !== undefined && found === undefined) {
    const [guess] = nearest(
      name,
      specs.map((spec) => spec.name),
    );
    throw new HoldfastError({
      code: "USAGE",
      message: `There is no command "${name}"`,
      hint: guess === undefined ? "See `holdfast help`." : `Did you mean ${guess}?`,
    });
  }
  shell.print({
    json: () => helpDocument(shell.commands, found),
    text: (page) =>
      input.on("markdown")
        ? referenceMarkdown(shell.commands)
        : found === undefined
          ? overviewText(shell.commands, helpWidth(page))
          : commandText(found, helpWidth(page)),
  });
  return "done";
}
