import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { GOOD, workSuite } from "./testing/work-repository.ts";

const work = workSuite();

test("a run that is done stays whole in the store, unless the user's own retention says otherwise", async () => {
  const place = await work.begin();
  const agent = await place.agent([GOOD]);
  expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 0 });
  const count = async (): Promise<number> => (await place.json("list", "issue-1", "--limit", "all")).checkpoints.length;
  const before = await count();
  expect(before).toBeGreaterThan(5);
  // The first checkpoint of another run is when the daily clean-up is due.
  const other = await place.run("checkpoint", "--name", "unrelated");
  expect(other).toMatchObject({ status: 0, stderr: expect.not.stringContaining("Daily clean-up") });
  expect(await count()).toBe(before);

  const planned = await place.run("gc", "--dry-run");
  expect(planned.stdout).toContain("its run is younger than 30 days");
  expect(planned.stdout).toMatch(new RegExp(`^issue-1 +${before} +[\\d.]+ [kM]?B$`, "m"));
  const { usage } = await place.json("doctor");
  expect(usage).toContainEqual({ run: "issue-1", checkpoints: before, bytes: expect.any(Number) });
  expect((await place.run("doctor")).stdout).toMatch(new RegExp(`^issue-1 +${before} +[\\d.]+ [kM]?B$`, "m"));

  await writeFile(join(place.clone, "holdfast.config.yaml"), "retention: { onSuccess: keep_latest }\n");
  expect(await place.run("gc", "--yes")).toMatchObject({ status: 0 });
  expect(await count()).toBeLessThan(before);
});
