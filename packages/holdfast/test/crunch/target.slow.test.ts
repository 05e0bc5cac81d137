import { expect, test } from "vitest";
import type { ProgressEvent } from "@holdfast/core/progress";
import { PASS, reply, settings } from "./answers.ts";
import { makeBench } from "./bench.ts";

test("stops at its target with the issue's label there, and continues when the target is raised", async () => {
  await using bench = await makeBench({ answers: PASS, options: { ...settings(), target: "ready" } });
  expect(await bench.work()).toMatchObject({ kind: "done", reason: expect.stringContaining("Stopped at ready") });
  expect(await bench.labels()).toEqual(["state:ready"]);
  // A stopped run stays stopped until the user raises its target.
  expect(await bench.work()).toMatchObject({ kind: "done" });
  await expect(bench.holdfast.work.changeLimits({ run: bench.run, limits: { target: "enrich" } })).rejects.toThrow(
    /past enrich/,
  );
  // A question comes first: until it is answered, the run keeps its target and its end.
  const before = [await bench.planes(), (await bench.holdfast.store.getRun(bench.run))?.state];
  await bench.forge.setLabels(1, ["state:backlog"]);
  const limits = { target: "validation" };
  expect(await bench.work({ limits })).toMatchObject({ kind: "ask", findings: [{ kind: "issue_labels_changed" }] });
  expect([await bench.planes(), (await bench.holdfast.store.getRun(bench.run))?.state]).toEqual(before);
  expect(await bench.work({ limits, answers: { issue_labels_changed: "accept" } })).toMatchObject({
    kind: "done",
    reason: expect.stringContaining("Stopped at e2e"),
  });
  expect(await bench.trail()).toEqual([
    "enrich:enriched",
    "ready:at_target",
    "implementing:implemented",
    "e2e:at_target",
  ]);
  expect(await bench.labels()).toEqual(["state:e2e"]);
  expect(await bench.read("greeting.txt")).toBe("hello\n");
});

test("an issue that is labelled ready is not enriched again; one that is closed is not begun", async () => {
  await using bench = await makeBench({
    answers: [],
    options: { ...settings(), target: "ready" },
    issue: { labels: ["state:ready", "state:blocked"] },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await bench.trail()).toEqual(["enrich:enriched", "ready:at_target"]);
  expect(await bench.labels()).toEqual(["state:ready", "state:blocked"]);
});

test("labels of two phases are decided by the user", async () => {
  await using bench = await makeBench({
    answers: [reply("spec")],
    options: { ...settings(), target: "ready" },
    issue: { labels: ["state:ready", "state:enrich"] },
  });
  expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you" });
  await bench.answer("enrich");
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.state()).outputs.map(({ node }) => node)).toEqual(["spec"]);
  expect(await bench.labels()).toEqual(["state:ready"]);
});

/** In the middle of e2e, as a user would do it at the forge. */
const relabel = (to: string): string =>
  `sed -i 's/state:e2e/${to}/' "$(git remote get-url origin)/holdfast-forge/issues/1.md"`;

test("a state label that a user moves during a phase is not replaced: the run waits, and follows it when resumed", async () => {
  await using bench = await makeBench({
    answers: PASS,
    options: { ...settings(), gate: relabel("state:ready-to-merge") },
    issue: { labels: ["type:feature", "state:ready"] },
  });
  expect(await bench.work()).toMatchObject({
    kind: "waiting",
    for: "you",
    reason: expect.stringMatching(/^Issue #1 has state:ready-to-merge, which was set while the run was at e2e\./),
  });
  expect(await bench.labels()).toEqual(["type:feature", "state:ready-to-merge"]);
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const { phases } = await bench.state();
  expect(phases.map(({ phase }) => phase)).toEqual(["ready", "implementing", "e2e", "ready-to-merge"]);
});

test("labels of two phases during a phase: the run waits, and resumes where it was when they are fixed", async () => {
  await using bench = await makeBench({
    answers: PASS,
    options: { ...settings(), gate: relabel("state:e2e, state:backlog"), target: "docs" },
    issue: { labels: ["state:ready"] },
  });
  expect(await bench.work()).toMatchObject({
    kind: "waiting",
    reason: expect.stringContaining("has state:e2e and state:backlog"),
  });
  await bench.forge.setLabels(1, ["state:e2e"]);
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await bench.labels()).toEqual(["state:docs"]);
});

test("a change that the user accepted on resume is not asked again at the next phase", async () => {
  await using bench = await makeBench({
    answers: PASS,
    options: { ...settings(), gate: "true", target: "docs" },
    issue: { labels: ["state:ready"] },
  });
  const stop = new AbortController();
  const listen = (event: ProgressEvent): void => {
    if (event.kind === "agent" && event.step.includes("build")) stop.abort();
  };
  expect(await bench.work({ signal: stop.signal, listen })).toMatchObject({ kind: "interrupted" });
  await bench.forge.setLabels(1, ["state:backlog"]);
  expect(await bench.work()).toMatchObject({ kind: "ask", findings: [{ kind: "issue_labels_changed" }] });
  expect(await bench.work({ answers: { issue_labels_changed: "accept" } })).toMatchObject({ kind: "done" });
});

test("with the target done it waits for the merge; then the issue is done, and the next run gets its knowledge", async () => {
  const learns = reply("spec", { knowledge: [{ type: "pattern", content: "Greetings are short.", tags: ["api"] }] });
  await using bench = await makeBench({
    answers: [learns, ...PASS],
    options: { ...settings(), target: "done" },
    issue: { labels: ["domain:api"] },
  });
  expect(await bench.work()).toMatchObject({
    kind: "waiting",
    for: "you",
    reason: expect.stringContaining("Merge it"),
  });
  expect(await bench.work()).toMatchObject({ kind: "waiting" });
  const pull = await bench.forge.findPullRequest("feature/issue-1-add-a-greeting");
  // A history without a form gives a plain title.
  expect(pull?.title).toBe("Add a greeting");
  await bench.forge.mergePullRequest(pull?.number ?? 0, { head: pull?.headCommit ?? "" });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await bench.labels()).toEqual(["domain:api", "state:done"]);
  const { knowledge } = await bench.state();
  expect(knowledge.entries.map(({ type }) => type)).toEqual(["pattern", "resolution"]);

  await bench.forge.createIssue({ title: "Greet twice", body: "Again.", labels: ["domain:api"], key: "second" });
  const second = await bench.second(3);
  expect(second.knowledge.injected[0]?.entries.toSorted()).toEqual(knowledge.entries.map(({ id }) => id).toSorted());
});

test("resumed from a chosen checkpoint, it executes the later steps again", async () => {
  await using bench = await makeBench({
    answers: PASS,
    options: { ...settings(), target: "implementing" },
    issue: { labels: ["state:ready"] },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const { holdfast, run } = bench;
  const entered = (await (await holdfast.run(run)).list({ trigger: "iteration" })).find(
    ({ stage }) => stage === "implementing",
  );
  await bench.forge.setLabels(1, ["state:implementing"]);
  expect(await bench.work({ from: entered?.sequence ?? 0, force: true })).toMatchObject({ kind: "done" });
  expect(await bench.trail()).toEqual([
    "enrich:enriched",
    "ready:accepted",
    "implementing:at_target",
    "implementing:at_target",
  ]);
  expect((await holdfast.logs.list(run)).filter(({ step }) => step.includes("build"))).toHaveLength(2);
  expect(await bench.read("greeting.txt")).toBe("hello\n");
});

test("stopped at its pull request and given the target done, it is done only after the merge", async () => {
  await using bench = await makeBench({ answers: PASS, options: settings(), issue: { labels: ["state:ready"] } });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const toDone = { limits: { target: "done" } } as const;
  expect(await bench.work(toDone)).toMatchObject({ kind: "waiting", reason: expect.stringContaining("Merge it") });
  expect(await bench.labels()).toEqual(["state:ready-to-merge"]);
  expect((await bench.state()).knowledge.entries).toEqual([]);
  const pull = await bench.forge.findPullRequest("feature/issue-1-add-a-greeting");
  await bench.forge.mergePullRequest(pull?.number ?? 0, { head: pull?.headCommit ?? "" });
  expect(await bench.work(toDone)).toMatchObject({ kind: "done", reason: expect.stringContaining("is merged") });
  expect(await bench.labels()).toEqual(["state:done"]);
  expect((await bench.state()).knowledge.entries.map(({ type }) => type)).toEqual(["resolution"]);
});
