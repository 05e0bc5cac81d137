import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Checks } from "../../ports/forge.ts";
import { createLocalForgeScene, type LocalForgeScene } from "../../testing/scenes/local-forge-scene.ts";

let scene: LocalForgeScene;
let commit: string;
beforeEach(async () => {
  scene = createLocalForgeScene();
  commit = await scene.push({ branch: "topic", from: "main", files: { "b.txt": "hello\n" } });
});
afterEach(() => scene.dispose());

test("the command runs in a checkout of the commit, once, and its result is written down", async () => {
  const ran = join(scene.directory, "..", "ran");
  scene.write("forge.yaml", `ci: 'echo run >> ${ran}; cat b.txt; git rev-parse HEAD; test -z "$HOLDFAST_MARK"'\n`);
  const [first] = await Promise.all([scene.forge().checks(commit), scene.forge().checks(commit)]);
  expect(first).toEqual({
    state: "passed",
    runs: [{ name: "ci", state: "passed", url: null, summary: `hello\n${commit}\n` }],
  });
  expect(await scene.forge().checks(commit)).toEqual(first);
  expect(readFileSync(ran, "utf8")).toBe("run\n");
  expect(readdirSync(join(scene.directory, "ci"))).toEqual([]);
  expect(readFileSync(join(scene.directory, "log.jsonl"), "utf8").match(/checks_recorded/g)).toHaveLength(1);
});

test("a failure has the end of its output", async () => {
  scene.write("forge.yaml", "ci: 'seq 1 20000; echo the last word >&2; exit 7'\n");
  const { state, runs } = await scene.forge().checks(commit);
  expect(state).toBe("failed");
  expect(runs[0]?.summary).toMatch(/19999\n20000\nthe last word\n$/);
  expect(runs[0]?.summary.length).toBeLessThan(9000);
});

test("pending while it runs, though nobody waits for it, and then what it found", async () => {
  const gate = join(scene.directory, "..", "gate");
  scene.write("forge.yaml", `ci: 'while [ ! -e ${gate} ]; do sleep 0.05; done; echo through'\n`);
  expect((await scene.forge({ ciWaitMs: 0 }).checks(commit)).state).toBe("pending");
  expect((await scene.forge({ ciWaitMs: 0 }).checks(commit)).runs).toMatchObject([{ name: "ci", state: "pending" }]);
  writeFileSync(gate, "");
  expect(await untilDone()).toMatchObject({ state: "passed", runs: [{ summary: "through\n" }] });
});

test("one that died without a result is run again", async () => {
  const gate = join(scene.directory, "..", "gate");
  scene.write("forge.yaml", `ci: 'test -e ${gate} || kill -9 0'\n`);
  expect((await scene.forge({ ciWaitMs: 300 }).checks(commit)).state).toBe("pending");
  writeFileSync(gate, "");
  expect((await untilDone()).state).toBe("passed");
});

test("one that does not end is ended", async () => {
  scene.write("forge.yaml", "ci: 'sleep 600'\nciTimeoutMinutes: 0.001\n");
  const { state, runs } = await scene.forge().checks(commit);
  expect(state).toBe("failed");
  expect(runs[0]?.summary).toContain("did not end");
});

test("no command, or a commit that was never pushed: none", async () => {
  expect((await scene.forge().checks(commit)).state).toBe("none");
  scene.write("forge.yaml", "ci: 'true'\n");
  expect((await scene.forge().checks("a".repeat(40))).state).toBe("none");
});

async function untilDone(): Promise<Checks> {
  for (let tries = 0; ; tries++) {
    const checks = await scene.forge({ ciWaitMs: 1000 }).checks(commit);
    if (checks.state !== "pending" || tries > 30) return checks;
    await setTimeout(20);
  }
}
