import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { editIssue, formatIssue, parseIssue } from "./local-issues.ts";

const CHANGED = new Date("2026-03-01T12:00:00.000Z");
const word = fc.stringMatching(/^[a-z][a-z0-9 :#'"-]{0,20}[a-z]$/);
const anIssue = fc.record({
  title: fc.string({ minLength: 1 }).filter((text) => text.trim() !== "" && !/[\n\r\0]/.test(text)),
  body: fc.string().map((text) => text.replaceAll("\r", "")),
  labels: fc.uniqueArray(word, { maxLength: 4 }),
  state: fc.constantFrom("open", "closed"),
});

describe("an issue file", () => {
  test("a written issue is read back unchanged", () => {
    fc.assert(
      fc.property(anIssue, (issue) => {
        expect(parseIssue(formatIssue(issue), CHANGED)).toEqual({
          kind: "issue",
          issue: { ...issue, updatedAt: CHANGED.toISOString() },
        });
      }),
    );
  });

  test("an edit changes its fields and nothing else that a user wrote", () => {
    fc.assert(
      fc.property(anIssue, fc.uniqueArray(word, { maxLength: 3 }), (issue, labels) => {
        const text = editIssue(formatIssue(issue), { labels, state: "closed", at: "2026-04-01T00:00:00.000Z" });
        expect(parseIssue(text, CHANGED)).toMatchObject({ issue: { ...issue, labels, state: "closed" } });
      }),
    );
    const mine = "---\n# my own note\ntitle: Greet # loudly\nowner: ada\nupdatedAt: 2026-01-01\n---\nBody\n";
    expect(editIssue(mine, { state: "closed", at: "2026-04-01T00:00:00.000Z" })).toBe(
      "---\n# my own note\ntitle: Greet # loudly\nowner: ada\nupdatedAt: 2026-04-01T00:00:00.000Z\nstate: closed\n---\nBody\n",
    );
  });

  test.each([
    [
      "assignees",
      "---\ntitle: T\nassignees: [ada, bob]\n---\n",
      { title: "T", body: "", labels: [], assignees: ["ada", "bob"] },
    ],
    ["no front matter", "# Greet people\n\nSay hello.\n", { title: "Greet people", body: "Say hello.\n", labels: [] }],
    ["only a title line", "Greet people", { title: "Greet people", body: "" }],
    [
      "front matter without a title",
      "---\nlabels: [a]\n---\n\n## Greet\nBody",
      { title: "Greet", body: "Body", labels: ["a"] },
    ],
    [
      "labels as a line",
      "---\ntitle: x\nlabels: bug, good first issue\n---\n",
      { labels: ["bug", "good first issue"] },
    ],
    ["a number for a title", "---\ntitle: 42\n---\n", { title: "42" }],
    [
      "Windows line ends and a byte order mark",
      "\uFEFF---\r\ntitle: x\r\nstate: closed\r\n---\r\nBody\r\n",
      { state: "closed", body: "Body\n" },
    ],
    [
      "a custom time",
      "---\ntitle: x\nupdatedAt: 2026-01-02T03:04:05Z\n---\n",
      { updatedAt: "2026-01-02T03:04:05.000Z" },
    ],
    ["a rule in the body", "---\ntitle: x\n---\none\n---\ntwo\n", { title: "x", body: "one\n---\ntwo\n" }],
    ["empty front matter", "---\n---\nTitle here\n", { title: "Title here" }],
  ])("valid: %s", (_name, text, issue) => {
    expect(parseIssue(text, CHANGED)).toMatchObject({ kind: "issue", issue });
  });

  test.each([
    ["an empty file", "", "no title"],
    ["invalid YAML", "---\ntitle: [x\n---\n", "front matter"],
    ["aliases that grow", `---\na: &a [1]\nb: [${"*a,".repeat(200)}]\n---\n`, "Excessive alias count"],
    ["a list instead of fields", "---\n- a\n---\n", "front matter"],
    ["a duplicate key", "---\ntitle: x\ntitle: y\n---\n", "front matter"],
    ["an unknown state", "---\ntitle: x\nstate: doing\n---\n", '"doing"'],
    ["labels that are a map", "---\ntitle: x\nlabels: {a: 1}\n---\n", "labels"],
    ["a title that is a list", "---\ntitle: [x]\n---\n", "title"],
    ["an invalid time", "---\ntitle: x\nupdatedAt: soon\n---\n", "updatedAt"],
  ])("damaged: %s", (_name, text, why) => {
    const parsed = parseIssue(text, CHANGED);
    expect(parsed.kind === "damaged" && parsed.why).toContain(why);
  });
});
