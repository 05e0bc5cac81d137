import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { type Bench, makeBench, writes } from "./bench.ts";

const GOLDEN = new URL("../../../formats/golden/loop-json/.aiwg/", import.meta.url);
const LOOP = "ralph-fix-tests-a1b2c3d4";
const DIRECTORY = `.aiwg/ralph/loops/${LOOP}`;

/** The seed's own examples: a loop with an id, and one of the legacy layout. */
const EXAMPLES = {
  "with a loop id": `ralph/loops/${LOOP}/checkpoints/iteration-005.json`,
  legacy: "checkpoints/ralph-research-impl-2026-01-25T15-00-00Z-iteration.json",
} as const;

function example(name: keyof typeof EXAMPLES): JsonObject {
  return JSON.parse(readFileSync(new URL(EXAMPLES[name], GOLDEN), "utf8"));
}

async function put({ clone }: Bench, files: Readonly<Record<string, JsonObject>>): Promise<void> {
  for (const [path, document] of Object.entries(files)) {
    const text = `${JSON.stringify(document, null, 2)}\n`;
    await mkdir(dirname(join(clone, path)), { recursive: true });
    await writeFile(join(clone, path), path.endsWith(".gz") ? gzipSync(text) : text);
  }
}

/** What AIWG's schema of a loop's state has. */
const STATE = {
  version: "2.0.0",
  loop_id: LOOP,
  status: "running",
  iteration: 5,
  task: "Write the answer",
  completion_criteria: "grep -q 42 answer.txt passes",
  configuration: { max_iterations: 9, timeout_minutes: 600 },
};

const REFLECTION = {
  loop_id: LOOP,
  iteration: 5,
  timestamp: "2026-02-02T21:04:00Z",
  actor_output: { actions: [], rationale: "" },
  evaluator_output: { passed: false, verification_type: "command", errors: ["login fails"], reward_signal: 0.4 },
  self_reflection: { reflection_text: "Mocks hid the failure.", lessons_learned: ["Do not mock the clock."] },
  memory_metadata: { omega_capacity: 2, current_memory_size: 1, window_policy: "recency" },
};

const loop = (rest: { readonly state?: JsonObject; readonly trigger?: string; readonly current?: number } = {}) => {
  const document = example("with a loop id");
  const inner = document["state"] as JsonObject;
  const iteration = { ...(inner["iteration"] as JsonObject), current: rest.current ?? 5 };
  return {
    [`${DIRECTORY}/checkpoints/iteration-005.json.gz`]: {
      ...document,
      trigger: rest.trigger ?? "iteration",
      state: { ...inner, iteration },
    },
    [`${DIRECTORY}/state.json`]: { ...STATE, ...rest.state },
    [`${DIRECTORY}/reflection-memory.json`]: REFLECTION,
  };
};

describe("a loop that AIWG wrote", () => {
  test("continues with its task, check, limits, learnings and reflections, in its own directory", async () => {
    await using bench = await makeBench({ answers: [writes("1\n", { when: { iteration: 6 } }), writes("42\n")] });
    await put(bench, loop());
    expect(await bench.imports(".aiwg")).toMatchObject({ workflow: "ralph", broken: [] });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual([
      "begin:begun",
      "iterate:iterated",
      "verify:verify_fail",
      "reflect:again",
      "iterate:iterated",
      "verify:verify_pass",
      "reflect:criterion_met",
      "publish:published",
    ]);
    const { config, position, inputs } = await bench.planes();
    expect(config.inputs).toMatchObject({
      task: "Write the answer",
      until: [{ command: "grep -q 42 answer.txt" }],
      maxIterations: 9,
      maxMinutes: 600,
      memory: { capacity: 2, policy: "recency" },
    });
    expect([position.iteration, inputs.task]).toEqual([7, "Write the answer"]);
    const state = await bench.state();
    expect(state).toMatchObject({ totals: { iterations: 7, failed: 1, passed: 1 }, refused: [] });
    expect(state.learnings.map(({ text }) => text)).toContain("Do not mock the clock.");
    expect(state.memory.map(({ iteration }) => iteration)).toEqual([6, 7]);
    const prompt = await bench.read(".tmp/ralph-prompt-6.md");
    expect(prompt).toContain("Mocks hid the failure.");
    expect(prompt).toContain("Do not mock the clock.");
    const written = join(bench.clone, DIRECTORY, "checkpoints/iteration-006.json.gz");
    const plans = await bench.holdfast.formats.planImport({ paths: [written] });
    expect(plans).toMatchObject([{ before: "own", run: bench.run() }]);
    // The directory has AIWG's checkpoint and ours; the run has both.
    const whole = await bench.holdfast.formats.planImport({ paths: [".aiwg"] });
    expect(whole).toMatchObject([{ before: "own", run: bench.run() }]);
    expect(whole[0]?.checkpoints.map(({ planes }) => planes.position.iteration)).toEqual([5, 6, 7, 7]);
  });
});

/** How a resume of the loop goes: `first` is how it is refused, `instead` is what the user types. */
interface Case {
  readonly name: string;
  readonly files: Readonly<Record<string, JsonObject>>;
  readonly first?: { readonly code: string; readonly hint: string };
  readonly instead?: { readonly limits?: JsonObject; readonly force?: boolean; readonly from?: number };
  /** The iterations that are executed here. */
  readonly iterations: readonly number[];
}

const UNTIL = { limits: { until: ["grep -q 42 answer.txt"] } };
const NO_CHECK = { code: "USAGE", hint: "--until" };

/** Every status and trigger that the seed's documents can have, and its two examples as they are. */
const CASES: readonly Case[] = [
  ...["running", "paused", "completing", "crashed", "recovering", "interrupted"].map((status) => ({
    name: `status ${status}`,
    files: loop({ state: { status } }),
    iterations: [6],
  })),
  ...["completed", "success"].map((status) => ({
    name: `status ${status}`,
    files: loop({ state: { status } }),
    iterations: [],
  })),
  ...["failed", "aborted", "error", "budget_exhausted"].map((status) => ({
    name: `status ${status}`,
    files: loop({ state: { status } }),
    first: { code: "RUN_FAILED", hint: "@latest --force" },
    instead: { from: 1, force: true },
    iterations: [6],
  })),
  {
    name: "no iterations left",
    files: loop({ state: { status: "limit_reached", configuration: { max_iterations: 5 } } }),
    first: { code: "RUN_FAILED", hint: "--max N" },
    instead: { limits: { max: 6 } },
    iterations: [6],
  },
  ...["manual", "automatic", "phase_boundary", "pre_risky_op", "error_recovery"].map((trigger) => ({
    name: `trigger ${trigger}`,
    files: loop({ trigger }),
    iterations: [5],
  })),
  ...Object.entries(EXAMPLES).map(([name, path]) => ({
    name: `the seed's example ${name}`,
    files: { [`.aiwg/${path}`]: JSON.parse(readFileSync(new URL(path, GOLDEN), "utf8")) },
    first: NO_CHECK,
    instead: UNTIL,
    iterations: [6],
  })),
];

test.concurrent.for(sampleBySeed(CASES, 4))(
  "imported, continued to its end, exported and read again: $name",
  async ({ files, first, instead = {}, iterations }) => {
    await using bench = await makeBench({ answers: [writes("42\n")] });
    await put(bench, files);
    const [path = ""] = Object.keys(files);
    const { run } = await bench.imports(path);
    const { formats, store } = bench.holdfast;
    const before = (await bench.journal()).length;
    // What was imported is exported as it was, apart from the version of the schema.
    const same = JSON.parse(
      Buffer.from((await formats.encode({ run, sequence: 1 }, "loop-json")).encoded.bytes).toString(),
    );
    expect({ ...same, metadata: {} }).toEqual({ ...files[path], metadata: {} });
    if (first !== undefined) {
      const hint = expect.stringContaining(first.hint);
      await expect(bench.work()).rejects.toMatchObject({ code: first.code, hint });
      expect((await bench.journal()).length).toBe(before);
    }
    expect(await bench.work(instead)).toMatchObject({ kind: "done" });
    expect((await bench.state()).iterations.map(({ number }) => number)).toEqual(iterations);
    expect(await bench.calls()).toBe(iterations.length);
    if (iterations.length === 0) expect((await bench.journal()).length).toBe(before);
    const sequence = (await store.latest(run))?.sequence ?? 0;
    const { encoded } = await formats.encode({ run, sequence }, "loop-json");
    await writeFile(join(bench.clone, "exported.json"), encoded.bytes);
    const [again] = await formats.planImport({ paths: ["exported.json"], run: "again" });
    expect(again).toMatchObject({ workflow: "ralph", broken: [] });
    expect(again?.checkpoints[0]?.planes.position).toMatchObject({ iteration: iterations[0] ?? 5 });
    const events = await Array.fromAsync(store.verify({}));
    expect(events.filter(({ kind }) => kind === "problem")).toEqual([]);
  },
);
