import { expect, test } from "vitest";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { finish, pass, score } from "./answers.ts";
import { makeBench } from "./bench.ts";
import type { Answer } from "./bench.ts";

const simplify = (path: string, text: string): Answer => ({
  when: { role: "simplify" },
  edits: [{ do: "write", path, text }],
});
const reviewed = '{ "a": 1 }\n';

test("simplify: a change that keeps the gates green is pushed", async () => {
  const answers = [finish({ path: "greeting.json", text: reviewed }), pass, simplify("greeting.json", "{}\n")];
  await using bench = await makeBench({ answers, options: { simplify: true } });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await bench.trail()).toContain("simplify:simp_pass");
  expect(await bench.git("remote", "show", "holdfast/issue-1-bench:greeting.json")).toBe("{}");
  expect(JSON.parse((await bench.read(".tmp/impl-checkpoint.json")) ?? "{}")).toMatchObject({ version: 2 });
});

const commitAndFail =
  "grep -q a greeting.json || { git -c user.name=a -c user.email=a@example.org commit -qam Broken; exit 1; }";

const REVERTED = [
  ["breaks a gate", simplify("greeting.json", "{"), {}, "do not parse|does not parse"],
  [
    "is committed and breaks a gate",
    simplify("greeting.json", "{}\n"),
    { gate: commitAndFail, baseGate: false },
    "gate command",
  ],
  ["touches another file", simplify("other.json", "{}\n"), {}, "not given: other.json"],
  // A crash within two seconds would be tried again.
  [
    "comes from an agent that failed",
    { when: { role: "simplify" }, fail: { cause: "permission_denied" } },
    {},
    "agent failed",
  ],
] as const;
test.each(sampleBySeed(REVERTED, 2))(
  "a simplification that %s is reverted and costs no iteration",
  async (_, answer, more, why) => {
    const answers = [finish({ path: "greeting.json", text: reviewed }), pass, answer];
    await using bench = await makeBench({ answers, options: { simplify: true, ...more } });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual(
      "setup:setup_done impl:impl_done review:review_pass simplify:simp_fail pr:pr_pass done:done".split(" "),
    );
    expect((await bench.state()).history.find(({ event }) => event === "simp_fail")?.reason).toMatch(new RegExp(why));
    expect(await bench.git("remote", "show", "holdfast/issue-1-bench:greeting.json")).toBe(reviewed.trim());
    expect(await bench.git("remote", "ls-tree", "--name-only", "holdfast/issue-1-bench")).not.toContain("other.json");
    expect(await bench.git("worktree", "status", "--porcelain")).toBe("");
    expect((await bench.planes()).position).toMatchObject({ iteration: 1, attempts: { simplify: 1 } });
  },
);

test("max reviews: after that many failures the run continues without another review", async () => {
  await using bench = await makeBench({ answers: [finish(), score(50)], options: { maxReviews: 1 } });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.trail()).filter((event) => event.startsWith("review"))).toEqual([
    "review:review_fail",
    "review:review_pass",
  ]);
  expect((await bench.state()).reviews).toHaveLength(1);
});

test("a user's template that lacks a placeholder is refused before any agent is called; a whole one is used", async () => {
  const files = { "prompt.md": "{{issue_no}}", "readme.md": "hello\n" };
  await using bench = await makeBench({ answers: [], files, options: { prompts: { impl: { path: "prompt.md" } } } });
  await expect(bench.work()).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining("issue_file"),
  });

  const names =
    "issue_no issue_file finalize_file iteration_section previous_output_section previous_commit_report_section ci_failure_section";
  const text = `MINE ${names
    .split(" ")
    .map((name) => `{#${name}#}`)
    .join(" ")}`;
  const prompts = { impl: { text } };
  await using other = await makeBench({ answers: [finish()], options: { prompts, review: false } });
  expect(await other.work()).toMatchObject({ kind: "done" });
  expect(await other.read(".tmp/impl-input-1.txt")).toMatch(/^MINE 1 \.tmp\/issue-1\.md/);
  expect(await other.trail()).not.toContain("review:review_pass");
});

test("a plan is in every prompt, in the checkpoint and in the document; the agent cannot change it", async () => {
  const plan = { path: "docs/plan.md", text: "1. Say hello first.\n" };
  const spoiled = { do: "write", path: ".tmp/plan.md", text: "Do something else.\n" };
  const { edits, ...rest } = finish({ iteration: 1 });
  const first = { ...rest, edits: [...(Array.isArray(edits) ? edits : []), spoiled] };
  const answers = [first, finish({ iteration: 2, text: "hello\n\n" }), score(50, 1), pass];
  await using bench = await makeBench({ answers, options: { plan } });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  for (const input of [".tmp/impl-input-1.txt", ".tmp/impl-input-2.txt", ".tmp/impl-input-base.txt"])
    expect(await bench.read(input)).toContain("1. Say hello first.");
  expect(await bench.read(".tmp/plan.md")).toBe(plan.text);
  expect((await bench.planes()).inputs.plan).toMatchObject({ path: plan.path });
  expect(JSON.parse((await bench.read(".tmp/impl-checkpoint.json")) ?? "{}")).toMatchObject({
    state: { plan_file: plan.path },
  });
});
