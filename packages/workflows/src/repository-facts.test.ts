import { describe, expect, test } from "vitest";
import { findTemplate, findTestCommand, findTitles } from "./repository-facts.ts";

const times = (count: number, subject: string): readonly string[] =>
  Array.from({ length: count }, (_, nth) => subject.replace("%", String(nth)));

describe("the form of a repository's titles", () => {
  test.each([
    ["conventional commits", times(30, "feat(core): add %"), "conventional", ["feat"]],
    ["types in capitals, breaking, squashed", times(9, "Fix!: repair % (#12)"), "conventional", ["fix"]],
    ["tags", [...times(4, "[Clang][Sema] Fix %"), ...times(5, "[lld] Fix %")], "tagged", ["lld", "Clang"]],
    ["tags with numbers", times(6, "[feat][#7] Add %"), "numbered", ["feat"]],
    ["sentences", times(6, "Add %"), "plain", []],
    ["subsystems of a kernel are not types", times(6, "net/http: fix %"), "plain", []],
    ["exactly 60 %", [...times(6, "fix: %"), ...times(4, "Add %")], "conventional", ["fix"]],
    ["less than 60 %", [...times(29, "fix: %"), ...times(11, "Add %"), ...times(10, "[x] %")], null, []],
    [
      "only the newest 50 count",
      [...times(30, "fix: %"), ...times(20, "Add %"), ...times(500, "Add %")],
      "conventional",
      ["fix"],
    ],
    [
      "reverts and merges do not count",
      [...times(60, 'Revert "fix: %"'), ...times(40, "Merge branch '%'"), ...times(5, "fix: %")],
      "conventional",
      ["fix"],
    ],
    ["conventional reverts neither", [...times(20, "revert: fix: %"), ...times(5, "Add %")], "plain", []],
    ["too few subjects", times(4, "fix: %"), null, []],
    ["no history", [], null, []],
  ])("%s", (_, subjects, form, tags) => {
    expect(findTitles(subjects)).toMatchObject({ form, tags });
  });

  test("gives three short examples without the number of a squash", () => {
    const subjects = [`fix: ${"x".repeat(500)}`, ...times(9, "fix: repair % (#12)")];
    expect(findTitles(subjects).examples).toEqual(["fix: repair 0", "fix: repair 1", "fix: repair 2"]);
  });
});

describe("the template of a repository's pull requests", () => {
  const files = (...paths: readonly string[]) => paths.map((path) => ({ path, text: `## ${path}\n` }));
  test.each([
    [["PULL_REQUEST_TEMPLATE.md"], "github", "PULL_REQUEST_TEMPLATE.md"],
    [
      ["docs/pull_request_template.md", ".github/PULL_REQUEST_TEMPLATE.md"],
      "github",
      ".github/PULL_REQUEST_TEMPLATE.md",
    ],
    [["docs/pull_request_template.txt"], "local", "docs/pull_request_template.txt"],
    [[".github/PULL_REQUEST_TEMPLATE/one.md"], "github", ".github/PULL_REQUEST_TEMPLATE/one.md"],
    [[".github/PULL_REQUEST_TEMPLATE/one.md", ".github/PULL_REQUEST_TEMPLATE/two.md"], "github", null],
    [
      [".gitlab/merge_request_templates/Bug.md", ".gitlab/merge_request_templates/Default.md"],
      "gitlab",
      ".gitlab/merge_request_templates/Default.md",
    ],
    [
      ["PULL_REQUEST_TEMPLATE.md", ".gitlab/merge_request_templates/x.md"],
      "gitlab",
      ".gitlab/merge_request_templates/x.md",
    ],
    [["PULL_REQUEST_TEMPLATE.md", ".gitlab/merge_request_templates/x.md"], "github", "PULL_REQUEST_TEMPLATE.md"],
    [["src/pull_request_template.md", "AGENTS.md"], "github", null],
  ])("of %j at %s it is %j", (paths, forge, expected) => {
    expect(findTemplate(files(...paths), forge)?.path ?? null).toBe(expected);
  });
  test("an empty one is none", () => {
    expect(findTemplate([{ path: "PULL_REQUEST_TEMPLATE.md", text: " \n" }], "github")).toBe(null);
  });
});

test.each([
  [{ "package.json": '{"scripts":{"test":"vitest"}}' }, "npm test"],
  [{ "package.json": '{"scripts":{"test":"vitest"}}', "pnpm-lock.yaml": "" }, "pnpm test"],
  [{ "package.json": '{"scripts":{"test":"jest"}}', "yarn.lock": "" }, "yarn test"],
  [
    { "package.json": '{"scripts":{"test":"echo \\"Error: no test specified\\" && exit 1"}}', "go.mod": "" },
    "go test ./...",
  ],
  [{ "package.json": "{", Makefile: "all:\n\ntest: all\n\t./t\n" }, "make test"],
  [{ "package.json": '{"scripts":{"test":3}}' }, null],
  [{ "Cargo.toml": "" }, "cargo test"],
  [{ "pyproject.toml": "[tool.pytest.ini_options]\n" }, "python -m pytest"],
  [{ "pyproject.toml": "[project]\n" }, null],
  [{}, null],
])("the test command of %j is %j", (files, command) => {
  expect(findTestCommand(Object.entries(files).map(([path, text]) => ({ path, text: text ?? "" })))).toBe(command);
});
