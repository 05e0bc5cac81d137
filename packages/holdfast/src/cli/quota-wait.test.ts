import { afterAll, beforeAll, expect, test } from "vitest";
import { GOOD, startWork } from "./work-repository.ts";

let work: Awaited<ReturnType<typeof startWork>>;
beforeAll(async () => {
  work = await startWork();
});
afterAll(() => work.remove());

test("a run that is parked until a time says when; of two who wait for it one wakes it, and the other exits with 5", async () => {
  const place = await work.begin();
  const limited = { when: { role: "impl", attempt: 1 }, fail: { cause: "rate_limit", untilMs: 10_000 } };
  const agent = await place.agent([limited, { ...GOOD, delayMs: 4_000 }]);
  expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 7 });
  const { condition } = await place.json("status", "1");
  const early = await place.run("resume", "1");
  expect(early).toMatchObject({ status: 7, stdout: expect.stringMatching(/answers again at .*Until/s) });
  const waiters = [place.start("resume", "1", "--wait"), place.start("resume", "1", "--wait")];
  const ends = await Promise.all(waiters.map(({ ended }) => ended));
  const shown = JSON.stringify(ends, null, 2);
  expect(ends.map(({ status }) => status).toSorted(), shown).toEqual([0, 5]);
  expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(condition.until));
  expect(ends.find(({ status }) => status === 0)?.stderr, shown).toMatch(/Waiting for issue-1 until /);
  const status = await place.json("status", "1");
  expect(status).toMatchObject({ condition: { kind: "done" }, budget: { spent: { tokens: 1000 } } });
});
