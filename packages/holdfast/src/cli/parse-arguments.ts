/** Parses the command line against the specification of the command. */
import { parseArgs } from "node:util";
import { parsePriority } from "@holdfast/core/lease";
import { choiceHint, nearest } from "@holdfast/core/options";
import { type HoldfastError, usageError } from "@holdfast/platform/error";
import type { SlotOptions } from "../plan-start.ts";
import { type CommandSpec, type Flag, type Flags, GLOBAL_FLAGS, type Input, SUBCOMMANDS } from "./command.ts";

/** Splits the command's name from its arguments. Flags, global or the command's own, may be on either side of it. */
export function splitCommand(
  argv: readonly string[],
  specs: readonly Pick<CommandSpec, "name" | "flags">[],
): {
  readonly name: string | undefined;
  readonly rest: readonly string[];
} {
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? "";
    if (word === "--") break;
    if (!word.startsWith("-") || word === "-") return joinSubcommand(word, argv.toSpliced(at, 1));
    if (takesNext(word.replace(/^-+/, ""), argv[at + 1], specs)) at += 1;
  }
  return { name: undefined, rest: argv };
}

/** Takes the second word of a name such as "format import" from the arguments. Flags may be between the two words. */
function joinSubcommand(name: string, rest: readonly string[]): ReturnType<typeof splitCommand> {
  const words = Object.entries<readonly string[]>(SUBCOMMANDS).find(([group]) => group === name)?.[1] ?? [];
  const at = rest.findIndex((word) => word === "--" || words.includes(word));
  const found = at < 0 || rest[at] === "--" ? undefined : rest[at];
  return found === undefined ? { name, rest } : { name: `${name} ${found}`, rest: rest.toSpliced(at, 1) };
}

/**
 * A flag such as --values has a value in one command and none in another. Before the command, only the next word shows
 * which.
 */
function takesNext(
  flag: string,
  next: string | undefined,
  specs: readonly Pick<CommandSpec, "name" | "flags">[],
): boolean {
  const flags: readonly Flags[] = [GLOBAL_FLAGS, ...specs.map((spec) => spec.flags)];
  const types = new Set(flags.flatMap((known) => flagOf(known, flag)?.type ?? []));
  return types.has("text") && (!types.has("boolean") || specs.every(({ name }) => name !== next));
}

interface Parsed<F extends Flags> {
  readonly input: Input<F>;
  readonly globals: Input<typeof GLOBAL_FLAGS>;
}

/** Throws USAGE, with the nearest flag, if an argument does not match the spec. */
export function parseArguments<F extends Flags>(
  spec: Pick<CommandSpec, "name" | "operands" | "paths"> & { readonly flags: F },
  argv: readonly string[],
): Parsed<F> {
  const known: Flags = { ...spec.flags, ...GLOBAL_FLAGS };
  const { tokens } = parseArgs({
    args: [...argv],
    options: optionsOf(known),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, readonly (string | true)[]>();
  const operands: string[] = [];
  const paths: string[] = [];
  let terminated = false;
  for (const token of tokens) {
    switch (token.kind) {
      case "option-terminator":
        terminated = true;
        break;
      case "positional":
        (terminated && spec.paths === true ? paths : operands).push(token.value);
        break;
      case "option":
        values.set(token.name, [...(values.get(token.name) ?? []), flagValue({ spec, known, token })]);
        break;
    }
  }
  const asked = values.has("help") || values.has("version");
  if (!asked) checkOperands(spec, operands);
  const input = { ...readerOf(values), operand: (at: number) => operands[at], operands, paths };
  return { input, globals: input };
}

function readerOf(values: ReadonlyMap<string, readonly (string | true)[]>) {
  const texts = (name: string) => (values.get(name) ?? []).filter((value) => value !== true);
  return { on: (name: string) => values.has(name), text: (name: string) => texts(name).at(-1), texts };
}

function optionsOf(flags: Flags) {
  const options: Record<string, { type: "boolean" | "string"; short?: string }> = {};
  for (const [name, flag] of Object.entries(flags)) {
    const type = flag.type === "boolean" ? "boolean" : "string";
    options[name] = flag.short === undefined ? { type } : { type, short: flag.short };
  }
  return options;
}

function flagOf(flags: Flags, name: string): Flag | undefined {
  return Object.hasOwn(flags, name) ? flags[name] : Object.values(flags).find((flag) => flag.short === name);
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function flagValue(params: {
  readonly spec: Pick<CommandSpec, "name" | "configFlags">;
  readonly known: Flags;
  readonly token: OptionToken;
}): string | true {
  const { token, known, spec } = params;
  const flag = Object.hasOwn(known, token.name) ? known[token.name] : undefined;
  if (flag === undefined) throw unknownFlag({ spec, typed: token.rawName, known });
  if (flag.type === "boolean") {
    if (token.value === undefined) return true;
    throw usage(spec.name, `${token.rawName} takes no value, but "${token.value}" was given`);
  }
  if (token.value === undefined)
    throw usage(spec.name, `${token.rawName} needs a value: ${token.rawName} ${flag.value}`);
  if (token.inlineValue !== true && /^--?[a-z]/i.test(token.value)) {
    throw usage(
      spec.name,
      `${token.rawName} needs a value, but "${token.value}" follows; write ${token.rawName}=${token.value} if it is the value`,
    );
  }
  if (flag.choices !== undefined && !flag.choices.includes(token.value)) {
    throw badChoice({ command: spec.name, what: token.rawName, typed: token.value, choices: flag.choices });
  }
  if (flag.completes === "run") refuseCheckpoint(token.rawName, token.value);
  return token.value;
}

/** Where a whole run is meant, the command would ignore the @7 of RUN@7 silently. */
function refuseCheckpoint(what: string, typed: string): void {
  const [run = "", at] = typed.split("@");
  if (at === undefined) return;
  throw usageError(
    `${typed} names a checkpoint, and ${what} takes a whole run`,
    `Name the run alone${run === "" ? "" : `: ${run}`}. \`holdfast show ${typed}\` shows that one checkpoint.`,
  );
}

function checkOperands(spec: Pick<CommandSpec, "name" | "operands" | "paths">, operands: readonly string[]): void {
  const surplus = spec.operands.at(-1)?.many === true ? undefined : operands[spec.operands.length];
  if (surplus !== undefined) {
    const takes =
      spec.operands.length === 0 ? "takes no arguments" : `takes ${spec.operands.map(({ name }) => name).join(" ")}`;
    throw usage(
      spec.name,
      `"${surplus}" is an extra argument: holdfast ${spec.name} ${takes}`,
      spec.paths === true
        ? `Paths go after --: holdfast ${spec.name} ${operands.slice(0, spec.operands.length).join(" ")} -- ${surplus}`
        : undefined,
    );
  }
  for (const [at, typed] of operands.entries()) {
    const { completes, alsoAddress } = spec.operands[at] ?? spec.operands.at(-1) ?? {};
    if (completes === "run" && alsoAddress !== true) refuseCheckpoint(`holdfast ${spec.name}`, typed);
  }
  for (const [at, operand] of spec.operands.entries()) {
    const typed = operands[at];
    if (typed === undefined) {
      if (operand.required)
        throw usage(
          spec.name,
          `An argument is missing: \`holdfast ${spec.name}\` needs ${operand.name} (${operand.about})`,
        );
    } else if (operand.choices !== undefined && !operand.choices.includes(typed)) {
      const { choices, synonyms = {} } = operand;
      const meant = Object.hasOwn(synonyms, typed) ? (synonyms[typed] ?? typed) : typed;
      throw badChoice({ command: spec.name, what: operand.name, typed, meant, choices });
    }
  }
}

function unknownFlag(params: {
  readonly spec: Pick<CommandSpec, "name" | "configFlags">;
  readonly typed: string;
  readonly known: Flags;
}): HoldfastError {
  const { name, configFlags = {} } = params.spec;
  const typed = params.typed.replace(/^-+/, "");
  const [guess] = nearest(typed, Object.keys(params.known));
  const hint = Object.hasOwn(configFlags, typed)
    ? `Set ${configFlags[typed]} in holdfast.config.yaml instead; see docs/config.md.`
    : guess === undefined
      ? undefined
      : `Did you mean --${guess}?`;
  const command = name === "" ? "holdfast" : `holdfast ${name}`;
  return usage(name, `There is no flag ${params.typed} in ${command}`, hint);
}

function badChoice(params: {
  readonly command: string;
  readonly what: string;
  readonly typed: string;
  readonly meant?: string;
  readonly choices: readonly string[];
}): HoldfastError {
  const { command, what, typed, meant = typed, choices } = params;
  return usage(command, `${what} cannot be "${typed}"`, choiceHint(meant, choices));
}

function usage(command: string, message: string, hint?: string): HoldfastError {
  const help = command === "" ? "See `holdfast --help`." : `See \`holdfast ${command} --help\`.`;
  return usageError(message, hint ?? help);
}

/** A whole number, 0 or more. */
export function parseCount(flag: string, text: string): number {
  const count = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(count)) return count;
  throw usageError(`--${flag} needs a whole number, not "${text}"`, `For example --${flag} 20.`);
}

/** How many items to show: a number, 1 or more, or "all" (undefined). */
export function parseLimit(text: string | undefined, fallback: number): number | undefined {
  if (text === undefined) return fallback;
  if (text === "all") return undefined;
  const limit = parseCount("limit", text);
  if (limit > 0) return limit;
  throw usageError("--limit 0 would show nothing", "Use --limit 1 or more, or --limit all.");
}

interface PlaceFlags {
  on(flag: "wait" | "force"): boolean;
  text(flag: "priority" | "max-loops"): string | undefined;
}

/** Reads the flags for a loop's slot and priority. */
export function readSlot(input: PlaceFlags): { readonly loopSlot: SlotOptions; readonly priority?: number } {
  const [wait, force] = [input.on("wait"), input.on("force")];
  const limit = input.text("max-loops");
  const priority = readPriority(input.text("priority"));
  return {
    loopSlot: {
      whenFull: force ? "force" : wait ? "wait" : "refuse",
      ...(limit === undefined ? {} : { limit: limit === "none" ? null : atLeastOne(limit) }),
    },
    ...(priority === undefined ? {} : { priority }),
  };
}

function readPriority(text: string | undefined): number | undefined {
  const priority = text === undefined ? undefined : parsePriority(text);
  if (text !== undefined && priority === undefined)
    throw slotUsage(`--priority cannot be "${text}"`, "Give low, normal, high, or a number from -100 to 100.");
  return priority;
}

function atLeastOne(text: string): number {
  const count = parseCount("max-loops", text);
  if (count > 0) return count;
  throw slotUsage("--max-loops 0 would not let any loop run", "Give a number of 1 or more, or none.");
}

function slotUsage(message: string, hint: string): HoldfastError {
  return usageError(message, hint);
}
