import { describe, expect, test } from "vitest";
import { defaultImplOptions } from "./options.ts";
import { closes } from "../publish/closing-body.ts";
import { bodyOf, checkTitle, titleOf } from "./pull-request-text.ts";

const { tags } = defaultImplOptions;
const issue = { number: 42, title: "Add x", body: "", labels: [], state: "open" as const, updatedAt: "" };
const check = (title: string) => checkTitle({ title, issue: 42, tags });

describe("title with another issue's number", () => {
  test.each(["[feat][#43] Add x", "[feat][#4] Add x", "[feat][#420] Add x", "[feat][#042] Add x"])(
    "%s is refused",
    (title) => {
      expect(check(title)).toEqual({ kind: "invalid", why: expect.stringContaining("this run is for issue #42") });
    },
  );
});

describe("the title rule", () => {
  test.each(["[feat][#42] Add x", "[agent.skill] [#42] Add x", "  [cli][#42]  é"])("%j fits", (title) => {
    expect(check(title)).toEqual({ kind: "valid", title: title.trim() });
  });
  test.each([
    "Add x",
    "[feat] Add x",
    "[feat][#42]",
    "[feat][#42]Add x",
    "[feet][#42] Add x",
    "[Feat][#42] x",
    "x [feat][#42] y",
    "",
  ])("%j does not, and the rule is told", (title) => {
    expect(check(title)).toEqual({ kind: "invalid", why: expect.stringContaining("[tag][#42] Brief description") });
  });
  test.each([["x".repeat(900_000)], ["\u001b[31mred"], ["a\u0000b"], ["a\u0085b"]])(
    "%#: too long a title, or one with control characters, is refused in few words",
    (words) => {
      const verdict = check(`[feat][#42] ${words}`);
      expect(verdict).toEqual({ kind: "invalid", why: expect.stringContaining("[tag][#42] Brief description") });
      expect(JSON.stringify(verdict).length).toBeLessThan(400);
      expect(JSON.stringify(check(words)).length).toBeLessThan(400);
    },
  );
  test("one made from an issue's own title always fits", () => {
    for (const words of ["x".repeat(3000), "a\u001bb\nc", " \u0007 "])
      expect(check(titleOf(null, { ...issue, title: words }, tags)).kind).toBe("valid");
  });
  test("a tag with letters that mean something in patterns is only itself", () => {
    expect(check("[agentXskill][#42] x").kind).toBe("invalid");
  });
  test("an agent that gave none gets one that fits", () => {
    const title = titleOf({ title: null, body: "" }, issue, tags);
    expect(title).toBe("[feat][#42] Add x");
    expect(check(title).kind).toBe("valid");
  });
});

describe("closes #420 is not closes #42", () => {
  test.each(["closes #420", "Closes #421 and #42", "discloses #42", "see #42", "closes 42", ""])(
    "%j closes nothing of ours",
    (body) => {
      expect(closes(body, 42)).toBe(false);
      expect(bodyOf({ title: "t", body }, issue)).toMatch(/(?:^|\n\n)Closes #42$/);
    },
  );
  test.each(["closes #42", "It Closes #42.", "CLOSES  # 42", "closes #420, closes #42"])("%j does", (body) => {
    expect(closes(body, 42)).toBe(true);
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
