import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { inTurn, makeBench } from "../ralph/bench.ts";
import { readGz } from "./loop-run.ts";

interface Seen {
  readonly reads: number;
  readonly bad: readonly string[];
  readonly seen: readonly number[];
}

function startReader(root: string): { stop(): Promise<Seen> } {
  const reader = spawn(process.execPath, [join(import.meta.dirname, "reader.ts"), root], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  return {
    async stop() {
      reader.stdin.end();
      return JSON.parse(await text(reader.stdout));
    },
  };
}

test("a loop is visible below .aiwg while it works, always complete; the files read back are the run", async () => {
  await using bench = await makeBench({ answers: inTurn("1\n", "2\n", "42\n"), layout: "seed" });
  const reader = startReader(bench.clone);
  const statuses = new Set<string>();
  const state = (): JsonObject =>
    JSON.parse(readFileSync(join(bench.clone, `.aiwg/ralph/loops/${bench.run()}/state.json`), "utf8"));
  const outcome = await bench.work({
    listen: () => {
      try {
        statuses.add(String(state()["status"]));
      } catch {
        // Not there yet.
      }
    },
  });
  expect(outcome).toMatchObject({ kind: "done" });
  const { reads, bad, seen } = await reader.stop();
  expect(bad).toEqual([]);
  expect(reads).toBeGreaterThan(0);
  expect(seen).toEqual(expect.arrayContaining([1, 2, 3]));
  expect([...statuses]).toContain("running");
  expect(state()).toMatchObject({ status: "completed", iteration: 3, metrics: { total_iterations: 3 } });
  const directory = join(bench.clone, `.aiwg/ralph/loops/${bench.run()}/checkpoints`);
  // The last file is the end of the run itself.
  expect(readdirSync(directory).toSorted()).toEqual([
    expect.stringMatching(/^checkpoint-3-\d+\.json\.gz$/),
    ...[1, 2, 3].map((number) => `iteration-00${number}.json.gz`),
  ]);
  for (const number of [1, 2, 3]) {
    const document = readGz(join(directory, `iteration-00${number}.json.gz`));
    const percentage = number / 2;
    expect(document).toMatchObject({
      trigger: "iteration",
      state: {
        phase: number === 3 ? "publish" : "iterate",
        step: "loop",
        iteration: { current: number, max: 200, failures: number === 3 ? 2 : number },
        progress: { total_steps: 200, completed_steps: number, percentage },
        artifacts: [{ path: "answer.txt", hash: expect.stringMatching(/^[0-9a-f]{40}$/), status: "created" }],
        variables: { iterations: Array.from({ length: number }, (_, at) => ({ number: at + 1 })) },
      },
    });
    const { state: saved } = document as { readonly state: { readonly agent_state: { readonly memory: JsonObject } } };
    const { reflections } = saved.agent_state.memory as { readonly reflections: readonly JsonObject[] };
    expect(reflections.at(-1)).toMatchObject({ iteration: number, verdict: number === 3 ? "passed" : "failed" });
  }
  // In the user's own worktree, and in no commit.
  expect(await bench.git("clone", "status", "--porcelain")).toBe("");
  expect(await bench.git("clone", "ls-tree", "-r", "--name-only", `holdfast/${bench.run()}`)).not.toContain(".aiwg");
  const [plan, ...others] = await bench.holdfast.formats.planImport({ paths: [".aiwg"], run: "again" });
  expect(others).toEqual([]);
  expect(plan).toMatchObject({ format: "loop-json", broken: [], remarks: [] });
  const last = plan?.checkpoints.at(-1)?.planes;
  expect(last?.position).toMatchObject({ stage: "done", iteration: 3 });
  expect(last?.context.values).toEqual((await bench.planes()).context.values);
});

test("if .aiwg leads out of the repository, the run reports it once and continues", async () => {
  await using bench = await makeBench({ answers: inTurn("1\n", "42\n"), layout: "seed" });
  mkdirSync(join(bench.root, "outside"));
  symlinkSync(join(bench.root, "outside"), join(bench.clone, ".aiwg"));
  const notes: string[] = [];
  const outcome = await bench.work({
    listen: (event) => {
      if (event.kind === "note") notes.push(event.text);
    },
  });
  expect(outcome).toMatchObject({ kind: "done" });
  expect(notes.filter((text) => text.includes(".aiwg is behind"))).toEqual([expect.stringContaining("leads out of")]);
  expect(readdirSync(join(bench.root, "outside"))).toEqual([]);
});

test.each(["the newest checkpoint", "the end of iteration 1"])(
  "a stopped loop continues from its files alone, from %s, as another run",
  async (where) => {
    await using bench = await makeBench({ answers: inTurn("1\n", "2\n", "42\n"), layout: "seed" });
    const controller = new AbortController();
    const outcome = await bench.work({
      signal: controller.signal,
      listen: (event) => {
        if (event.kind === "stage_entered" && event.iteration === 2) controller.abort();
      },
    });
    expect(outcome).toMatchObject({ kind: "interrupted" });
    const { holdfast } = bench;
    const files = join(bench.clone, `.aiwg/ralph/loops/${bench.run()}/checkpoints`);
    if (where === "the end of iteration 1")
      for (const name of readdirSync(files)) if (name.startsWith("checkpoint-")) rmSync(join(files, name));
    const [plan] = await holdfast.formats.planImport({ paths: [".aiwg/ralph/loops"], run: "again" });
    if (plan === undefined) return expect.unreachable("nothing would be imported");
    expect(plan).toMatchObject({ workflow: "ralph", work: { kind: "task", text: "Write the answer" } });
    await holdfast.formats.applyImport(plan);
    const report = await holdfast.resume({ run: "again" });
    expect(report.outcome).toMatchObject({ kind: "done" });
    const entries = await Array.fromAsync(holdfast.store.readJournal({ run: "again" }));
    const calls = entries.filter(({ kind, body }) => kind === "step.started" && body["step"] === "agent");
    expect(calls).toHaveLength(2);
    // Both keep what they have: neither takes the other's place.
    const newest = readGz(join(files, "iteration-003.json.gz"));
    expect(newest["metadata"]).toMatchObject({ holdfast: expect.stringContaining("/again@") });
  },
);
