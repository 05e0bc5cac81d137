import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { loadCommands } from "../command-table.ts";
import { type Flag, GLOBAL_FLAGS, currentFlags } from "../command.ts";
import { parseArguments, splitCommand } from "../parse-arguments.ts";
import { commandText, overviewText, referenceMarkdown, unknownCommand } from "./help.ts";

const COMMANDS = await loadCommands();

test.each(COMMANDS.filter(({ spec }) => spec.hidden !== true).map(({ spec }) => spec.name))(
  "a misspelt %s is taken for it, not for the old name of another command",
  (name) => {
    const { hint } = unknownCommand(`${name.slice(0, -1)}_${name.slice(-1)}`, COMMANDS);
    expect(hint).toBe(`Did you mean \`holdfast ${name}\`?`);
  },
);

describe.each(COMMANDS.map(({ spec }) => ({ name: spec.name, spec })))("holdfast help $name", ({ spec }) => {
  const text = commandText(spec);

  test("mentions every flag and operand that the parser knows, and no old spelling", () => {
    for (const name of [...Object.keys(currentFlags(spec.flags)), ...Object.keys(GLOBAL_FLAGS)])
      expect(text).toMatch(new RegExp(`--${name}\\b`));
    for (const [name, flag] of Object.entries<Flag>(spec.flags))
      if (flag.instead !== undefined) expect(text).not.toMatch(new RegExp(`--${name}\\b`));
    for (const operand of spec.operands) expect(text).toContain(operand.name);
  });

  test("has three examples, says what --json prints, and fits 80 columns", () => {
    expect(spec.examples.length).toBeGreaterThanOrEqual(spec.hidden === true ? 1 : 3);
    expect(text).toContain("With --json");
    for (const line of text.split("\n")) expect(line.length, line).toBeLessThanOrEqual(80);
  });

  test("the parser accepts its examples", () => {
    for (const { line } of spec.examples) {
      for (const [, words = ""] of line.matchAll(/\bholdfast (.*?)(?= (?:&&|\||>) |\)|$)/g)) {
        const argv = (words.match(/"[^"]*"|'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll(/^["']|["']$/g, ""));
        const { name, rest } = splitCommand(argv, []);
        const used = COMMANDS.find((one) => one.spec.name === name);
        if (used === undefined) expect.fail(`${line}: there is no command ${name}`);
        expect(() => parseArguments(used.spec, rest), line).not.toThrow();
      }
    }
  });

  test("has each flag under one heading", () => {
    const names = Object.keys(currentFlags(spec.flags));
    expect(
      Object.values(spec.flagGroups ?? { Flags: names })
        .flat()
        .toSorted(),
    ).toEqual(names.toSorted());
  });

  test("no flag of its own hides a global one", () => {
    const shorts = [...Object.values(spec.flags), ...Object.values(GLOBAL_FLAGS)].flatMap((flag) =>
      "short" in flag ? [flag.short] : [],
    );
    expect(new Set(shorts).size).toBe(shorts.length);
    for (const name of Object.keys(GLOBAL_FLAGS)) expect(spec.flags).not.toHaveProperty(name);
  });
});

test("commands that change something have a dry run", () => {
  for (const name of ["run", "resume", "checkpoint", "tag", "restore", "fork", "gc", "verify", "setup"]) {
    expect(COMMANDS.find(({ spec }) => spec.name === name)?.spec.flags, name).toHaveProperty("dry-run");
  }
});

test("the overview names every visible command, within 80 columns", () => {
  const text = overviewText(COMMANDS);
  for (const { spec } of COMMANDS)
    expect(text.includes(`  ${spec.name} `), spec.name).toBe(spec.hidden !== true && !spec.name.includes(" "));
  for (const line of text.split("\n")) expect(line.length, line).toBeLessThanOrEqual(80);
});

test("on a narrow page only unbreakable words are wider", () => {
  const whole = new Set(COMMANDS.flatMap(({ spec }) => spec.examples.map(({ line }) => `  ${line}`)));
  for (const text of [overviewText(COMMANDS, 44), ...COMMANDS.map(({ spec }) => commandText(spec, 44))]) {
    for (const line of text.split("\n")) {
      const fixed = whole.has(line) || /^(Usage: | *holdfast[: ])/.test(line) || /^ *\S+$/.test(line);
      if (!fixed) expect(line.length, line).toBeLessThanOrEqual(44);
    }
  }
});

test("docs/cli.md is what `holdfast help --markdown` prints", async () => {
  const page = await readFile(new URL("../../../../../docs/cli.md", import.meta.url), "utf8");
  expect(page).toBe(referenceMarkdown(COMMANDS));
});
