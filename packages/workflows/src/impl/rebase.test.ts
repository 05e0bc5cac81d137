import { expect, test } from "vitest";
import { compareRemoteTip } from "./rebase.ts";

/** Maps each commit to itself and its ancestors. */
const history: Readonly<Record<string, string>> = {
  ours: "ours pushed base",
  pushed: "pushed base",
  added: "added pushed base",
  other: "other base",
};
const branch = {
  isAncestor: ({ ancestor, of }: { readonly ancestor: string; readonly of: string }) =>
    Promise.resolve(history[of]?.split(" ").includes(ancestor) === true),
};

test.each([
  [null, "pushed", "known"],
  ["pushed", "pushed", "known"],
  ["base", "pushed", "known"],
  ["added", "pushed", "added"],
  ["other", "pushed", "other"],
  ["other", null, "other"],
])("the remote at %s after we pushed %s: %s", async (tip, pushed, kind) => {
  expect(await compareRemoteTip({ branch, tip, head: "ours", pushed })).toEqual({ kind, commit: tip });
});

test("commits that we pushed before our own rebase are still ours", async () => {
  const tip = await compareRemoteTip({ branch, tip: "added", head: "other", pushed: "added" });
  expect(tip.kind).toBe("known");
});
