import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ConfigProblem } from "@holdfast/formats/settings-file";
import { parseConfig } from "./schema.ts";

function problems(text: string): readonly ConfigProblem[] {
  const parsed = parseConfig(text);
  return parsed.ok ? [] : parsed.problems;
}

test("arguments per agent, without reserved ones", () => {
  expect(parseConfig("agents:\n  args:\n    codex: [--sandbox, read-only]\n")).toMatchObject({
    values: { agents: { args: { codex: ["--sandbox", "read-only"] } } },
  });
  expect(problems("agents: { args: { codex: [--model, x] } }")).toMatchObject([
    { message: expect.stringContaining("arguments by agent, such as") },
  ]);
});

test("prices by provider and model; a cached token costs as much as others unless configured", () => {
  const parsed = parseConfig(
    "prices:\n  codex:gpt-5.5: { input: 1.25, cached: 0.125, output: 10 }\n  x:y: { input: 2, output: 3 }\n",
  );
  expect(parsed).toMatchObject({
    ok: true,
    values: {
      prices: {
        "codex:gpt-5.5": { input: 1.25, cached: 0.125, output: 10 },
        "x:y": { input: 2, cached: 2, output: 3 },
      },
    },
  });
  for (const wrong of [
    "x:y: 3",
    "x:y: { input: 2 }",
    "x:y: { input: -1, output: 1 }",
    "x:y: { input: 1, output: 1, in: 2 }",
  ])
    expect(problems(`prices: { ${wrong} }`)).toMatchObject([
      { message: expect.stringContaining("prices by provider:model") },
    ]);
});

describe("valid settings", () => {
  test("every key", () => {
    const parsed = parseConfig(`
store: ../state
retention:
  keep: { automatic: 20, stage: { keep: 3, per: stage }, default: all }
  maxAge: 90d
  onSuccess: by_rules
  onFailure: keep_recent
  recent: 12h
  maxBytes: 5GB
workspace:
  maxUntrackedBytes: 20MB
  includeIgnored: true
  worktrees: ../trees
gc:
  auto: false
`);
    expect(parsed).toMatchObject({
      ok: true,
      values: {
        store: "../state",
        retention: {
          keep: {
            automatic: { keep: 20, per: "run" },
            stage: { keep: 3, per: "stage" },
            default: { keep: "all", per: "run" },
          },
          maxAge: 90,
          recent: 0.5,
          maxBytes: 5e9,
        },
        workspace: { maxUntrackedBytes: 2e7, includeIgnored: true, worktrees: "../trees" },
        gc: { auto: false },
      },
    });
    expect(parsed.ok && parsed.lines.get("retention.maxAge")).toBe(5);
  });

  test.each(["", "# only a comment\n", "{}", "retention: {}"])("%j sets nothing", (text) =>
    expect(parseConfig(text).ok).toBe(true),
  );
});

describe("an invalid setting is shown with its line", () => {
  test("an unknown key, with the nearest known one", () => {
    expect(problems("retention:\n  maxAeg: 30d\n")).toEqual([
      {
        line: 2,
        column: 3,
        message: 'unknown key "maxAeg" in retention',
        hint: "Did you mean maxAge?",
        excerpt: "2 |   maxAeg: 30d\n  |   ^^^^^^",
      },
    ]);
    expect(problems("retension: {}")[0]).toMatchObject({ line: 1, column: 1, hint: "Did you mean retention?" });
    expect(problems("retention:\n  keep:\n    automatc: 3\n")[0]).toMatchObject({
      line: 3,
      column: 5,
      hint: "Did you mean automatic?",
    });
    expect(problems("colour: red")[0]?.hint).toMatch(/^Known keys: store, retention/);
  });

  test.each([
    ["workspace:\n  maxUntrackedBytes: 20 parsecs\n", 2, 22, /expected a size such as 20MB/],
    ["retention: { maxAge: 30 }", 1, 22, /expected a duration/],
    ["retention:\n  keep:\n    automatic: -1\n", 3, 16, /how many to keep/],
    ["retention:\n  keep:\n    automatic: { keep: 5, per: week }\n", 3, 16, /how many to keep/],
    ["gc:\n  auto: yes\n", 2, 9, /expected true or false/],
    ["retention: 5\n", 1, 12, /retention: expected keys and values/],
    ["- a\n- b\n", 1, 1, /the file: expected keys and values/],
    ["store: ''\n", 1, 8, /expected a directory/],
    // A misspelt kind would switch the question off.
    ["approve: [pull-request]\n", 1, 10, /built in are push, pull_request/],
    ["approve: push\n", 1, 10, /a list of kinds of effects/],
    ["store: { maxSize: much }\n", 1, 8, /maxSize: 5GB/],
    ["store: { maxsize: 5GB }\n", 1, 8, /maxSize: 5GB/],
    ["retention:\n  onSuccess: sometimes\n", 2, 14, /one of keep_latest, latest_only, by_rules/],
    ["gc: { auto: true\n", 1, 0, /./],
    ["gc: {}\ngc: {}\n", 2, 1, /unique/],
    ["store: !!js/function x\n", 1, 8, /tag/i],
  ])("%j", (text, line, column, message) => {
    const [first] = problems(text);
    expect(first?.message).toMatch(message);
    if (column > 0) expect([first?.line, first?.column]).toEqual([line, column]);
  });

  test("all of them at once, in the order of lines", () => {
    expect(problems("gc: { auot: true }\nstore: 5\nworkspace:\n  worktrees: []\n").map(({ line }) => line)).toEqual([
      1, 2, 4,
    ]);
  });

  test("an alias bomb is refused, not expanded", () => {
    const bomb = [
      "a: &a [x,x,x,x,x,x,x,x,x]",
      ..."bcdefgh".split("").map((key, at) => `${key}: &${key} [${Array(9).fill(`*${"abcdefg"[at]}`).join(",")}]`),
    ];
    expect(problems(bomb.join("\n")).length).toBeGreaterThan(0);
  });
});

test("any text is either settings or problems with a line", () => {
  const line = fc.oneof(
    fc.string(),
    fc.constantFrom(
      "retention:",
      "  keep:",
      "    manual: all",
      "gc: {auto: true}",
      "store: x",
      "? a",
      "- b",
      "__proto__: 1",
    ),
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 6 }), (lines) => {
      const parsed = parseConfig(lines.join("\n"));
      if (parsed.ok) return;
      expect(parsed.problems.length).toBeGreaterThan(0);
      for (const problem of parsed.problems)
        expect(problem.line >= 1 && problem.column >= 1 && problem.excerpt.includes("^")).toBe(true);
    }),
  );
});
