import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import type { CommandSpec } from "./command.ts";
import { loadCommands } from "./command-table.ts";
import { spec as diffSpec } from "./commands/diff.ts";
import { spec as listSpec } from "./commands/list.ts";
import { spec as queueSpec } from "./commands/queue.ts";
import { spec as restoreSpec } from "./commands/restore.ts";
import { spec as resumeSpec } from "./commands/resume.ts";
import { spec as statusSpec } from "./commands/status.ts";
import { spec as storeSpec } from "./commands/store.ts";
import { parseArguments, splitCommand } from "./parse-arguments.ts";

const COMMANDS = await loadCommands();

function failure(action: () => unknown): HoldfastError {
  try {
    action();
  } catch (error) {
    if (error instanceof HoldfastError) return error;
  }
  throw new Error("did not fail with a HoldfastError");
}

describe("splitCommand", () => {
  test("global flags may stand before the command, with their values", () => {
    expect(splitCommand(["--json", "--store", "list", "show", "x"], [])).toEqual({
      name: "show",
      rest: ["--json", "--store", "list", "x"],
    });
    expect(splitCommand(["--store=a", "-q", "list"], [])).toEqual({ name: "list", rest: ["--store=a", "-q"] });
  });

  test("so may the command's own", () => {
    const specs = COMMANDS.map(({ spec }) => spec);
    expect(splitCommand(["-n", "2", "list"], specs)).toEqual({ name: "list", rest: ["-n", "2"] });
    expect(splitCommand(["--name", "list", "checkpoint"], specs).name).toBe("checkpoint");
    expect(splitCommand(["--limit=2", "--dry-run", "gc"], specs).name).toBe("gc");
  });

  test("a flag that has a value in one command and none in another", () => {
    const specs = COMMANDS.map(({ spec }) => spec);
    expect(splitCommand(["--values", "show", "r@1"], specs)).toEqual({ name: "show", rest: ["--values", "r@1"] });
    expect(splitCommand(["--values", "-", "checkpoint"], specs)).toEqual({
      name: "checkpoint",
      rest: ["--values", "-"],
    });
  });

  test("no command", () => {
    expect(splitCommand(["format", "--to", "atif", "export", "r"], [])).toEqual({
      name: "format export",
      rest: ["--to", "atif", "r"],
    });
    expect(splitCommand(["format", "--", "export"], []).name).toBe("format");
    expect(splitCommand(["--help"], []).name).toBeUndefined();
    expect(splitCommand(["--", "list"], []).name).toBeUndefined();
  });
});

describe("parseArguments", () => {
  test("flags, operands and paths in any order", () => {
    const { input, globals } = parseArguments(diffSpec, ["a@1", "--json", "b@2", "--stat", "--", "--weird", "src"]);
    expect([input.operand(0), input.operand(1), input.paths]).toEqual(["a@1", "b@2", ["--weird", "src"]]);
    expect([input.on("stat"), input.on("name-only"), globals.on("json"), globals.on("quiet")]).toEqual([
      true,
      false,
      true,
      false,
    ]);
  });

  test("values by space, by equals sign, by short name", () => {
    for (const argv of [["--limit", "5"], ["--limit=5"], ["-n", "5"], ["-n5"]]) {
      expect(parseArguments(listSpec, argv).input.text("limit")).toBe("5");
    }
  });

  test.each([
    [listSpec, ["--limt", "5"], /no flag --limt/, "Did you mean --limit?"],
    [listSpec, ["--lim", "5"], /no flag --lim/, "Did you mean --limit?"],
    [listSpec, ["--jsno"], /no flag --jsno/, "Did you mean --json?"],
    [listSpec, ["--zzzzzz"], /no flag --zzzzzz/, "See `holdfast list --help`."],
    [listSpec, ["-z"], /no flag -z/, "See `holdfast list --help`."],
    [listSpec, ["--limit"], /--limit needs a value: --limit N/, /help/],
    [listSpec, ["--limit", "--json"], /--limit=--json/, /help/],
    [listSpec, ["--json=yes"], /takes no value/, /help/],
    [listSpec, ["a", "b"], /"b" is an extra argument/, /help/],
    [listSpec, ["--trigger", "manuel"], /"manuel"/, /^Did you mean manual\?/],
    [restoreSpec, [], /needs ADDRESS/, /help/],
    [restoreSpec, ["--toString"], /no flag --toString/, /help/],
    [
      statusSpec,
      ["r@99"],
      "r@99 names a checkpoint, and holdfast status takes a whole run",
      "Name the run alone: r. `holdfast show r@99` shows that one checkpoint.",
    ],
    [queueSpec, ["--cancel", "r@2"], /and --cancel takes a whole run/, /alone: r\./],
    [storeSpec, ["a", "b", "r", "s@latest"], /s@latest names a checkpoint/, /alone: s\./],
  ])("$0.name $1", (spec: CommandSpec, argv, message, hint) => {
    const error = failure(() => parseArguments(spec, argv));
    expect(error.code).toBe("USAGE");
    expect(error.message).toMatch(message);
    expect(error.hint).toEqual(typeof hint === "string" ? hint : expect.stringMatching(hint));
  });

  test("a checkpoint is understood where the command takes one", () => {
    expect(parseArguments(resumeSpec, ["r@7"]).input.operand(0)).toBe("r@7");
    expect(parseArguments(restoreSpec, ["r@7"]).input.operand(0)).toBe("r@7");
  });

  test("--help asks for no operands", () => {
    expect(parseArguments(restoreSpec, ["--help"]).globals.on("help")).toBe(true);
  });

  test("any words are either understood or refused with USAGE", () => {
    const word = fc.oneof(
      fc.string(),
      fc.constantFrom("--limit", "--json", "--", "-", "-n", "--trigger=manual", "--store"),
    );
    fc.assert(
      fc.property(fc.constantFrom(...COMMANDS), fc.array(word, { maxLength: 6 }), (command, argv) => {
        try {
          parseArguments(command.spec, argv);
        } catch (error) {
          expect(error instanceof HoldfastError && error.code).toBe("USAGE");
        }
      }),
    );
  });
});
