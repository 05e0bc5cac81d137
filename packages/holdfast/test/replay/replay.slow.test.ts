import { readFileSync, writeFileSync, readdirSync, statSync } from "node:fs";
import { cp, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Holdfast } from "../../src/holdfast.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { parseRecordedCall } from "@holdfast/core/recorded-calls";
import { chanceOf, isFullRun, suiteSeed } from "../faults/harness/seed.ts";
import { type Scene, loopWorkflow, makeScene, runLoop } from "./recorded-loop.ts";

const ITERATIONS = 30;
const RUN = "loop";

describe("a recorded loop of 30 iterations", () => {
  let scene: Scene;
  let holdfast: Holdfast;
  beforeAll(async () => {
    scene = await makeScene();
    holdfast = await scene.open();
    const { outcome } = await holdfast.start({
      workflow: "ralph",
      id: RUN,
      work: { kind: "task", text: "count" },
      agent: scene.agent,
      mode: "logged",
      options: {
        task: "Count",
        until: [`test $(wc -l < log.txt) -ge ${ITERATIONS}`],
        maxIterations: 40,
        detection: { stuck: null, oscillation: null, regression: null, burn: null },
      },
    });
    expect(outcome).toMatchObject({ kind: "done" });
    expect(await scene.started()).toBe(ITERATIONS);
    await scene.removeAgent();
  });
  afterAll(async () => {
    await holdfast.close();
    await scene[Symbol.asyncDispose]();
  });

  test("comes out the same, and no agent is started", async () => {
    const refs = await scene.git("for-each-ref");
    const trees = await scene.git("worktree", "list");
    const entries = (await Array.fromAsync(holdfast.store.readJournal({ run: RUN }))).length;
    const report = await holdfast.work.replay({ run: RUN });
    expect(report).toMatchObject({
      verdict: "identical",
      divergence: null,
      problems: [],
      agents: ITERATIONS,
      iteration: ITERATIONS,
      outcome: "done",
      filled: 0,
    });
    const newest = await holdfast.store.latest(RUN);
    expect(report).toMatchObject({ from: 1, to: newest?.sequence, compared: (newest?.sequence ?? 0) - 1 });
    // The program is not even there any more, and nothing of the run or its repository was touched.
    expect(await scene.started()).toBe(ITERATIONS);
    expect(await scene.git("for-each-ref")).toBe(refs);
    expect(await scene.git("worktree", "list")).toBe(trees);
    expect(await Array.fromAsync(holdfast.store.readJournal({ run: RUN }))).toHaveLength(entries);
  });

  test("reports for each call its input, its processes and its files", async () => {
    const calls = (await Array.fromAsync(holdfast.store.readJournal({ run: RUN })))
      .filter(({ kind }) => kind === "call.recorded")
      .map(parseRecordedCall);
    const agents = calls.filter((call) => call.kind === "agent");
    expect(agents).toHaveLength(ITERATIONS);
    const hashes = new Set(agents.map((call) => call.ran.environment.hash));
    expect(hashes.size).toBe(1);
    const environments = calls.flatMap((call) => (call.kind === "command" ? [call.environment.values] : []));
    expect(environments.filter((values) => values !== null)).toMatchObject([{ PATH: process.env["PATH"] }]);
    for (const [index, call] of agents.entries()) {
      expect(call.asked.prompt).toContain(`This is iteration ${index + 1} of`);
      expect(call.ran.argv?.at(-1)).toContain("agent.sh");
      expect(call.files.before?.tree).not.toBe(call.files.after?.tree);
      expect(call.heard.events).toContainEqual({ kind: "text", text: `did ${index + 1}` });
    }
    const commands = calls.filter((call) => call.kind === "command");
    expect(commands.length).toBeGreaterThanOrEqual(ITERATIONS);
    expect(commands.at(-1)).toMatchObject({ result: { kind: "exited", code: 0 } });
  });

  test("stops at a checkpoint that is named", async () => {
    const report = await holdfast.work.replay({ run: RUN, to: 9 });
    expect(report).toMatchObject({ verdict: "identical", to: 9, compared: 8, outcome: "active" });
  });

  test("retention drops nothing that the record needs", async () => {
    const later = await scene.open({ adapters: (adapters) => adapters });
    const plan = await later.planGc({ run: RUN });
    expect(plan.plans.flatMap(({ decisions }) => decisions.filter(({ action }) => action === "drop"))).toEqual([]);
    await later.close();
  });
});

describe("a changed byte of the record", () => {
  let scene: Scene;
  const LOOPS = 3;
  beforeAll(async () => {
    scene = await makeScene();
    const holdfast = await scene.open();
    await runLoop(scene, holdfast, { iterations: LOOPS, mode: "logged" });
    // Everything in the database file itself, nothing in its log.
    await holdfast.close();
  });
  afterAll(() => scene[Symbol.asyncDispose]());

  const look = async (): Promise<{ readonly found: string | null }> => {
    let holdfast: Holdfast | undefined;
    try {
      holdfast = await scene.open();
      const report = await holdfast.work.replay({ run: RUN, to: 2, workflow: loopWorkflow(LOOPS) });
      if (report.verdict === "identical") return { found: null };
      return { found: report.problems[0]?.what ?? report.divergence?.field ?? "" };
    } catch (error) {
      if (error instanceof HoldfastError) return { found: error.message };
      throw error;
    } finally {
      await holdfast?.close();
    }
  };

  test("is found and named anywhere in the store, or the record reads unchanged", async () => {
    const store = join(scene.repository, ".git", "holdfast");
    const kept = join(scene.root, "kept");
    await cp(store, kept, { recursive: true });
    const before = await readWhole(scene);
    const files = readdirSync(store).filter((name) => statSync(join(store, name)).isFile() && name.endsWith(".db"));
    expect(files.length).toBeGreaterThan(0);
    const chance = chanceOf(suiteSeed(), "replay-bytes");
    let found = 0;
    for (const name of files) {
      const bytes = readFileSync(join(kept, name));
      const places = isFullRun() ? 400 : 12;
      for (let nth = 0; nth < places; nth += 1) {
        const place =
          Math.floor((nth * bytes.length) / places) + chance.below(Math.max(1, Math.floor(bytes.length / places)));
        const flipped = Buffer.from(bytes);
        flipped[place] = (flipped[place] ?? 0) ^ (1 << chance.below(8));
        writeFileSync(join(store, name), flipped);
        const { found: what } = await look();
        // A byte that nothing reads (free space of a page) may be anything.
        if (what === null) expect(await readWhole(scene), `byte ${place} of ${name}`).toEqual(before);
        else {
          expect(what, `byte ${place} of ${name}`).not.toBe("");
          found += 1;
        }
        await rm(store, { recursive: true });
        await cp(kept, store, { recursive: true });
      }
    }
    expect(found).toBeGreaterThan(0);
    expect(await look()).toEqual({ found: null });
  });

  test("is found in the text of a recorded call, with its entry", async () => {
    const store = join(scene.repository, ".git", "holdfast");
    const [name = ""] = readdirSync(store).filter((file) => file.endsWith(".db"));
    const bytes = readFileSync(join(store, name));
    const place = bytes.indexOf("Do part 2");
    expect(place).toBeGreaterThan(0);
    const flipped = Buffer.from(bytes);
    flipped.write("Do part 3", place);
    writeFileSync(join(store, name), flipped);
    const holdfast = await scene.open();
    const report = await holdfast.work.replay({ run: RUN, workflow: loopWorkflow(LOOPS) });
    await holdfast.close();
    writeFileSync(join(store, name), bytes);
    expect(report).toMatchObject({ verdict: "damaged", compared: 0 });
    expect(report.problems[0]?.entry).toBeGreaterThan(1);
  });

  test("is found in a git object that a checkpoint needs", async () => {
    const holdfast = await scene.open();
    const tree = (await holdfast.store.getCheckpoint({ run: RUN, sequence: 3 })).tree ?? "";
    const blob = (await scene.git("rev-parse", `${tree}:file-1.txt`)).trim();
    const object = join(scene.repository, ".git", "objects", blob.slice(0, 2), blob.slice(2));
    const bytes = readFileSync(object);
    await rm(object, { force: true });
    await mkdir(join(object, ".."), { recursive: true });
    const flipped = Buffer.from(bytes);
    flipped[flipped.length - 3] = (flipped.at(-3) ?? 0) ^ 4;
    await writeFile(object, flipped);
    const report = await holdfast.work.replay({ run: RUN, workflow: loopWorkflow(LOOPS) });
    await rm(object, { force: true });
    await writeFile(object, bytes);
    expect(report.verdict).toBe("damaged");
    expect(report.problems[0]).toMatchObject({ code: "TREE_MISSING" });
    expect((await holdfast.work.replay({ run: RUN, workflow: loopWorkflow(LOOPS) })).verdict).toBe("identical");
    await holdfast.close();
  });
});

async function readWhole(scene: Scene): Promise<readonly string[]> {
  const holdfast = await scene.open();
  const entries = await Array.fromAsync(holdfast.store.readJournal({ run: RUN }));
  await holdfast.close();
  return entries.map(({ hash, digest }) => `${hash} ${digest}`);
}
