import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadCommands } from "../src/cli/command-table.ts";
import { parseArguments, splitCommand } from "../src/cli/parse-arguments.ts";

const ROOT = join(import.meta.dirname, "../../..");
const PAGES = ["README.md", ...readdirSync(join(ROOT, "docs")).map((name) => `docs/${name}`)].filter((name) =>
  name.endsWith(".md"),
);
const COMMANDS = await loadCommands();

/** The `holdfast` commands in the shell blocks of a page. */
function commandsOf(page: string): readonly string[] {
  const blocks = readFileSync(join(ROOT, page), "utf8").matchAll(/^```(?:sh|bash|console)\n([^]*?)^```/gm);
  return [...blocks].flatMap(([, block = ""]) =>
    block
      .replaceAll("\\\n", " ")
      .split("\n")
      .flatMap(
        (line) =>
          /(?:^|[;&|(] *|\$ )(?:[A-Z_]+=\S+ )*(?:npx )?(holdfast (?:"[^"]*"|'[^']*'|[^#|>;&)"'])*)/
            .exec(line)?.[1]
            ?.trim() ?? [],
      ),
  );
}

/** Words as a shell splits them, for the quotes that the pages use. */
function wordsOf(command: string): readonly string[] {
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? "",
  );
}

const shown = PAGES.flatMap((page) => commandsOf(page).map((command) => ({ page, command })));

test("the pages show many commands", () => expect(shown.length).toBeGreaterThan(100));

test.each(shown)("$page: $command", ({ command }) => {
  const specs = COMMANDS.map(({ spec }) => spec);
  const { name, rest } = splitCommand(wordsOf(command).slice(1), specs);
  if (name === undefined) return expect(rest.length).toBeGreaterThan(0);
  const spec = specs.find((known) => known.name === name);
  if (spec === undefined) throw new Error(`there is no command ${name}`);
  expect(() => parseArguments(spec, rest)).not.toThrow();
});
