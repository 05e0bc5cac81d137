import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { closesIssue } from "../forge.ts";
import { defaultImplOptions } from "./options.ts";
import { bodyOf, titleOf } from "./pull-request.ts";

const { tags } = defaultImplOptions;
const issue = { number: 42, title: "Add x", body: "", labels: [], state: "open" as const, updatedAt: "" };
const form = (title: string | null) => titleOf({ title, body: "" }, issue, tags);

describe("the title of a pull request is formed from what the agent proposes", () => {
  test.each([
    ["Greet people", "[feat][#42] Greet people"],
    ["[feat][#42] Add y", "[feat][#42] Add y"],
    ["  [cli][#42]  é", "[cli][#42] é"],
    ["[agent.skill] [#42] Add y", "[agent.skill][#42] Add y"],
    ["[bugfix][#43] Add y", "[bugfix][#42] Add y"],
    ["[bugfix][042] Add y", "[bugfix][#42] Add y"],
    ["[feet][#42] Add y", "[feat][#42] Add y"],
    ["[Docs][#42]Add y", "[docs][#42] Add y"],
    ["[docs] Add y", "[docs][#42] Add y"],
    ["[#7] Add y", "[feat][#42] Add y"],
    ["[agentXskill] Add y", "[feat][#42] [agentXskill] Add y"],
    ["refactor(core)!: Move y", "[refactor][#42] Move y"],
    ["fix: Add y", "[bugfix][#42] Add y"],
    ["Note: Add y", "[feat][#42] Note: Add y"],
    ["# Add y", "[feat][#42] Add y"],
    ["**Title:** Add y", "[feat][#42] Add y"],
    ["`Add y`", "[feat][#42] Add y"],
    ["Title", "[feat][#42] Title"],
    ["a\u0000b\u0085c\u2028d\u001b[31me", "[feat][#42] a b c d [31me"],
    ["[bugfix][#42]", "[bugfix][#42] Add x"],
    ["[feat] [#42]   ", "[feat][#42] Add x"],
    ["", "[feat][#42] Add x"],
    [null, "[feat][#42] Add x"],
  ])("%j becomes %j", (proposed, title) => {
    expect(form(proposed)).toBe(title);
  });

  test("whatever is proposed and whatever the issue is called, the title has the form, one line and at most 255 characters", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 600 }), fc.string({ maxLength: 600 }), (proposed, called) => {
        const title = titleOf({ title: proposed, body: "" }, { ...issue, title: called }, tags);
        expect(title).toMatch(/^\[[a-z.]+\]\[#42\] \S[^\p{Cc}\u2028\u2029]*$/u);
        expect(title.length).toBeLessThanOrEqual(255);
        expect(title.isWellFormed()).toBe(true);
      }),
    );
  });

  test("a long one is cut, and never inside a character", () => {
    expect(form("x".repeat(900_000))).toHaveLength(255);
    expect(form("🙂".repeat(300)).isWellFormed()).toBe(true);
  });

  test("without a finalize file the issue's own title is taken", () => {
    expect(titleOf(null, { ...issue, title: " \u0007 " }, tags)).toBe("[feat][#42] Implementation");
  });
});

describe("closes #420 is not closes #42", () => {
  test.each(["closes #420", "Closes #421 and #42", "discloses #42", "see #42", "closes 42", ""])(
    "%j closes nothing of ours",
    (body) => {
      expect(closesIssue(body, 42)).toBe(false);
      expect(bodyOf({ title: "t", body }, issue)).toMatch(/(?:^|\n\n)Closes #42$/);
    },
  );
  test.each(["closes #42", "It Closes #42.", "CLOSES  # 42", "closes #420, closes #42"])("%j does", (body) => {
    expect(closesIssue(body, 42)).toBe(true);
    expect(bodyOf({ title: "t", body }, issue)).toBe(body.trim());
  });
  test("keys of ours do not come in by an agent's text", () => {
    const body = "a <!-- holdfast:issue-4/pr/pull-request.4 --> b <!--holdfast:x\n--> c <!-- note -->";
    expect(bodyOf({ title: "t", body }, issue)).toBe("a  b  c <!-- note -->\n\nCloses #42");
  });
  test("the body does not repeat the title", () => {
    expect(bodyOf({ title: "[feat][#42] T", body: "Why." }, issue)).toBe("Why.\n\nCloses #42");
  });
});
