import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
});
afterAll(() => journey.holdfast.remove());
beforeEach(async () => {
  await journey.begin();
  for (const text of ["one", "two", "three", "four"]) {
    await journey.write("app.txt", text);
    await journey.run("checkpoint", "--run", "r");
  }
});

const sequences = async () =>
  (await journey.json("list", "r")).checkpoints.map(({ sequence }: { readonly sequence: number }) => sequence);

test("removes checkpoints, leaves tombstones, and changes no file", async () => {
  expect((await journey.run("rm", "r@2", "--dry-run")).stdout).toMatch(/^Would remove r@2 \(/);
  expect(await sequences()).toEqual([4, 3, 2, 1]);
  expect(await journey.json("rm", "r@2", "r@1", "r@2")).toMatchObject({
    removed: [
      { run: "r", sequence: 1, why: expect.stringMatching(/^removed by /) },
      { run: "r", sequence: 2 },
    ],
    dryRun: false,
  });
  expect(await sequences()).toEqual([4, 3]);
  expect((await journey.run("events", "r")).stdout).toMatch(/checkpoint\.dropped/);
  expect(await journey.fails(3, "show", "r@2")).toContain("removed by");
  expect((await journey.run("diff", "r@4", "--name-only")).stdout).toBe("");
  expect((await journey.run("verify")).status).toBe(0);
});

test("refuses the newest, a tagged one without --force, and a whole run; then nothing is removed", async () => {
  await journey.run("tag", "r@2", "works");
  expect(await journey.fails(4, "rm", "r@1", "r@2")).toContain("r@2 is protected: tagged works");
  expect(await journey.fails(2, "rm", "r@1", "r@latest", "--force")).toContain("newest checkpoint of r");
  expect(await journey.fails(2, "rm", "r")).toContain("only single checkpoints");
  expect(await sequences()).toEqual([4, 3, 2, 1]);
  expect((await journey.run("rm", "r@works", "--force")).stdout).toMatch(/^Removed r@2; freed /);
  expect(await sequences()).toEqual([4, 3, 1]);
  expect((await journey.json("tag", "r")).tags).toEqual([]);
});
