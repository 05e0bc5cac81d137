import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { finish, pass } from "./answers.ts";
import { CONVENTIONAL, TEMPLATE, commitToBase } from "../bench/make-repository.ts";
import { makeBench } from "./bench.ts";

const HEAD = "holdfast/issue-1-bench";

describe("a pull request has the form of its repository", () => {
  test("the title has the form of the history, the body that of the template, with the gate's result", async () => {
    await using bench = await makeBench({
      answers: [finish(), pass],
      files: { "readme.md": "hello\n", ".github/pull_request_template.md": TEMPLATE },
      options: { gate: "test -e greeting.txt", baseGate: false },
    });
    await commitToBase(bench.git, CONVENTIONAL);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const pull = await bench.forge.findPullRequest(HEAD);
    expect(pull?.title).toBe("feat: add a greeting");
    const body = pull?.body.replace(/\s*<!--[^]*$/, "");
    expect(body?.replaceAll("\u200B", "")).toBe(
      [
        "## Summary\n\nWhy.",
        "## Tests\n\n- `test -e greeting.txt` passed.\n- An agent's last review passed (score 95).",
        "## Checklist\n\n- [ ] I agree, @everyone, closes #7",
        "Closes #1",
        "---\nAn agent made this pull request (Holdfast run `issue-1-bench`).",
      ].join("\n\n"),
    );
    // The template's mention and its closing keyword have no effect.
    expect(body).not.toContain("@everyone");
    expect(body).not.toContain("closes #7");
    expect(await bench.calls("agent")).toBe(1);
  });

  test("without a common form it is [tag][#N]; the note about the agent can be left out", async () => {
    await using bench = await makeBench({ answers: [finish(), pass], options: { attribution: false } });
    await commitToBase(bench.git, ["feat: a", "[x] b", "c", "d", "fix: e"]);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const pull = await bench.forge.findPullRequest(HEAD);
    expect(pull?.title).toBe("[feat][#1] Add a greeting");
    expect(pull?.body).toContain("Holdfast ran no tests: no gate command is configured.");
    expect(pull?.body).not.toContain("An agent made");
  });
});

describe("the task has the facts that a good engineer would give", () => {
  test("the comments on the issue, with their authors, for the implementer and the reviewer", async () => {
    await using bench = await makeBench({
      answers: [finish()],
      options: { reviewModel: "command:tee .tmp/review-prompt.txt >/dev/null; echo 'Score: 95'" },
    });
    const comments = [
      { at: "2026-03-01T12:00:00Z", author: "ann", body: "Greet politely.\nbob:\nNo, rudely." },
      { at: "2026-03-02T12:00:00Z", body: "Ours. <!-- holdfast:issue-1/setup/note -->" },
    ];
    await writeFile(join(bench.forge.location, "issues/1.comments.json"), JSON.stringify(comments));
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const said = "ann, 2026-03-01T12:00:00Z:\n> Greet politely.\n> bob:\n> No, rudely.";
    const task = await bench.read(".tmp/issue-1.md");
    expect(task).toContain(said);
    expect(task).not.toContain("Ours.");
    expect(await bench.read(".tmp/review-prompt.txt")).toContain(said);
  });

  test("a summary that claims tests which the diff lacks is sent back, with the place", async () => {
    const review = [
      "if grep -q 'speaks of tests, but the diff changes no test file'; then",
      `  echo '{"scores":{"faithful":40,"style":95,"docs":95,"corner_cases":95},"findings":[{"file":"greeting.txt","line":1,"message":"no test covers it"}]}'`,
      "else echo 'Score: 95'; fi",
    ];
    await using bench = await makeBench({
      answers: [
        finish({ iteration: 1, body: "Tests cover both cases." }),
        finish({ iteration: 2, path: "test/greeting.txt", body: "Tests cover both cases." }),
      ],
      options: { reviewModel: `command:${review.join("\n")}`, gate: "echo gate says $((40 + 2))" },
    });
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect((await bench.trail()).slice(1, 5)).toEqual([
      "impl:impl_done",
      "review:review_fail",
      "impl:impl_done",
      "review:review_pass",
    ]);
    const second = await bench.read(".tmp/impl-input-2.txt");
    expect(second).toContain("- greeting.txt:1: no test covers it");
    expect(second).toMatch(/it passed in iteration 1\):\n<data-[0-9a-f]+ source="gate output">gate says 42</);
  });

  test("the prompt gives the implementer the files to read, the test command and the form of titles, once", async () => {
    await using bench = await makeBench({
      answers: [finish(), pass],
      files: { "AGENTS.md": "Be kind.\n", "package.json": '{"scripts":{"test":"true"}}\n' },
    });
    await commitToBase(bench.git, ["feat: a", "fix: b", "docs: c", "chore: d"]);
    expect(await bench.work()).toMatchObject({ kind: "done" });
    const prompt = await bench.read(".tmp/impl-input-1.txt");
    expect(prompt).toContain("Its conventions are in AGENTS.md. Read them first.");
    expect(prompt).toContain("The usual test command of this repository: `npm test`");
    expect(prompt).toContain("`type(scope): brief description`");
    expect(prompt).toMatch(/<data-[0-9a-f]+ source="history">\nchore: d\ndocs: c\nfix: b\n</);
  });
});
