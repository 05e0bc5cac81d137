import { expect, test } from "vitest";
import { finish, pass, score } from "./answers.ts";
import { makeBench } from "./bench.ts";
import type { Answer } from "./bench.ts";

test("simplify: what keeps the gates green is pushed, what breaks them goes back", async () => {
  const simplify = (iteration: number, text: string): Answer => ({
    when: { role: "simplify", iteration },
    edits: [{ do: "write", path: "greeting.json", text }],
  });
  const answers = [
    finish({ path: "greeting.json", text: '{ "a": 1 }\n' }),
    pass,
    simplify(1, "{"),
    simplify(2, "{}\n"),
  ];
  await using bench = await makeBench({ answers, options: { simplify: true } });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.trail()).filter((event) => event.startsWith("simplify"))).toEqual([
    "simplify:simp_fail",
    "simplify:simp_pass",
  ]);
  expect(await bench.git("remote", "show", "holdfast/issue-1-bench:greeting.json")).toBe("{}");
  expect(JSON.parse((await bench.read(".tmp/impl-checkpoint.json")) ?? "{}")).toMatchObject({ version: 2 });
});

test("max reviews: after as many failures the run continues without another review", async () => {
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
