import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CONVENTIONAL, TEMPLATE, commitToBase } from "../bench/make-repository.ts";
import { inTurn, makeBench } from "./bench.ts";

test.concurrent("a loop for an issue ends in commits on its branch and a pull request that closes it", async () => {
  const files = { "readme.md": "hello\n", ".github/pull_request_template.md": TEMPLATE };
  await using bench = await makeBench({ answers: inTurn("41\n", "42\n"), issue: true, files });
  await commitToBase(bench.git, CONVENTIONAL);
  const outcome = await bench.work();
  expect(outcome).toMatchObject({ kind: "done", reason: expect.stringMatching(/Pull request #\d+ is open/) });
  expect(bench.run()).toBe("issue-1");
  const pull = await bench.forge?.findPullRequest("holdfast/issue-1");
  expect(pull).toMatchObject({ state: "open", title: "feat: add the answer" });
  expect(pull?.body).toMatch(
    /^## Summary\n\n- Iteration 1 failed[^]*\n\n## Tests\n\n- `grep -q 42 answer.txt` passes\n\n## Checklist\n\n- \[ \] I agree, [^]*\n\nCloses #1\n/,
  );
  expect(pull?.body).not.toMatch(/@everyone|closes #7|Describe it/);
  expect(await bench.git("remote", "show", "holdfast/issue-1:answer.txt")).toBe("42");
  expect((await bench.holdfast.status("issue-1")).pullRequest).toMatchObject({ number: pull?.number });
  expect(await bench.read(".tmp/ralph-prompt-1.md")).toContain("It is 42.");
  // The loop has an id of the form that other tools know.
  expect((await bench.state()).loopId).toMatch(/^ralph-issue-1-[0-9a-f]{8}$/);
});

test.concurrent("what the remote's hook refuses goes into the next prompt", async () => {
  await using bench = await makeBench({ answers: inTurn("42\n", "42, said politely\n"), issue: true });
  const hook = join(bench.root, "remote.git/hooks/pre-receive");
  await writeFile(
    hook,
    "#!/bin/sh\nread old new ref\ngit show $new:answer.txt | grep -q politely || { echo be polite >&2; exit 1; }\n",
  );
  await chmod(hook, 0o755);
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await bench.trail()).toContain("publish:push_refused");
  expect(await bench.read(".tmp/ralph-prompt-2.md")).toContain("be polite");
  expect((await bench.state()).refused).toEqual([]);
  // A history without a form gives a plain title.
  expect((await bench.forge?.findPullRequest("holdfast/issue-1"))?.title).toBe("Add the answer");
});

test.concurrent("a loop for a task starts from the current checkout, also with a remote", async () => {
  await using bench = await makeBench({ answers: inTurn("42\n"), issue: true });
  await bench.git("clone", "checkout", "-qb", "feature");
  await bench.git("clone", "commit", "-q", "--allow-empty", "-m", "not pushed");
  const work = { kind: "task", text: "Write the answer" } as const;
  const options = { task: work.text, until: "grep -q 42 answer.txt" };
  const agent = `scripted:${bench.root}/script.json`;
  const local = await bench.holdfast.work.plan({ workflow: "ralph", work, options, agent });
  expect(local.place?.base).toBeNull();
  const published = await bench.holdfast.work.plan({
    workflow: "ralph",
    work,
    agent,
    options: { ...options, pullRequest: true },
  });
  expect(published.place?.base).toMatchObject({ branch: "main" });
  const report = await bench.holdfast.work.start(local, {});
  expect(report.outcome).toMatchObject({ kind: "done" });
  expect(await bench.git("clone", "log", "-2", "--format=%s", `holdfast/${report.run}`)).toContain("not pushed");
});
