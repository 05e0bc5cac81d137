import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { finish, pass, score } from "./answers.ts";
import { type Answer, type Bench, makeBench } from "./bench.ts";

/** Lives of a few commits each, one after the other, until the run is over. Returns how many it took. */
async function liveAndDie(bench: Bench, seed: number): Promise<number> {
  for (let life = 1; life < 200; life += 1) {
    const at = 2 + ((life * 7 + seed) % 5);
    const when = (life + seed) % 2 === 0 ? "before" : "after";
    const { kind } = await bench.work({ dies: { at, when } }).catch(endedBefore);
    if (kind === "done" || kind === "failed") return life;
    expect(kind).toBe("killed");
  }
  throw new Error("the run does not end");
}

/** The previous process died right after its last commit: the run has ended, and its status shows it. */
function endedBefore(error: unknown): { readonly kind: "failed" } {
  if (error instanceof HoldfastError && error.code === "RUN_FAILED") return { kind: "failed" };
  throw error;
}

async function countPushes(bench: Bench): Promise<() => Promise<number>> {
  const log = join(bench.root, "pushes");
  await writeFile(log, "");
  const hook = join(bench.root, "remote.git/hooks/post-receive");
  await writeFile(hook, `#!/bin/sh\ngrep holdfast/ >> ${log}\n`);
  await chmod(hook, 0o755);
  return async () => (await readFile(log, "utf8")).split("\n").length - 1;
}

async function finishedSteps(bench: Bench): Promise<readonly string[]> {
  const entries = await Array.fromAsync(bench.store.readJournal({ run: "issue-1-bench" }));
  return entries
    .filter((entry) => entry.kind === "step.finished")
    .map(({ body }) => `${String(body["stageAttempt"])}/${String(body["step"])}`);
}

const SEED = Number(process.env["HOLDFAST_SEED"] ?? 1);
const loop: readonly Answer[] = [
  finish({ iteration: 1 }),
  finish({ iteration: 2, text: "better\n" }),
  score(50, 1),
  pass,
];

/** Each takes many lives. */
const STORIES = [
  {
    name: "killed every few commits, the run ends as if nothing had happened",
    async run() {
      await using bench = await makeBench({ answers: loop, options: { gate: "true" } });
      const pushes = await countPushes(bench);
      expect(await liveAndDie(bench, SEED)).toBeGreaterThan(8);
      expect(await bench.trail()).toEqual(
        "setup:setup_done impl:impl_done review:review_fail impl:impl_done review:review_pass pr:pr_pass done:done".split(
          " ",
        ),
      );
      expect(await bench.git("remote", "show", "holdfast/issue-1-bench:greeting.txt")).toBe("better");
      expect(await bench.git("remote", "log", "--format=%s", "main..holdfast/issue-1-bench")).toBe(
        "Write greeting.txt\nWrite greeting.txt",
      );
      expect(await bench.pulls()).toBe(1);
      expect(await pushes()).toBe(1);
      const steps = await finishedSteps(bench);
      expect(new Set(steps).size).toBe(steps.length);
    },
  },

  {
    name: "killed every few commits while its conflict is resolved, the run ends with both sides and one rebase",
    async run() {
      const resolve: Answer = {
        when: { role: "rebase" },
        edits: [{ do: "write", path: "greeting.txt", text: "hello\nbase\n" }],
      };
      const options = { waitForCi: true, ci: { rebaseWhenBehind: true } };
      await using bench = await makeBench({ answers: [finish(), pass, resolve], options });
      const ci = await bench.moveBaseOnce("greeting.txt", "base\n");
      await writeFile(join(bench.root, "remote.git/holdfast-forge/forge.yaml"), `ci: ${JSON.stringify(ci)}\n`);
      const pushes = await countPushes(bench);
      await liveAndDie(bench, SEED);
      expect((await bench.trail()).join(" ")).toMatch(
        /ci:ci_conflict rebase:rebase_ok review:review_pass pr:pr_pass ci:ci_pass done:done$/,
      );
      expect(await bench.git("remote", "show", "holdfast/issue-1-bench:greeting.txt")).toBe("hello\nbase");
      expect(await bench.git("worktree", "status", "--porcelain")).toBe("");
      expect(await pushes()).toBe(2);
      expect(await bench.pulls()).toBe(1);
      expect((await bench.planes()).position.attempts).toEqual({ rebase: 1 });
    },
  },

  {
    name: "killed every few commits while its simplification fails, the run pushes the reviewed files once",
    async run() {
      const broken: Answer = {
        when: { role: "simplify" },
        edits: [{ do: "write", path: "greeting.json", text: "{" }],
      };
      const answers = [finish({ path: "greeting.json", text: "[1]\n" }), pass, broken];
      await using bench = await makeBench({ answers, options: { simplify: true } });
      const pushes = await countPushes(bench);
      await liveAndDie(bench, SEED);
      expect((await bench.trail()).join(" ")).toMatch(/simplify:simp_fail pr:pr_pass done:done$/);
      expect(await bench.git("remote", "show", "holdfast/issue-1-bench:greeting.json")).toBe("[1]");
      expect(await bench.git("worktree", "status", "--porcelain")).toBe("");
      expect(await pushes()).toBe(1);
    },
  },

  {
    name: "counters reset on resume: killed on the way to giving up, the run still ends with the best files and its true reason",
    async run() {
      const worth = [60, 75, 70, 65, 64];
      const answers = [
        ...worth.map((value, index) => finish({ iteration: index + 1, text: `worth ${value}\n` })),
        ...worth.map((value, index) => score(value, index + 1)),
      ];
      await using bench = await makeBench({ answers });
      await liveAndDie(bench, SEED);
      expect(await bench.read("greeting.txt")).toBe("worth 75\n");
      expect((await bench.planes()).position).toMatchObject({
        iteration: 5,
        attempts: { review: 5 },
        streaks: { review: 4 },
      });
      expect((await bench.store.getRun("issue-1-bench"))?.state).toMatchObject({
        kind: "failed",
        reason: expect.stringContaining("no improvement"),
      });
    },
  },
];

test.each(sampleBySeed(STORIES, 2))("$name", ({ run }) => run());
