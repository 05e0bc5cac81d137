import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { finish, pass, score } from "./answers.ts";
import { makeBench } from "./bench.ts";
import type { Answer } from "./bench.ts";

const rounds = [60, 75, 70, 65, 64];
const falling: readonly Answer[] = [
  ...rounds.map((value, index) => finish({ iteration: index + 1, text: `worth ${value}\n` })),
  ...rounds.map((value, index) => score(value, index + 1)),
];

describe("reviews without progress", () => {
  test("end with the files of the best one, committed, and a report", async () => {
    await using bench = await makeBench({ answers: falling });
    const outcome = await bench.work();
    expect(outcome).toMatchObject({
      kind: "failed",
      reason: expect.stringContaining("no improvement for 4 consecutive failures"),
    });
    expect(await bench.read("greeting.txt")).toBe("worth 75\n");
    expect(await bench.git("worktree", "status", "--porcelain")).toBe("");
    expect(await bench.git("worktree", "log", "-1", "--format=%s")).toContain("best-reviewed state (75)");
    const report = (await bench.read(".tmp/stuck-report.md")) ?? "";
    for (const part of [
      "no improvement",
      "+worth 75",
      "best review (75)",
      "What failed: review",
      "review, iteration 5",
      "Cost:",
    ])
      expect(report).toContain(part);
    expect((await bench.state()).stuckReport).toBe(report);
  });
});

describe("an agent without progress", () => {
  test("without a change three times is stuck", async () => {
    await using bench = await makeBench({ answers: [{ when: { role: "impl" }, reply: "Hm." }] });
    expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringMatching(/^Stuck/) });
    expect((await bench.planes()).position.iteration).toBe(3);
    expect(await bench.read(".tmp/impl-output.txt")).toBe("Hm.");
  });

  test("by a command that removes .tmp each time and fails is stuck as well", async () => {
    const sweeps = `cat > /dev/null; rm -rf .tmp; echo Hm.; exit 3`;
    await using bench = await makeBench({ answers: [], options: { implModel: `command:${sweeps}` } });
    expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringMatching(/^Stuck/) });
    expect((await bench.planes()).position.iteration).toBe(3);
    expect(await bench.read(".tmp/stuck-report.md")).toContain("Cost: tokens unknown, money unknown, ");
  });

  test("by a plain command is a question the second time, not a missing marker", async () => {
    await using bench = await makeBench({ answers: [], options: { implModel: "command:cat > /dev/null" } });
    expect(await bench.work()).toMatchObject({
      kind: "waiting",
      for: "you",
      reason: expect.stringMatching(/no file differs from main, for the second time in a row/),
    });
    expect(await bench.calls("agent")).toBe(2);
  });

  test("files that do not parse three times are fatal, and each time the prompt has the reason", async () => {
    await using bench = await makeBench({ answers: [finish({ path: "broken.json", text: "{" })] });
    expect(await bench.work()).toMatchObject({
      kind: "failed",
      reason: expect.stringContaining("parse gate retry limit (3"),
    });
    expect(await bench.read(".tmp/impl-input-2.txt")).toContain("broken.json");
    expect(JSON.parse((await bench.read(".tmp/parse-iter-3.json")) ?? "{}")).toMatchObject({
      pass: false,
      failed_files: ["broken.json"],
    });
  });

  test("a gate command that fails feeds its output back", async () => {
    const gate = "grep -q good greeting.txt || { echo it is not good; exit 3; }";
    const answers = [finish({ iteration: 1 }), finish({ iteration: 2, text: "good\n" }), pass];
    await using bench = await makeBench({ answers, options: { gate, baseGate: false } });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect((await bench.trail()).slice(1, 3)).toEqual(["impl:impl_not_done", "impl:impl_done"]);
    expect(await bench.read(".tmp/impl-input-2.txt")).toMatch(/failed with exit 3[^]*it is not good/);
  });

  const TITLES = [
    ["Greet people", "[feat][#1] Greet people"],
    ["[feat][#2] Add a greeting", "[feat][#1] Add a greeting"],
    ["x".repeat(3000), `[feat][#1] ${"x".repeat(243)}…`],
  ] as const;
  test.each(sampleBySeed(TITLES, 1))(
    "a title of the wrong form (%#) is corrected and costs no agent call",
    async (proposed, formed) => {
      await using bench = await makeBench({ answers: [finish({ title: proposed }), pass] });
      expect(await bench.work()).toMatchObject({ kind: "done" });
      expect(await bench.calls("agent")).toBe(1);
      expect((await bench.forge.findPullRequest("holdfast/issue-1-bench"))?.title).toBe(formed);
    },
  );

  test("a push that a hook refuses goes back with the hook's output, without a rebase", async () => {
    const answers = [finish({ iteration: 1 }), finish({ iteration: 2, text: "signed\n" }), pass];
    await using bench = await makeBench({ answers });
    const hook = join(bench.root, "remote.git/hooks/pre-receive");
    const body =
      'read old new ref\ngit show "$new:greeting.txt" | grep -q signed || { echo sign it first >&2; exit 1; }\n';
    await writeFile(hook, `#!/bin/sh\n${body}`);
    await chmod(hook, 0o755);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const trail = await bench.trail();
    expect(trail).toContain("pr:pr_fail_fixable");
    expect(trail.join(" ")).not.toContain("rebase");
    expect(await bench.read(".tmp/impl-input-2.txt")).toContain("sign it first");
    expect((await bench.planes()).position.attempts).toMatchObject({ pr: 1 });
  });
});

describe("CI", () => {
  test("a failed check becomes a fix within the machine, and is no pull request attempt", async () => {
    const answers = [finish({ iteration: 1 }), finish({ iteration: 2, text: "fixed\n" }), pass];
    await using bench = await makeBench({ answers, options: { waitForCi: true } });
    const ci = "grep -q fixed greeting.txt || { echo greeting is broken; exit 1; }";
    await writeFile(join(bench.root, "remote.git/holdfast-forge/forge.yaml"), `ci: ${JSON.stringify(ci)}\n`);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(
      "setup:setup_done impl:impl_done review:review_pass pr:pr_pass ci:ci_fail impl:impl_done review:review_pass pr:pr_pass ci:ci_pass done:done".split(
        " ",
      ),
    );
    expect(await bench.read(".tmp/impl-input-2.txt")).toContain("greeting is broken");
    expect((await bench.planes()).position).toMatchObject({ iteration: 2, attempts: {} });
    expect(await bench.pulls()).toBe(1);
  });
});

describe("a limit that ended a run can be raised", () => {
  const hook =
    'read old new ref\ngit show "$new:greeting.txt" | grep -q signed || { echo sign it first >&2; exit 1; }\n';
  const resolve: Answer = { when: { role: "rebase" }, edits: [{ do: "write", path: "greeting.txt", text: "both\n" }] };
  const second = finish({ iteration: 2, text: "signed\n" });

  const LIMITS = [
    ["max-iterations", { maxIterations: 1 }, [finish({ iteration: 1 }), second, score(50, 1), pass]],
    ["max-reviews", { maxReviews: 1, onMaxReviews: "fatal" }, [finish({ iteration: 1 }), second, score(50, 1), pass]],
    ["max-pr-attempts", { limits: { prAttempts: 1 } }, [finish({ iteration: 1 }), second, score(90, 1), pass]],
    [
      "max-rebases",
      { waitForCi: true, ci: { rebaseWhenBehind: true }, limits: { rebases: 0 } },
      [finish({ text: "signed\n" }), resolve, pass],
    ],
    [
      "max-parse-failures",
      { limits: { parseStreak: 1 } },
      [finish({ iteration: 1, path: "a.json", text: "{" }), finish({ iteration: 2, path: "a.json", text: "{}" }), pass],
    ],
    ["max-review-failures", { limits: { reviewStreak: 1 } }, [finish({ iteration: 1 }), second, score(50, 1), pass]],
    ["max-stuck", { limits: { stuck: 1 } }, [{ when: { role: "impl", iteration: 1 }, reply: "Hm." }, second, pass]],
  ] as const;
  test.each(sampleBySeed(LIMITS, 2))("--%s", async (flag, options, answers) => {
    await using bench = await makeBench({ answers, options });
    if (flag === "max-pr-attempts") {
      await writeFile(join(bench.root, "remote.git/hooks/pre-receive"), `#!/bin/sh\n${hook}`);
      await chmod(join(bench.root, "remote.git/hooks/pre-receive"), 0o755);
    }
    if (flag === "max-rebases") {
      const ci = await bench.moveBaseOnce("greeting.txt", "base\n");
      await writeFile(join(bench.root, "remote.git/holdfast-forge/forge.yaml"), `ci: ${JSON.stringify(ci)}\n`);
    }
    expect(await bench.work()).toMatchObject({ kind: "failed" });
    const { position } = await bench.planes();
    await expect(bench.raise({ [flag]: flag === "max-rebases" ? 0 : 1 })).rejects.toMatchObject({ code: "USAGE" });
    await bench.raise({ [flag]: 4 });
    const raised = (await bench.planes()).position;
    expect(raised).toMatchObject({ attempts: position.attempts, streaks: position.streaks });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.pulls()).toBe(1);
    expect((await bench.state()).stopped).toBeUndefined();
  });

  test("two in one command, killed before or after their one commit: both or none", async () => {
    const answers = [{ when: { role: "impl", iteration: 1 }, reply: "Hm." }, finish({ iteration: 2 }), pass];
    await using bench = await makeBench({ answers, options: { maxIterations: 1, limits: { stuck: 1 } } });
    expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringMatching(/^Stuck/) });
    const limits = { "max-iterations": 3, "max-stuck": 2 };
    await expect(bench.raise({ "max-stuck": 2 })).rejects.toMatchObject({
      code: "USAGE",
      hint: expect.stringContaining("--max-iterations"),
    });
    const { sequence } = (await bench.store.latest("issue-1-bench")) ?? {};
    expect(await bench.raise(limits, { at: 1, when: "before" })).toBe("killed");
    expect((await bench.store.latest("issue-1-bench"))?.sequence).toBe(sequence);
    expect(await bench.raise(limits, { at: 1, when: "after" })).toBe("killed");
    const after = await bench.store.latest("issue-1-bench");
    expect(after?.planes.position).toMatchObject({ stage: "impl", iteration: 2 });
    expect(await bench.raise(limits)).toBe("raised");
    expect((await bench.store.latest("issue-1-bench"))?.sequence).toBe(after?.sequence);
    expect(await bench.work()).toMatchObject({ kind: "done" });
  });
});
