import { copyFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { GOOD, workSuite } from "./testing/work-repository.ts";
import type { WorkPlace } from "./testing/work-repository.ts";

const work = workSuite();

const limited = (attempt: number, untilMs = 4_000) => ({
  when: { role: "impl", attempt },
  fail: { cause: "rate_limit", untilMs, message: "usage limit reached" },
});

/** Kinds of journal entries, how often. */
async function count(place: WorkPlace, kind: string): Promise<number> {
  const { entries } = await place.json("log", "issue-1", "--limit", "all");
  return entries.filter((entry: { readonly kind: string }) => entry.kind === kind).length;
}

test("parked until a time, it says when; a waiter that is killed wakes nobody, and of several who wait one wakes it, once", async () => {
  const place = await work.begin();
  // Woken, it fails at once for another reason: whoever comes a moment later finds it parked, and not asleep as they knew it.
  const agent = await place.agent([limited(1, 10_000), { when: { attempt: 2 }, fail: { cause: "auth" } }, GOOD]);
  expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 7 });
  const { condition } = await place.json("status", "1");
  const early = await place.run("resume", "1");
  expect(early).toMatchObject({ status: 7, stdout: expect.stringMatching(/answers again at .*Until/s) });
  const [killed, ...waiters] = [1, 2, 3].map(() => place.start("resume", "1", "--wait"));
  await new Promise((resolve) => killed?.child.stderr?.once("data", resolve));
  killed?.child.kill("SIGKILL");
  const ends = await Promise.all(waiters.map(({ ended }) => ended));
  const shown = JSON.stringify(ends, null, 2);
  expect(ends.map(({ status }) => status).toSorted(), shown).toEqual([4, 5]);
  expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(condition.until));
  for (const { stderr } of ends) expect(stderr, shown).toMatch(/Waiting for issue-1 until /);
  expect(await count(place, "run.unparked")).toBe(1);
  expect(await place.json("status", "1")).toMatchObject({ condition: { kind: "parked", on: "person" } });
});

test("a forge that is down at the moment of a resume does not shorten the wait for the provider", async () => {
  const place = await work.begin();
  const agent = await place.agent([limited(1, 3_600_000), GOOD]);
  expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 7 });
  const { condition } = await place.json("status", "1");
  await rename(place.remote, `${place.remote}.away`);
  const resumed = await place.run("resume", "1");
  expect(resumed, resumed.stdout + resumed.stderr).toMatchObject({ status: 7 });
  expect((await place.json("status", "1")).condition).toEqual(condition);
});

test("run --wait stays up through one limit after the other, and the run is done", async () => {
  const place = await work.begin();
  const agent = await place.agent([limited(1, 2_000), limited(2, 2_000), GOOD]);
  const done = await place.run("run", "1", "--no-review", "--wait", "--agent", agent);
  expect(done, JSON.stringify(done, null, 2)).toMatchObject({ status: 0 });
  expect(done.stderr.match(/Waiting for issue-1 until /g)).toHaveLength(2);
  expect([await count(place, "run.parked"), await count(place, "run.unparked")]).toEqual([2, 2]);
});

test("rules of the config decide: the other agent takes over, and the lines, the log and the list say so", async () => {
  const place = await work.begin();
  const good = await place.agent([GOOD]);
  const second = good.replace("agent.json", "second.json");
  await copyFile(good.slice("scripted:".length), second.slice("scripted:".length));
  const agent = await place.agent([limited(1)]);
  const rule = { id: "quota", causes: ["rate_limit"], pattern: "usage limit", action: "fallback" };
  const config = JSON.stringify({ errors: { fallback: { agents: [second] }, rules: [rule] } });
  await writeFile(join(place.clone, "holdfast.config.yaml"), config);
  const done = await place.run("run", "1", "--no-review", "--agent", agent);
  expect(done, JSON.stringify(done, null, 2)).toMatchObject({ status: 0 });
  expect(done.stdout).toMatch(/usage limit reached; .*fallback by rule quota: scripted:\S+second.json takes over/);
  expect((await place.run("log", "issue-1", "--limit", "all")).stdout).toMatch(
    /step.failed +agent → fallback by rule quota \(/,
  );
});
