import fc from "fast-check";
import { expect, test } from "vitest";
import { defuse, hasOutsideEffect } from "./defuse.ts";

const shown = (text: string): string => text.replaceAll("\u200B", "");
const body = (text: string): string => defuse(text, { own: 42, kind: "markdown" });
/** How GitHub and GitLab see it. */
const closes =
  /\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?):?\s+[\w./:-]*(?:#|\/|GH-)\d+/i;
const mentions = /(?<![\w.+/-])@[A-Za-z0-9]/;

test.for([
  "Closes #77",
  "fixes: #77",
  "Resolves owner/repo#77",
  "This fixed https://github.com/owner/repo/issues/77 at last",
  "closes GH-77",
  "Implements group/sub/project#77",
])("a foreign issue is not closed: %s", (text) => {
  const safe = body(text);
  expect(safe).not.toMatch(closes);
  expect(shown(safe)).toBe(text);
});

test("the run's own issue stays closed, others beside it do not", () => {
  expect(body("Done.\n\nCloses #42")).toBe("Done.\n\nCloses #42");
  expect(body("Closes #42, #77 and owner/repo#42")).toBe("Closes #42, #\u200B77 and owner/repo#\u200B42");
  expect(defuse("Closes #42", { own: null, kind: "plain" })).toBe("Closes #\u200B42");
  expect(body("Closes #420")).not.toMatch(closes);
});

test.for(["@everyone look", "cc @here", "thanks @octocat!", "(@org/team)", "@all"])(
  "a mention has no effect: %s",
  (text) => {
    const safe = body(text);
    expect(safe).not.toMatch(mentions);
    expect(shown(safe)).toBe(text);
  },
);

test.for([
  "Closes      #77",
  "Closes\u00a0#77",
  "a/b/c/d/e: fixes a/b/c/d/e#77",
  `closes ${"#7, ".repeat(40)}#8`,
  "closes #1 , #78",
])("spaces, long paths and long lists hide nothing: %s", (text) => {
  expect(body(text)).not.toMatch(/#\d/);
  expect(shown(body(text))).toBe(text);
});

test.for([".@all", "-@octocat", "/@all", "_@everyone_", "```\nopen fence @all"])("%s mentions no one", (text) => {
  expect(body(text)).not.toMatch(/@[A-Za-z0-9]/);
});

test("code, addresses and plain numbers stay as they are", () => {
  for (const text of [
    "`@Injectable()` is used",
    "```ts\n@Component({})\n```",
    "write to me@example.org",
    "see #77 for why",
    "it fixes 3 bugs",
  ])
    expect(body(text)).toBe(text);
  expect(defuse("use `@everyone` now", { own: null, kind: "plain" })).not.toMatch(mentions);
});

test("twice is once, and people read the same text", () => {
  const words = fc.constantFrom("Closes #77", "@here", "fixes a/b#1, #2", "```", "`", "\n", " ", "#42", "x", "GH-1");
  fc.assert(
    fc.property(fc.array(words), (all) => {
      const text = all.join(" ");
      const once = body(text);
      expect(body(once)).toBe(once);
      expect(shown(once)).toBe(text);
    }),
  );
});

test("a commit message is asked about when it closes another issue or notifies a group, not for code that looks like a mention", () => {
  for (const message of [
    "Fixes #77",
    "Fixes     #77",
    "thanks @everyone",
    "(.@all)",
    "@here: done",
    "closes #42 and #7",
  ])
    expect(hasOutsideEffect(message, 42), message).toBe(true);
  for (const message of [
    "Bump @types/node",
    "Closes #42",
    "Use @all/things and @here-doc",
    "@param x",
    "mail a@all.example",
  ])
    expect(hasOutsideEffect(message, 42), message).toBe(false);
});
