import { expect, test } from "vitest";
import { SUBCOMMANDS } from "../command.ts";
import { loadCommands } from "../command-table.ts";
import { planCompletion } from "./complete.ts";

const COMMANDS = await loadCommands();

const specs = COMMANDS.map(({ spec }) => spec);
const plan = (...words: string[]) => planCompletion({ specs, words });

test.each([
  [["lis"], "words"],
  [["list", ""], "runs"],
  [["--json", "list", ""], "runs"],
  [["list", "--limit", "5", ""], "runs"],
  [["restore", ""], "addresses"],
  [["diff", "a@1", ""], "addresses"],
  [["diff", "a@1", "--", ""], "files"],
  [["format", "import", ""], "files"],
  [["format", "export", ""], "addresses"],
  [["--store", ""], "directories"],
  [["checkpoint", "--run", ""], "runs"],
  [["checkpoint", "--values", ""], "files"],
])("%j offers %s", (words, kind) => expect(plan(...words).kind).toBe(kind));

test("completes commands without the hidden one, flags, choices, nothing", () => {
  expect(plan("")).toMatchObject({ words: expect.arrayContaining(["list", "restore"]) });
  expect(plan("")).not.toMatchObject({ words: expect.arrayContaining(["complete"]) });
  expect(plan("list", "--")).toMatchObject({ words: expect.arrayContaining(["--limit", "--json"]) });
  expect(plan("list", "--trigger", "")).toMatchObject({ words: expect.arrayContaining(["manual"]) });
  expect(plan("completion", "")).toMatchObject({ words: ["bash", "zsh", "fish"] });
  expect(plan("format", "")).toMatchObject({ words: expect.arrayContaining(["import", "mirror"]) });
  const subcommands = [...SUBCOMMANDS.format, ...SUBCOMMANDS.store];
  expect(plan("help", "format", "")).toEqual({ ...plan("format", ""), words: subcommands });
  expect(plan("store", "")).toMatchObject({ words: ["copy", "push", "fetch"] });
  expect(plan("format", "export", "--")).toMatchObject({ words: expect.arrayContaining(["--to", "--json"]) });
  expect(plan("")).not.toMatchObject({ words: expect.arrayContaining(["format import"]) });
  expect(plan("restore", "a@1", "")).toEqual({ kind: "words", words: [] });
  expect(plan("help", "")).toMatchObject({ words: expect.arrayContaining(["gc"]) });
});
