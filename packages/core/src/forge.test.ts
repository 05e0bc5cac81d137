import { describe, expect, test } from "vitest";
import type { IssueComment, IssueSnapshot } from "./checkpoint.ts";
import { newestComments, readIssueWithComments } from "./forge.ts";

const say = (body: string, author = "ann"): IssueComment => ({ author, body, at: null });

describe("the comments of an issue that a run works with", () => {
  test("are the newest 20, oldest first", () => {
    const all = Array.from({ length: 500 }, (_, nth) => say(String(nth)));
    expect(newestComments(all).map(({ body }) => body)).toEqual(
      Array.from({ length: 20 }, (_, nth) => String(480 + nth)),
    );
    expect(newestComments([])).toEqual([]);
  });

  test("are cut one by one and together; the newest are kept", () => {
    const [cut] = newestComments([say(`${"x".repeat(3_999)}🙂${"y".repeat(90_000)}`, "a".repeat(5_000))]);
    expect(cut?.body.length).toBeLessThan(4_050);
    expect(cut?.body.isWellFormed()).toBe(true);
    expect(cut?.author).toHaveLength(100);
    const long = Array.from({ length: 20 }, (_, nth) => say(`${nth}:${"x".repeat(3_500)}`));
    const kept = newestComments(long).map(({ body }) => Number.parseInt(body, 10));
    expect(kept).toEqual([11, 12, 13, 14, 15, 16, 17, 18, 19]);
  });

  test("belong to the issue; for a missing issue nothing is requested", async () => {
    const issue: IssueSnapshot = { number: 1, title: "t", body: "b", labels: [], state: "open", updatedAt: "" };
    const forge = {
      getIssue: async (number: number) => (number === 1 ? issue : null),
      issueComments: async (number: number) => [say(`on ${number}`)],
    };
    expect(await readIssueWithComments(forge, 1)).toEqual({ ...issue, comments: [say("on 1")] });
    expect(await readIssueWithComments(forge, 2)).toBe(null);
  });
});
