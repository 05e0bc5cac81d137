import { currentFlags } from "../../command.ts";
import type { CommandSpec, Completes, Flag, Flags } from "../../command.ts";
import { GLOBAL_FLAGS } from "../../global-flags.ts";
import { splitCommand } from "../../parse-arguments.ts";

export type CompletionPlan =
  | { readonly kind: "words"; readonly words: readonly string[] }
  | { readonly kind: "runs" | "addresses" | "directories" | "files" };

/** Pure: what kind of thing the last word is, from the words before it. */
export function planCompletion(params: {
  readonly specs: readonly CommandSpec[];
  readonly words: readonly string[];
}): CompletionPlan {
  const typed = params.words.at(-1) ?? "";
  const before = params.words.slice(0, -1);
  const { name, rest } = splitCommand(before, params.specs);
  const shown = params.specs.filter((spec) => spec.hidden !== true);
  const spec = shown.find((known) => known.name === name);
  const flags: Flags = { ...spec?.flags, ...GLOBAL_FLAGS };
  const pending = flagBefore(flags, before.at(-1));
  if (pending?.type === "text") return valuePlan(pending, shown);
  if (before.includes("--")) return { kind: "files" };
  if (typed.startsWith("-"))
    return { kind: "words", words: Object.keys(currentFlags(flags)).map((flag) => `--${flag}`) };
  if (name === undefined) return { kind: "words", words: shown.map((known) => known.name) };
  const last = spec?.operands.at(-1);
  const operand = spec?.operands[operandCount(flags, rest)] ?? (last?.many === true ? last : undefined);
  if (operand === undefined) return { kind: "words", words: [] };
  return operand.choices === undefined ? kindPlan(operand.completes, shown) : { kind: "words", words: operand.choices };
}

function valuePlan(flag: Extract<Flag, { readonly type: "text" }>, specs: readonly CommandSpec[]): CompletionPlan {
  return flag.choices === undefined
    ? kindPlan(flag.completes ?? "nothing", specs)
    : { kind: "words", words: flag.choices };
}

function kindPlan(completes: Completes, specs: readonly CommandSpec[]): CompletionPlan {
  switch (completes) {
    case "run":
      return { kind: "runs" };
    case "address":
      return { kind: "addresses" };
    case "directory":
      return { kind: "directories" };
    case "file":
      return { kind: "files" };
    case "command":
      return { kind: "words", words: specs.map((spec) => spec.name) };
    case "nothing":
      return { kind: "words", words: [] };
  }
}

function flagBefore(flags: Flags, word: string | undefined): Flag | undefined {
  if (word === undefined || !word.startsWith("-")) return undefined;
  const name = word.replace(/^-+/, "");
  return Object.hasOwn(flags, name) ? flags[name] : Object.values(flags).find((flag) => flag.short === name);
}

/** Operands among the words: neither flags nor the values of flags. */
function operandCount(flags: Flags, words: readonly string[]): number {
  return words.filter((word, at) => !word.startsWith("-") && flagBefore(flags, words[at - 1])?.type !== "text").length;
}
