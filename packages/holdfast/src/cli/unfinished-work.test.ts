import { expect, test } from "vitest";
import { createUnfinished } from "./unfinished-work.ts";

test("what was done and what failed, in the order of the work", async () => {
  const work = createUnfinished();
  const first = work.add(Promise.resolve(3), { done: (value) => `r@${value} was saved` });
  work.add(Promise.reject(new Error("no")), { done: () => "never" }).catch(() => {});
  work
    .add(Promise.reject(new Error("half")), { done: () => "never", failed: async () => "a restore did not finish" })
    .catch(() => {});
  expect(await first).toBe(3);
  expect(await work.settle()).toEqual({
    done: ["r@3 was saved", "a restore did not finish"],
    failures: [new Error("no"), new Error("half")],
  });
});
