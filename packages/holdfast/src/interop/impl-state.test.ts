import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import fc from "fast-check";
import { HoldfastError } from "@holdfast/platform/error";
import { afterAll, expect, test } from "vitest";
import { ImplState, loadCheckpoint, saveCheckpoint } from "../index.ts";

const root = mkdtempSync(join(tmpdir(), "holdfast-impl-state-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const golden = join(import.meta.dirname, "../../../formats/golden/impl-json");

test.each(["seed-example.json", "least.json", "unknown-fields.json", "version-2-simp.json", "partial-history.json"])(
  "%s is loaded and saved completely, in its order",
  async (name) => {
    const state = await loadCheckpoint(join(golden, name));
    const path = join(root, "bytes", name);
    await saveCheckpoint(state, path);
    expect(readFileSync(path, "utf8")).toBe(
      JSON.stringify(JSON.parse(readFileSync(join(golden, name), "utf8")), null, 2),
    );
  },
);

test("the example of the seed has its fields, and is written back byte for byte", async () => {
  const state = await ImplState.load(join(golden, "seed-example.json"));
  await state.save(join(root, "example.json"));
  expect(readFileSync(join(root, "example.json"))).toEqual(readFileSync(join(golden, "seed-example.json")));
  expect({ ...state }).toMatchObject({
    issueNo: 42,
    currentStage: "review",
    iteration: 3,
    worktree: "/path/to/worktree",
    planFile: "/path/to/plan.md",
    lastFeedback: "Implementation looks good but needs more tests",
    lastScore: 75,
    history: [{ stage: "impl" }, { stage: "review", score: 60 }],
    prNumber: null,
    prUrl: null,
  });
});

test("saving creates parent directories and leaves no temporary file", async () => {
  const directory = join(root, "a/b/.tmp");
  const state = new ImplState({ issueNo: 7, worktree: "/w" });
  await state.save(join(directory, "impl-checkpoint.json"));
  expect(readdirSync(directory)).toEqual(["impl-checkpoint.json"]);
  const back = await ImplState.load(join(directory, "impl-checkpoint.json"));
  expect(back.toJSON()).toEqual(state.toJSON());
  expect(back).toMatchObject({ currentStage: "impl", iteration: 1, planFile: null, lastScore: 0, history: [] });
});

test("a change keeps unknown fields, takes the present time, and simp makes it version 2", async () => {
  const state = await ImplState.load(join(golden, "unknown-fields.json"));
  const before = state.toJSON();
  const changed = state.with({ currentStage: "simp", iteration: 4, prNumber: "12" });
  expect(changed.toJSON()).toMatchObject({
    version: 2,
    state: { current_stage: "simp", iteration: 4, pr_number: "12" },
  });
  expect(Object.keys(changed.toJSON())).toEqual(expect.arrayContaining(Object.keys(before)));
  expect(changed.toJSON()["timestamp"]).not.toBe(before["timestamp"]);
  expect(state.toJSON()).toEqual(before);
  expect(changed.with({ currentStage: "pr" }).toJSON()).toMatchObject({ version: 2 });
});

test.each([
  ["missing", null, "USAGE"],
  ["not JSON", "{", "FORMAT_DAMAGED"],
  ["a list", "[]", "FORMAT_INVALID"],
  ["of version 3", '{"version":3,"state":{}}', "FORMAT_TOO_NEW"],
  ["without an issue", '{"version":1,"state":{"current_stage":"impl","iteration":1,"worktree":""}}', "FORMAT_INVALID"],
])("a file that is %s is refused with %s", async (name, text, code) => {
  const path = join(root, `${name}.json`);
  if (text !== null) writeFileSync(path, text);
  const error = await loadCheckpoint(path).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(HoldfastError);
  expect(error).toMatchObject({ code, message: expect.stringContaining(path), hint: expect.any(String) });
});

test("a directory is neither loaded nor overwritten", async () => {
  const path = join(root, "directory");
  mkdirSync(path);
  await expect(loadCheckpoint(path)).rejects.toMatchObject({ code: "IO_FAILED" });
  await expect(new ImplState({ issueNo: 1, worktree: "" }).save(path)).rejects.toMatchObject({ code: "IO_FAILED" });
  expect(readdirSync(path)).toEqual([]);
  writeFileSync(join(path, "file"), "");
  const below = join(path, "file", "x.json");
  await expect(new ImplState({ issueNo: 1, worktree: "" }).save(below)).rejects.toMatchObject({ code: "IO_FAILED" });
});

test.each([
  [{ issueNo: -1 }, "FORMAT_INVALID", "/state/issue_no"],
  [{ iteration: 0 }, "FORMAT_INVALID", "/state/iteration"],
  [{ lastScore: 101 }, "FORMAT_INVALID", "/state/last_score"],
  [{ lastScore: Number.NaN }, "NOT_JSON", "last_score"],
])("%j is refused with %s at %s", (fields, code, path) => {
  expect(() => new ImplState({ issueNo: 1, worktree: "/w", ...fields })).toThrow(
    expect.objectContaining({ code, data: expect.objectContaining({ path: expect.stringContaining(path) }) }),
  );
});

test("any state is read back unchanged", async () => {
  const path = join(root, "any.json");
  const states = fc.record({
    issueNo: fc.nat(),
    worktree: fc.string(),
    currentStage: fc.constantFrom("impl", "review", "simp", "pr", "rebase", "fatal", "done", "finish"),
    iteration: fc.integer({ min: 1, max: 99 }),
    planFile: fc.option(fc.string()),
    lastFeedback: fc.string(),
    lastScore: fc.nat(100),
    history: fc.array(fc.record({ stage: fc.string(), iteration: fc.nat(), score: fc.option(fc.nat(100)) })),
    prNumber: fc.option(fc.nat().map(String)),
    prUrl: fc.option(fc.webUrl()),
  });
  await fc.assert(
    fc.asyncProperty(states, async (fields) => {
      await new ImplState(fields).save(path);
      expect({ ...(await ImplState.load(path)) }).toEqual(fields);
    }),
    { numRuns: 30 },
  );
});

test("killed while it saves, the file is complete: the old state or the new one", async () => {
  const path = join(root, "killed", "impl-checkpoint.json");
  const program = `import { ImplState } from ${JSON.stringify(join(import.meta.dirname, "impl-state.ts"))};
    let state = new ImplState({ issueNo: 1, worktree: "/w", lastFeedback: "x".repeat(200_000) });
    for (;;) { await state.save(${JSON.stringify(path)}); console.log(state.iteration); state = state.with({ iteration: state.iteration + 1 }); }`;
  for (const saves of [1, 4, 9]) {
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let saved = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      saved = Number(line);
      if (saved === saves) child.kill("SIGKILL");
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, "close");
    expect([saved, saved + 1]).toContain((await ImplState.load(path)).iteration);
  }
  expect(existsSync(path)).toBe(true);
});
