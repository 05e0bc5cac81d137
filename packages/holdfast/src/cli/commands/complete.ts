/** The hidden `complete` command: prints candidates for the last word of a command line. */
import {
  type CommandSpec,
  type Completes,
  type Flag,
  type Flags,
  GLOBAL_FLAGS,
  type Input,
  type Shell,
  currentFlags,
} from "../command.ts";
import type { Exit } from "../exit.ts";
import { splitCommand } from "../parse-arguments.ts";

export const spec = {
  name: "complete",
  summary: "print candidates for the last word",
  details: [
    "Everything after -- is the command line so far, without the word holdfast; the last word is the one being typed. Never fails. The completion scripts call it.",
  ],
  operands: [],
  consent: "reads",
  paths: true,
  flags: {},
  examples: [{ line: "holdfast complete -- restore fix-login@", about: "addresses with this prefix" }],
  reads: true,
  json: '{"candidates": ["..."]}.',
  hidden: true,
} as const satisfies CommandSpec;

/** The shell calls this at every Tab, so it must never print an error into the user's command line. */
export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const candidates = await complete(shell, input.paths).catch(() => []);
  shell.print({ json: () => ({ candidates }), text: () => candidates.map((candidate) => `${candidate}\n`).join("") });
  return "done";
}

async function complete(shell: Shell, words: readonly string[]): Promise<readonly string[]> {
  const typed = words.at(-1) ?? "";
  const plan = planCompletion({ specs: (await shell.commands()).map(({ spec: one }) => one), words });
  switch (plan.kind) {
    case "words":
      return plan.words.filter((word) => word.startsWith(typed));
    case "directories":
      return [":directories"];
    case "files":
      return [":files"];
    case "runs":
      return (await runIds(shell)).filter((id) => id.startsWith(typed));
    case "addresses":
      return (await addresses(shell, typed)).filter((address) => address.startsWith(typed));
  }
}

async function runIds(shell: Shell): Promise<readonly string[]> {
  const holdfast = await shell.open({ create: false });
  return (await holdfast.listRuns({ limit: 100 })).map(({ id }) => id);
}

/** Completes the run first, then its checkpoints: a list of all checkpoints of all runs would be useless. */
async function addresses(shell: Shell, typed: string): Promise<readonly string[]> {
  const [run = ""] = typed.split("@");
  if (!typed.includes("@")) return (await runIds(shell)).map((id) => `${id}@`);
  const holdfast = await shell.open({ create: false });
  const id = run === "" ? (await holdfast.resolveRun()).id : run;
  const checkpoints = await (await holdfast.run(id)).list({ limit: 50 });
  const tags = checkpoints.flatMap((checkpoint) => checkpoint.tags);
  return ["latest", ...tags, ...checkpoints.map(({ sequence }) => String(sequence))].map((name) => `${run}@${name}`);
}

type CompletionPlan =
  | { readonly kind: "words"; readonly words: readonly string[] }
  | { readonly kind: "runs" | "addresses" | "directories" | "files" };

/** Pure: derives the kind of the last word from the words before it. */
export function planCompletion(params: {
  readonly specs: readonly CommandSpec[];
  readonly words: readonly string[];
}): CompletionPlan {
  const typed = params.words.at(-1) ?? "";
  const before = params.words.slice(0, -1);
  const { name, rest } = splitCommand(before, params.specs);
  const shown = params.specs.filter((spec) => spec.hidden !== true);
  const commands = shown.map((known) => known.name).filter((known) => !known.includes(" "));
  const spec = shown.find((known) => known.name === name);
  const flags: Flags = { ...spec?.flags, ...GLOBAL_FLAGS };
  const pending = flagBefore(flags, before.at(-1));
  if (pending?.type === "text") return valuePlan(pending, commands);
  if (before.includes("--")) return { kind: "files" };
  if (typed.startsWith("-"))
    return { kind: "words", words: Object.keys(currentFlags(flags)).map((flag) => `--${flag}`) };
  if (name === undefined) return { kind: "words", words: commands };
  const last = spec?.operands.at(-1);
  const operand = spec?.operands[operandCount(flags, rest)] ?? (last?.many === true ? last : undefined);
  if (operand === undefined) return { kind: "words", words: [] };
  return operand.choices === undefined
    ? kindPlan(operand.completes, commands)
    : { kind: "words", words: operand.choices };
}

function valuePlan(flag: Extract<Flag, { readonly type: "text" }>, commands: readonly string[]): CompletionPlan {
  return flag.choices === undefined
    ? kindPlan(flag.completes ?? "nothing", commands)
    : { kind: "words", words: flag.choices };
}

function kindPlan(completes: Completes, commands: readonly string[]): CompletionPlan {
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
      return { kind: "words", words: commands };
    case "nothing":
      return { kind: "words", words: [] };
  }
}

function flagBefore(flags: Flags, word: string | undefined): Flag | undefined {
  if (word === undefined || !word.startsWith("-")) return undefined;
  const name = word.replace(/^-+/, "");
  return Object.hasOwn(flags, name) ? flags[name] : Object.values(flags).find((flag) => flag.short === name);
}

/** Counts the operands among the words: neither flags nor the values of flags. */
function operandCount(flags: Flags, words: readonly string[]): number {
  return words.filter((word, at) => !word.startsWith("-") && flagBefore(flags, words[at - 1])?.type !== "text").length;
}
