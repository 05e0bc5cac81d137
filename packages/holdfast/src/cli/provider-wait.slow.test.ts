import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { GOOD, workSuite } from "./testing/work-repository.ts";

const work = workSuite();

/** How each cause of a failed call appears to the user: exit code, wait, words. */
const failing = (cause: string, more: object = {}) => ({
  when: { role: "impl" },
  fail: { cause, message: "scripted trouble", ...more },
});

test.each([["auth"], ["missing"], ["too_old"], ["context_too_long"], ["refusal"]])(
  "%s waits for the user: exit 4",
  async (cause) => {
    const place = await work.begin();
    const agent = await place.agent([failing(cause)]);
    const parked = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(parked.status, parked.stdout + parked.stderr).toBe(4);
    expect(parked.stdout).toMatch(new RegExp(`Waiting for you issue-1: .*\\(${cause}\\): scripted\\s+trouble`, "s"));
    expect(parked.stdout).toContain("holdfast resume issue-1");
    await place.agent([GOOD]);
    expect(await place.run("resume", "issue-1")).toMatchObject({ status: 0 });
  },
);

test.each([["overload"], ["network"], ["hang"], ["proxy"]])(
  "%s waits for the provider, which is not quota: exit 7",
  async (cause) => {
    const place = await work.begin();
    await writeFile(join(place.clone, "holdfast.config.yaml"), "errors: { retry: { max: 0 } }\n");
    const agent = await place.agent([failing(cause)]);
    const parked = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(parked.status, parked.stdout + parked.stderr).toBe(7);
    expect(parked.stdout).toMatch(new RegExp(`Waiting for the provider issue-1: .*\\(${cause}\\)`, "s"));
    expect(parked.stdout).not.toMatch(/quota|session/);
    const dry = await place.json("resume", "1", "--dry-run");
    expect(dry.uses).toMatchObject({ agents: [{ role: "impl", agent }], yolo: false });
    expect((await place.run("resume", "1", "--dry-run")).stdout).toContain(`Would use`);
    expect(await place.json("status", "1")).toMatchObject({ condition: { on: "provider", until: expect.any(String) } });
    // The time is when `--wait` tries again; a user need not wait for it.
    await place.agent([GOOD]);
    expect(await place.run("resume", "issue-1")).toMatchObject({ status: 0 });
  },
);

test.each([
  { role: "impl", cause: "killed" },
  { role: "review", cause: "crash" },
])("a $role call that ends with $cause once too often waits for the user, not for quota: exit 4", async (row) => {
  const { role, cause } = row;
  const place = await work.begin();
  await writeFile(join(place.clone, "holdfast.config.yaml"), "errors: { retry: { max: 0 } }\n");
  const failed = { when: { role }, fail: { cause, message: "scripted trouble" } };
  const agent = await place.agent([failed, ...(role === "impl" ? [] : [GOOD])]);
  const parked = await place.run("run", "1", "--agent", agent);
  expect(parked.status, parked.stdout + parked.stderr).toBe(4);
  expect(parked.stdout).toMatch(new RegExp(`Waiting for you issue-1: .*\\(${cause}\\): scripted\\s+trouble`, "s"));
  expect(parked.stdout).not.toMatch(/quota/);
  expect(await place.json("status", "1")).toMatchObject({ condition: { on: "person", until: null } });
});
