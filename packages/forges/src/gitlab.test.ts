import { expect, test } from "vitest";
import { toReviews } from "./gitlab.ts";

type Note = Parameters<typeof toReviews>[0][number];

let id = 0;
const note = (username: string, body: string, more: Partial<Note> = {}): Note => {
  id += 1;
  return { id, body, author: { username }, system: false, created_at: "2026-01-01T00:00:00Z", ...more };
};
const decided = (username: string, body: string): Note => note(username, body, { system: true });
const seen = (notes: readonly Note[], approvers: readonly string[] = []) =>
  toReviews(notes, new Set(approvers)).map(({ author, state, body }) => [author, state, body]);

test("comments before a decision belong to it; comments on files have their line", () => {
  const position = { head_sha: "c0ffee", new_path: "a.ts", new_line: 7 };
  const notes = [
    note("ada", "In general: no."),
    note("ada", "Why?", { position }),
    note("bob", "Nice."),
    decided("ada", "requested changes"),
  ];
  expect(seen(notes)).toEqual([
    ["ada", "changes_requested", "In general: no.\n\na.ts:7: Why?"],
    ["bob", "commented", "Nice."],
  ]);
  expect(toReviews(notes, new Set())[0]?.commit).toBe("c0ffee");
});

test("an approval counts only while GitLab lists it; a withdrawn one is dismissed", () => {
  const approved = [decided("ada", "approved this merge request")];
  expect(seen(approved, ["ada"])).toEqual([["ada", "approved", ""]]);
  expect(seen(approved)).toEqual([["ada", "dismissed", ""]]);
  expect(seen([...approved, decided("ada", "unapproved this merge request")])).toHaveLength(2);
});

test("resolved threads and other system notes are ignored; a bot is marked as one", () => {
  const resolved = note("ada", "Rename it.", { resolved: true });
  expect(seen([resolved, decided("ada", "added 1 commit"), decided("ada", "requested changes")])).toEqual([
    ["ada", "changes_requested", ""],
  ]);
  expect(toReviews([note("project_7_bot_abc", "Lint.")], new Set())[0]?.byPerson).toBe(false);
});
