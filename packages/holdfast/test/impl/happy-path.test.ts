import { describe, expect, test } from "vitest";
import { finish, pass, score, title } from "./answers.ts";
import { makeBench } from "./bench.ts";

describe("an issue becomes a pull request", () => {
  test("in one iteration, with every expected file and none of them committed", async () => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toEqual([
      "setup:setup_done",
      "impl:impl_done",
      "review:review_pass",
      "pr:pr_pass",
      "done:done",
    ]);
    const pull = await bench.forge.findPullRequest("holdfast/issue-1-bench");
    expect(pull).toMatchObject({ state: "open", title, base: "main" });
    expect(pull?.body).toMatch(/^Why\.\n\n## Tested\n\n[^]*\n\nCloses #1/);
    expect(await bench.git("remote", "ls-tree", "-r", "--name-only", "holdfast/issue-1-bench")).toBe(
      "greeting.txt\nreadme.md",
    );

    expect(await bench.read(".tmp/issue-1.md")).toContain("Say hello.");
    expect(await bench.read(".tmp/impl-input-base.txt")).toContain("issue #1");
    expect(await bench.read(".tmp/impl-input-1.txt")).toContain("Issue 1 resolved (iteration 1, issue-1-bench.2)");
    expect(await bench.read(".tmp/impl-output.txt")).toBe("I wrote greeting.txt.");
    expect(await bench.read(".tmp/finalize.txt")).toContain(title);
    for (const report of ["parse", "review", "pr"])
      expect(JSON.parse((await bench.read(`.tmp/${report}-iter-1.json`)) ?? "{}")).toMatchObject({ pass: true });
    expect(JSON.parse((await bench.read(".tmp/impl-checkpoint.json")) ?? "{}")).toMatchObject({
      version: 1,
      state: { issue_no: 1, current_stage: "done", iteration: 1, last_score: 95, pr_url: pull?.url },
    });
    const { inputs } = await bench.planes();
    expect(inputs).toMatchObject({
      issue: { number: 1, body: expect.stringContaining("Say hello.") },
      base: await bench.git("clone", "rev-parse", "main"),
    });
  });

  test("a script of a few lines can be the agent: what it needs is in its environment", async () => {
    const lines = [
      'test "$HOLDFAST_YOLO" = 1',
      'echo hello > "greeting-$HOLDFAST_ISSUE.txt"',
      'echo "Say hello" > "$HOLDFAST_COMMIT_REPORT"',
      `printf '%s\\n\\nWhy.\\n%s\\n' '${title}' "$HOLDFAST_COMPLETION" > "$HOLDFAST_FINALIZE_FILE"`,
    ];
    await using bench = await makeBench({
      answers: [pass],
      options: { implModel: `command:${lines.join(" && ")}`, reviewModel: "scripted:script.yaml", yolo: true },
    });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.git("remote", "show", "holdfast/issue-1-bench:greeting-1.txt")).toBe("hello");
    expect(await bench.git("remote", "log", "-1", "--format=%s", "holdfast/issue-1-bench")).toBe("Say hello");
  });

  test("a plain command is done when it exits with 0: the gate sends it back with its output, and no round is spent on a marker", async () => {
    const work =
      "cat > ../prompt; if grep -q 'not yet good' ../prompt; then echo good; else echo bad; fi > greeting.txt";
    await using bench = await makeBench({
      answers: [pass],
      options: {
        implModel: `command:${work}`,
        reviewModel: "scripted:script.yaml",
        // Its output is not in its text, which the first prompt has.
        baseGate: false,
        gate: "grep -q good greeting.txt || { printf 'not yet %s\\n' good; exit 1; }",
      },
    });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.calls("agent")).toBe(2);
    expect(await bench.git("remote", "show", "holdfast/issue-1-bench:greeting.txt")).toBe("good");
  });

  test("findings of a review are in the next prompt", async () => {
    const poor = { ...score(50, 1), reply: "Bad.", scores: { faithful: 40, style: 90, docs: 90, corner_cases: 90 } };
    await using bench = await makeBench({ answers: [finish(), poor, pass] });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.trail()).toContain("review:review_fail");
    expect(await bench.read(".tmp/impl-input-2.txt")).toContain("faithful=40<90");
    expect((await bench.state()).reviews.map((review) => review.pass)).toEqual([false, true]);
  });

  test("chat output reviewed instead of the diff: the reviewer sees the change", async () => {
    await using bench = await makeBench({
      answers: [finish({ text: "the change itself\n" })],
      options: { reviewModel: "command:tee .tmp/review-prompt.txt >/dev/null; echo nothing" },
    });
    await bench.work();
    const prompt = await bench.read(".tmp/review-prompt.txt");
    expect(prompt).toContain("+the change itself");
    expect(prompt).toContain("Say hello.");
    expect(prompt).not.toContain("I wrote greeting.txt");
  });

  test("score misread: a reply that cannot be read is asked for once more, then the user decides", async () => {
    const mumble = { when: { role: "review" }, reply: "85/100, fine" };
    await using bench = await makeBench({ answers: [finish(), mumble], options: { maxIterations: 1 } });
    const reason = expect.stringContaining("could not be read");
    expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you", reason });
    await bench.answer("rework");
    expect(await bench.work()).toMatchObject({ kind: "failed", reason });
    const entries = await Array.fromAsync(bench.store.readJournal({ run: "issue-1-bench" }));
    const calls = entries.filter(
      ({ kind, body }) => kind === "step.finished" && String(body["step"]).startsWith("reviewer"),
    );
    expect(calls).toHaveLength(2);
    expect((await bench.planes()).position.score).toBeNull();
  });

  test("a run continues without the review that cannot be read, if the user decides so", async () => {
    await using bench = await makeBench({ answers: [finish(), { when: { role: "review" }, reply: "Fine." }] });
    expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you" });
    await bench.answer("skip");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect((await bench.state()).reviews).toMatchObject([{ pass: false, score: null }]);
  });

  test("a review in prose is read once, and its text is in the next prompt", async () => {
    const prose = { when: { role: "review", iteration: 1 }, reply: "The greeting lacks a name.\n\nScore: 69/100" };
    await using bench = await makeBench({ answers: [finish(), prose, pass] });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect((await bench.state()).reviews.map(({ score }) => score)).toEqual([69, 95]);
    expect(await bench.read(".tmp/impl-input-2.txt")).toContain("The greeting lacks a name.");
    const entries = await Array.fromAsync(bench.store.readJournal({ run: "issue-1-bench" }));
    expect(entries.filter(({ body }) => body["step"] === "reviewer-again")).toEqual([]);
  });

  test("stale completion marker: a leftover marker in the file does not finish the next iteration", async () => {
    const stale = {
      when: { role: "impl", iteration: 2 },
      edits: [{ do: "append", path: "greeting.txt", text: "more\n" }],
    };
    await using bench = await makeBench({
      answers: [stale, finish(), score(50, 1), pass],
      options: { maxIterations: 3 },
    });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect((await bench.trail()).slice(1, 4)).toEqual(["impl:impl_done", "review:review_fail", "impl:impl_not_done"]);
  });
});
