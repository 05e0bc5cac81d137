import fc from "fast-check";
import { expect, test } from "vitest";
import { branchName } from "./branch-name.ts";

test.each([
  ["JWT refresh", [], "feature/issue-42-jwt-refresh"],
  ["Login fails", ["type:bug"], "fix/issue-42-login-fails"],
  ["Split it", ["type:decomposition"], "feature/issue-42-split-it"],
  ["", [], "feature/issue-42-task"],
  ["   …!? ", [], "feature/issue-42-task"],
  ["日本語", [], "feature/issue-42-task"],
  ["Café à la crème", [], "feature/issue-42-cafe-a-la-creme"],
  ["../../etc/passwd\0", [], "feature/issue-42-etc-passwd"],
  ["a.lock", [], "feature/issue-42-a-lock"],
  [`${"word ".repeat(30)}`, [], `feature/issue-42-${"word-".repeat(8).slice(0, -1)}`],
  ["x".repeat(300), [], `feature/issue-42-${"x".repeat(40)}`],
])("%j with %j", (title, labels, branch) => {
  expect(branchName({ number: 42, title, labels })).toBe(branch);
});

/** Any code units at all, halves of characters too. */
const someTitle = fc.oneof(
  fc.string(),
  fc.array(fc.nat(0xffff)).map((units) => String.fromCharCode(...units)),
);

test("whatever the title, it is a name that git and file systems take", () => {
  fc.assert(
    fc.property(someTitle, (title) => {
      expect(branchName({ number: 7, title, labels: [] })).toMatch(/^feature\/issue-7-[a-z0-9]+(?:-[a-z0-9]+)*$/);
      expect(branchName({ number: 7, title, labels: [] }).length).toBeLessThanOrEqual(60);
    }),
  );
});

test.each([0, -1, 1.5, Number.NaN])("an issue number %s is refused", (number) => {
  expect(() => branchName({ number, title: "x", labels: [] })).toThrow(/whole number from 1/);
});
