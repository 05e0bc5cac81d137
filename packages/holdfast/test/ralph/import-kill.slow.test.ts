import { execFile } from "node:child_process";
import { appendFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { workSuite } from "@holdfast/test-support/cli-repositories";
import { openHoldfast } from "../../src/open.ts";
import { parseRalphState } from "@holdfast/workflows/ralph/state";

const work = workSuite();
const LOOP = "ralph-fix-tests-a1b2c3d4";
const EXAMPLE = `.aiwg/ralph/loops/${LOOP}/checkpoints/iteration-005.json`;
const DIE_AT = new URL("../../../test-support/src/store-processes/die-at.ts", import.meta.url);
/** The number of changes differs slightly between lives: one of the last may not happen. */
const LAST_FEW = 20;

test("killed anywhere while an imported loop is adopted and continues, each iteration counts once", async () => {
  const place = await work.begin();
  const example = new URL(`../../../formats/golden/loop-json/${EXAMPLE}`, import.meta.url);
  const root = dirname(place.clone);
  const agent = join(root, "agent.sh");
  writeFileSync(
    agent,
    '#!/bin/sh\necho "$HOLDFAST_ITERATION" >> lines.txt\necho "tried" >&2\necho "I wrote line $HOLDFAST_ITERATION"\n',
    { mode: 0o755 },
  );
  const counter = join(root, "count");
  let lives = 0;
  /** A clone in which the loop was imported and nothing else was done. */
  const begin = async () => {
    lives += 1;
    const clone = join(root, `life-${lives}`);
    cpSync(place.clone, clone, { recursive: true });
    mkdirSync(dirname(join(clone, EXAMPLE)), { recursive: true });
    cpSync(example, join(clone, EXAMPLE));
    appendFileSync(join(clone, ".git/info/exclude"), ".aiwg\n");
    const words = ["--json", "format", "import", ".aiwg"];
    const { stdout } = await place.holdfast.run(words, { cwd: clone });
    const run: string = JSON.parse(stdout).run;
    const resume = ["resume", run, "--agent", `command:${agent}`, "--until", "grep -q 7 lines.txt", "--trust"];
    const live = (dieAt: number): Promise<string> =>
      new Promise((resolve) => {
        const node = ["--no-warnings", "--import", pathToFileURL(DIE_AT.pathname).href, place.holdfast.entry];
        const env = { ...process.env, HOME: place.holdfast.directory, DIE_AT: String(dieAt), COUNTER: counter };
        execFile(process.execPath, [...node, ...resume], { cwd: clone, env }, (error, stdout, stderr) =>
          resolve(error === null ? "ended" : (error.signal ?? stdout + stderr)),
        );
      });
    const end = async () => {
      await using holdfast = await openHoldfast({ cwd: clone });
      const planes = (await holdfast.store.latest(run))?.planes;
      const state = parseRalphState(planes?.context.values ?? {});
      const problems = (await Array.fromAsync(holdfast.store.verify({}))).filter(({ kind }) => kind === "problem");
      return {
        state: (await holdfast.store.getRun(run))?.state.kind,
        position: [planes?.position.stage, planes?.position.iteration],
        iterations: state.iterations.map(({ number }) => number),
        totals: [state.totals.iterations, state.totals.passed, state.totals.failed],
        lines: readFileSync(join(planes?.files?.worktree ?? "", "lines.txt"), "utf8"),
        worktrees: (await holdfast.workspaces?.list())?.length,
        problems,
      };
    };
    return { live, end };
  };

  const calm = await begin();
  expect(await calm.live(0)).toBe("ended");
  const end = await calm.end();
  expect(end).toEqual({
    state: "done",
    position: ["done", 7],
    iterations: [6, 7],
    totals: [7, 1, 1],
    lines: "6\n7\n",
    worktrees: 2,
    problems: [],
  });
  const calls = Number(readFileSync(counter, "utf8"));
  expect(calls).toBeGreaterThan(60);
  const deaths = Array.from({ length: calls }, (_, at) => ({ name: `change ${at + 1} of ${calls}`, at: at + 1 }));
  // Most of the adoption is in the first half.
  const chosen = [...sampleBySeed(deaths.slice(0, calls / 2), 2), ...sampleBySeed(deaths.slice(calls / 2), 1)];
  for (const { name, at } of chosen) {
    const { live, end: endOf } = await begin();
    const died = await live(at);
    if (died !== "ended" || at <= calls - LAST_FEW) expect([name, died]).toEqual([name, "SIGKILL"]);
    if (died !== "ended") expect([name, await live(0)]).toEqual([name, "ended"]);
    expect([name, await endOf()]).toEqual([name, end]);
  }
});
