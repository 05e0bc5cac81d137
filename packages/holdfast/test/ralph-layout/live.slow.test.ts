import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, symlinkSync } from "node:fs";
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

test("a loop is seen below .aiwg as it goes, whole at every moment; what was read back is the run", async () => {
  await using bench = await makeBench({ answers: inTurn("1\n", "2\n", "42\n") });
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
  expect(readdirSync(directory).toSorted()).toEqual([0, 1, 2, 3].map((number) => `iteration-00${number}.json.gz`));
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
  await using bench = await makeBench({ answers: inTurn("1\n", "42\n") });
  mkdirSync(join(bench.root, "outside"));
  symlinkSync(join(bench.root, "outside"), join(bench.clone, ".aiwg"));
  const notes: string[] = [];
  const outcome = await bench.work({
    listen: (event) => {
      if (event.kind === "note") notes.push(event.text);
    },
  });
  expect(outcome).toMatchObject({ kind: "done" });
  expect(notes.filter((text) => text.includes(".aiwg"))).toEqual([expect.stringContaining("leads out of")]);
  expect(readdirSync(join(bench.root, "outside"))).toEqual([]);
});

test("a stopped loop continues from its files alone, as another run", async () => {
  await using bench = await makeBench({ answers: inTurn("1\n", "2\n", "42\n") });
  const controller = new AbortController();
  const outcome = await bench.work({
    signal: controller.signal,
    listen: (event) => {
      if (event.kind === "stage_entered" && event.iteration === 2) controller.abort();
    },
  });
  expect(outcome).toMatchObject({ kind: "interrupted" });
  const { holdfast } = bench;
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
  const directory = join(bench.clone, `.aiwg/ralph/loops/${bench.run()}/checkpoints`);
  const newest = readGz(join(directory, "iteration-003.json.gz"));
  expect(newest["metadata"]).toMatchObject({ holdfast: expect.stringContaining("/again@") });
});
