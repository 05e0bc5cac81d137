import { expect, test } from "vitest";
import type { PullRequestReview } from "../../ports/forge.ts";
import { standingRequests } from "./standing-requests.ts";

const review = (id: string, author: string, state: PullRequestReview["state"], byPerson = true): PullRequestReview => ({
  id,
  author,
  byPerson,
  state,
  body: `${author} says`,
  commit: null,
  at: null,
});
const standing = (reviews: readonly PullRequestReview[], heeded: readonly string[] = []): readonly string[] =>
  standingRequests(reviews, heeded).map(({ id }) => id);

test("a request for changes stands until its author decides otherwise or it is dismissed", () => {
  const asked = review("1", "ada", "changes_requested");
  expect(standing([asked])).toEqual(["1"]);
  expect(standing([asked, review("2", "ada", "commented")])).toEqual(["1"]);
  expect(standing([asked, review("2", "bob", "approved")])).toEqual(["1"]);
  expect(standing([asked, review("2", "ada", "approved")])).toEqual([]);
  expect(standing([{ ...asked, state: "dismissed" }])).toEqual([]);
  expect(standing([review("0", "ada", "approved"), asked])).toEqual(["1"]);
});

test("of two by one author the newer counts, each author for themselves, and no bot", () => {
  const asked = ["1", "2"].map((id) => review(id, "ada", "changes_requested"));
  expect(standing(asked)).toEqual(["2"]);
  expect(standing([...asked, review("3", "bob", "changes_requested")])).toEqual(["2", "3"]);
  expect(standing([review("1", "lint", "changes_requested", false)])).toEqual([]);
});

test("one that was heeded is not told again; a newer one by the same author is", () => {
  const asked = review("1", "ada", "changes_requested");
  expect(standing([asked], ["1"])).toEqual([]);
  expect(standing([asked, review("2", "ada", "changes_requested")], ["1"])).toEqual(["2"]);
});
