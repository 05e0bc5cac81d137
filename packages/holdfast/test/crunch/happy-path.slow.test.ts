import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PASS, settings } from "./answers.ts";
import { CONVENTIONAL, TEMPLATE, commitToBase } from "../bench/make-repository.ts";
import { makeBench } from "./bench.ts";

test("an issue goes through every phase to a pull request, with one state label at a time, and its record replays", async () => {
  await using bench = await makeBench({
    answers: PASS,
    options: settings(),
    issue: { labels: ["type:bug", "urgent"] },
    mode: "logged",
    files: { "readme.md": "hello\n", ".github/pull_request_template.md": TEMPLATE },
  });
  await commitToBase(bench.git, CONVENTIONAL);
  const outcome = await bench.work();
  expect(outcome).toMatchObject({ kind: "done" });
  expect(await bench.trail()).toEqual([
    "enrich:enriched",
    "ready:accepted",
    "implementing:implemented",
    "e2e:e2e_pass",
    "docs:documented",
    "ready-to-merge:at_target",
  ]);
  expect(await bench.labels()).toEqual(["type:bug", "urgent", "state:ready-to-merge"]);
  const branch = "fix/issue-1-add-a-greeting";
  expect(await bench.git("remote", "ls-tree", "-r", "--name-only", branch)).toBe(
    ".github/pull_request_template.md\ndocs.md\ngreeting.txt\nreadme.md",
  );
  const pull = await bench.forge.findPullRequest(branch);
  expect(pull).toMatchObject({ state: "open", title: "fix: add a greeting" });
  expect(pull?.body).toMatch(
    /^## Summary\n\n## What the team did\n\n- enrich, [^]*\n\n## Tests\n\n- Holdfast ran no tests: [^\n]*\n\n## Checklist\n\n- \[ \] I agree, [^]*\n\nCloses #1\n/,
  );
  expect(pull?.body).not.toMatch(/@everyone|closes #7|Describe it/);
  const state = await bench.state();
  expect(state.outputs.map(({ phase, node }) => `${phase}/${node}`)).toEqual([
    "enrich/spec",
    "implementing/build",
    "e2e/check",
    "docs/document",
  ]);
  expect(state.messages.records.map(({ status }) => status.kind)).toEqual(
    state.messages.records.map(({ message }) => (message.type === "REQUEST" ? "answered" : "delivered")),
  );
  expect([...state.refused, ...state.messages.refused]).toEqual([]);
  const outside = async () => [await bench.git("remote", "for-each-ref"), await bench.labels()];
  const before = await outside();
  const report = await bench.holdfast.work.replay({ run: bench.run });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done" });
  expect(report.agents).toBeGreaterThan(0);
  expect(await outside()).toEqual(before);
  // The files for other tools are beside the store: the repository had none of crunch.
  expect(await bench.git("clone", "status", "--porcelain", "--ignored")).toBe("");
  const { root } = await bench.holdfast.formats.mirror({ run: bench.run, to: "crunch-yaml" });
  expect(root).toBe(join(bench.root, "clone/.git/holdfast/layouts"));
  expect(readdirSync(join(root, ".claude/crunch/1"))).toEqual(["checkpoints", "outputs"]);
  const removal = await bench.holdfast.planRemoval(bench.run);
  expect(removal.reasons).toEqual([expect.stringMatching(/^its branch has \d unmerged commits$/)]);
  await bench.holdfast.removeRun(removal, { by: "tester", force: true });
  expect(readdirSync(join(root, ".claude"))).toEqual([]);
  expect(await bench.git("clone", "for-each-ref", "--format=%(refname)", "refs/heads")).toBe("refs/heads/main");
});
