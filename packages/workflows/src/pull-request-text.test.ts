import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { closesIssue } from "./forge.ts";
import { defaultImplOptions } from "./impl/options.ts";
import { type BodyParams, type TitleParams, formBody, formTitle } from "./pull-request-text.ts";

const { tags } = defaultImplOptions;
const form = (proposed: string | null, kind: TitleParams["form"] = "numbered", otherwise = "Add x") =>
  formTitle({ proposed, otherwise, issue: 42, form: kind, tags });

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

  test.each([
    ["Greet people", "feat: greet people", "[feat] Greet people", "Greet people"],
    ["[bugfix][#42] Greet people", "fix: greet people", "[bugfix] Greet people", "Greet people"],
    ["[cli] API keys", "feat: API keys", "[cli] API keys", "API keys"],
    ["fix(core)!: Greet", "fix(core)!: Greet", "[bugfix] Greet", "Greet"],
    ["Perf: greet", "perf: greet", "[feat] Perf: greet", "greet"],
    ["[Sema] Greet", "feat: [Sema] Greet", "[Sema] Greet", "[Sema] Greet"],
    ["net/http: greet", "feat: net/http: greet", "[feat] net/http: greet", "net/http: greet"],
    ["[feat][#42]", "feat: add x", "[feat] Add x", "Add x"],
    [null, "feat: add x", "[feat] Add x", "Add x"],
  ])("%j becomes %j, %j or %j", (proposed, conventional, tagged, plain) => {
    expect(form(proposed, "conventional")).toBe(conventional);
    expect(form(proposed, "tagged")).toBe(tagged);
    expect(form(proposed, "plain")).toBe(plain);
  });

  test("each of the seed's thirteen tags stays as it is", () => {
    expect(tags).toHaveLength(13);
    for (const tag of tags) expect(form(`[${tag}][#42] Add y`)).toBe(`[${tag}][#42] Add y`);
  });

  const SHAPES: Readonly<Record<TitleParams["form"], RegExp>> = {
    numbered: /^\[[a-z.]+\]\[#42\] \S[^\p{Cc}\u2028\u2029]*$/u,
    tagged: /^\[[^[\]]{1,40}\] \S[^\p{Cc}\u2028\u2029]*$/u,
    conventional: /^[a-z]+(?:\([^()]+\))?!?: \S[^\p{Cc}\u2028\u2029]*$/u,
    plain: /^\S[^\p{Cc}\u2028\u2029]*$/u,
  };
  test.each(["numbered", "tagged", "conventional", "plain"] as const)(
    "for any proposal and issue title, a %s title has the form, one line and at most 255 characters",
    (kind) => {
      fc.assert(
        fc.property(
          fc.string({ unit: "binary", maxLength: 300 }),
          fc.string({ maxLength: 300 }),
          (proposed, called) => {
            for (const one of [proposed, `[${proposed}] x`, `fix(${proposed}): x`]) {
              const title = form(one, kind, called);
              expect(title).toMatch(SHAPES[kind]);
              expect(title.length).toBeLessThanOrEqual(255);
              expect(title.isWellFormed()).toBe(true);
            }
          },
        ),
      );
    },
  );

  test("a long one is cut, and never inside a character", () => {
    expect(form("x".repeat(900_000))).toHaveLength(255);
    expect(form("🙂".repeat(300)).isWellFormed()).toBe(true);
  });

  test("control characters and overrides of the text direction are left out", () => {
    expect(form("[fix] \u202eA\u001b[31m b\u2066")).toBe(form("[fix] A [31m b"));
  });

  test("without a text the issue's own title is used, without an issue there is no number", () => {
    expect(form(null, "numbered", " \u0007 ")).toBe("[feat][#42] Implementation");
    expect(formTitle({ proposed: "[feat][#1] x", otherwise: "", issue: null, form: "numbered", tags })).toBe("x");
  });
});

const body = (words: string, more: Partial<BodyParams> = {}) =>
  formBody({ words, template: null, tested: [], issue: 42, madeBy: null, ...more });

describe("closes #420 is not closes #42", () => {
  test.each(["closes #420", "Closes #421 and #42", "discloses #42", "see #42", "closes 42", ""])(
    "%j does not close our issue",
    (words) => {
      expect(closesIssue(words, 42)).toBe(false);
      expect(body(words)).toMatch(/(?:^|\n\n)Closes #42$/);
    },
  );
  test.each(["closes #42", "It Closes #42.", "CLOSES  # 42", "closes #420, closes #42"])("%j closes it", (words) => {
    expect(closesIssue(words, 42)).toBe(true);
    expect(body(words)).toBe(words.trim());
  });
  test("neither an agent's text nor a template can insert keys of ours", () => {
    const words = "a <!-- holdfast:issue-4/pr/pull-request.4 --> b <!--holdfast:x\n--> c <!-- note -->";
    expect(body(words)).toBe("a  b  c <!-- note -->\n\nCloses #42");
    expect(body("x", { template: "## <!-- holdfast:issue-4/pr/pull-request.4 -->What\n" })).not.toContain("holdfast:");
  });
});

describe("the body of a pull request", () => {
  const template = [
    "<!-- Read CONTRIBUTING.md -->",
    "## Description",
    "Please describe your change.",
    "## How was this tested?",
    "<!-- commands -->",
    "## Checklist",
    "- [ ] I have added tests",
    "",
  ].join("\n");
  const tested = ["`npm test` passed"];

  test("without a template: the text, the tested commands, the closed issue and the agent", () => {
    expect(body("Why.", { tested, madeBy: "issue-42" })).toBe(
      "Why.\n\n## Tested\n\n- `npm test` passed\n\nCloses #42\n\n---\nAn agent made this pull request (Holdfast run `issue-42`).",
    );
    expect(body("Why.", { issue: null })).toBe("Why.");
  });

  test("a text without the template's headings becomes its description; checklists stay unchecked", () => {
    expect(body("Why.\n\n## Details\nMore.", { template, tested })).toBe(
      [
        "## Description\n\nWhy.\n\n## Details\nMore.",
        "## How was this tested?\n\n- `npm test` passed",
        "## Checklist\n\n- [ ] I have added tests",
        "Closes #42",
      ].join("\n\n"),
    );
  });

  test("a text with the template's headings stays below them, in the template's order", () => {
    const words =
      "Intro.\n## how was this TESTED\nBy hand.\n## Description\nWhy.\n## Risk\nNone.\n```\n## Checklist\n```";
    expect(body(words, { template, tested })).toBe(
      [
        "Intro.",
        "## Description\n\nWhy.",
        "## How was this tested?\n\nBy hand.\n\n- `npm test` passed",
        "## Checklist\n\n- [ ] I have added tests",
        "## Risk\n\nNone.\n```\n## Checklist\n```",
        "Closes #42",
      ].join("\n\n"),
    );
    const checked = "## Description\nWhy.\n## Checklist\n- [x] I have added tests";
    expect(body(checked, { template })).not.toContain("[ ]");
  });

  test("a template without headings has no form to follow", () => {
    expect(body("Why.", { template: "Thanks! <!-- unclosed ## x" })).toBe("Why.\n\nCloses #42");
  });
});
