import { chmodSync, cpSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Journey, startJourney } from "@holdfast/test-support/cli-repositories";

/** Manipulations of a store that no checksum inside of it can show. */
let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
}, 120_000);
afterAll(() => journey.holdfast.remove());
beforeEach(async () => {
  await journey.begin();
  await save("one");
});

const at = (...path: readonly string[]): string => join(journey.repository(), ".git", ...path);

async function save(text: string, run = "r"): Promise<string> {
  await journey.write("src/a.txt", `${text}\n`);
  return (await journey.json("checkpoint", "--run", run)).checkpoint.id;
}

/** The problems that verify finds; it exits with 6. */
async function problems(): Promise<
  readonly { readonly code: string; readonly run: string; readonly sequence: number; readonly what: string }[]
> {
  const done = await journey.run("--json", "verify");
  expect([done.status, done.stderr]).toEqual([6, ""]);
  return JSON.parse(done.stdout).problems;
}

test.each([64, 100, 4159])("the high-water mark is cut to %i bytes and the database is an old one", async (bytes) => {
  cpSync(at("holdfast/store.db"), at("old.db"));
  await save("two");
  cpSync(at("old.db"), at("holdfast/store.db"));
  truncateSync(at("holdfast/high-water"), bytes);
  const found = await problems();
  expect(found).toEqual([expect.objectContaining({ code: "HIGH_WATER_CUT", run: "r", sequence: 1 })]);
  expect(found[0]?.what).toContain(at("holdfast/high-water"));
  // Nothing is written on top of it, and what is there can be read.
  expect(await journey.fails(6, "checkpoint", "--run", "r")).toContain("was cut to");
  expect((await journey.run("show", "r@1")).status).toBe(0);
  // Accepted, as the hint says.
  rmSync(at("holdfast/high-water"));
  rmSync(at("refs/holdfast/r/2"));
  await save("three");
  expect((await journey.run("verify")).status).toBe(0);
});

test.each([1, 2, 3])(
  "of three checkpoints with the same files, the snapshot of r@%i is empty after a power cut",
  async (sequence) => {
    // "one" is saved: the files of the others are the same, and each has a snapshot of its own.
    for (const text of ["one", "one"]) await save(text);
    const id = readFileSync(at("refs/holdfast/r", String(sequence)), "utf8").trim();
    const object = at("objects", id.slice(0, 2), id.slice(2));
    chmodSync(object, 0o644);
    truncateSync(object, 0);
    expect((await problems()).map((problem) => [problem.code, problem.sequence])).toEqual([["TREE_MISSING", sequence]]);
  },
);

test("a pin is moved to another object", async () => {
  await save("two");
  await journey.git("update-ref", "refs/holdfast/r/1", "HEAD");
  const found = await problems();
  expect(found).toEqual([expect.objectContaining({ code: "PIN_MOVED", run: "r", sequence: 1 })]);
  expect(found[0]?.what).toContain("refs/holdfast/r/1");
  const text = await journey.run("verify");
  expect([text.status, text.stdout]).toEqual([6, expect.stringContaining("r@1")]);
  // Repaired: the checkpoint is pinned again, and not marked as damaged.
  expect((await journey.run("verify", "--quarantine")).stdout).toContain("Pinned again r@1");
  expect((await journey.run("verify")).status).toBe(0);
  await journey.git("gc", "-q", "--prune=now");
  await journey.json("restore", "r@1", "--yes");
  expect(await journey.read("src/a.txt")).toBe("one\n");
});

test("the whole directory is rolled back while newer refs exist", async () => {
  cpSync(at("holdfast"), at("backup"), { recursive: true });
  await save("two");
  await save("three");
  await save("other", "gone");
  cpSync(at("holdfast"), at("newer"), { recursive: true });
  rmSync(at("holdfast"), { recursive: true });
  cpSync(at("backup"), at("holdfast"), { recursive: true });
  const found = await problems();
  expect(found.map(({ code, run, sequence }) => ({ code, run, sequence }))).toEqual([
    { code: "STORE_ROLLED_BACK", run: "gone", sequence: 1 },
    { code: "STORE_ROLLED_BACK", run: "r", sequence: 3 },
  ]);
  expect(found[1]?.what).toContain("refs/holdfast/r/3");
  // It does not continue in silence, neither the run that is behind nor the one that is gone.
  const refused = await journey.fails(6, "checkpoint", "--run", "r");
  expect(refused.replaceAll(/\s+/g, " ")).toContain("git update-ref -d refs/holdfast/r/3");
  await journey.fails(6, "checkpoint", "--run", "gone");
  expect(await journey.read("src/a.txt")).toBe("other\n");
  // gc keeps the refs: they are all that is left of those checkpoints.
  expect((await journey.run("gc", "--yes")).status).toBe(0);
  await journey.git("rev-parse", "--verify", "refs/holdfast/r/3");
  rmSync(at("holdfast"), { recursive: true });
  cpSync(at("newer"), at("holdfast"), { recursive: true });
  expect((await journey.run("verify")).status).toBe(0);
  await save("four");
});

test("a save that was killed after its snapshot is not reported as manipulation", async () => {
  await journey.git("update-ref", "refs/holdfast/r/2", "refs/holdfast/r/1");
  expect((await journey.run("verify")).status).toBe(0);
  expect(await save("two")).toBe("r@2");
  expect((await journey.run("verify")).status).toBe(0);
});
