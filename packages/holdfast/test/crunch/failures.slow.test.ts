import { expect, test } from "vitest";
import { PASS, node, reply, settings, writes } from "./answers.ts";
import { makeBench } from "./bench.ts";

test("a check that fails sends the work back with its output, as often as the limit allows", async () => {
  const failing = reply("check", { status: "FAILED", summary: "It prints no greeting." }, { when: { iteration: 1 } });
  const fixed = writes("build", "greeting.txt", "hello all\n", { when: { iteration: 2 } });
  await using bench = await makeBench({
    answers: [failing, fixed, ...PASS],
    options: { ...settings(), target: "e2e", gate: "test -e greeting.txt" },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await bench.trail()).toEqual([
    "enrich:enriched",
    "ready:accepted",
    "implementing:implemented",
    "e2e:e2e_fail",
    "implementing:implemented",
    "e2e:at_target",
  ]);
  expect(await bench.read("greeting.txt")).toBe("hello all\n");
  const { position } = await bench.planes();
  expect(position.attempts).toMatchObject({ implementing: 2, e2e: 2, "e2e-failures": 1 });
  const requests = (await bench.state()).messages.records.flatMap(({ message }) =>
    message.type === "REQUEST" && message.payload.node === "build" ? [message.payload.prompt] : [],
  );
  expect(requests[0]).not.toContain("It prints no greeting.");
  expect(requests[1]).toContain("It prints no greeting.");
});

test("the gate command runs first, and a limit ends work that does not converge", async () => {
  await using bench = await makeBench({
    answers: PASS,
    options: { ...settings(), gate: "echo it is wrong; exit 3", limits: { e2eFailures: 0 } },
  });
  expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringContaining("exit 3") });
  expect(await bench.labels()).toEqual(["state:e2e"]);
  expect((await bench.state()).outputs.map((output) => output.node)).toEqual(["spec", "build"]);
});

test("a critical node that fails aborts the rest and asks the user; after a retry the run continues", async () => {
  const graph = [
    node("spec", "system-architect", { priority: "critical" }),
    node("plan", "qa-engineer", { after: ["spec"] }),
  ];
  const failing = reply("spec", { status: "FAILED", summary: "I cannot." }, { when: { attempt: 1 } });
  await using bench = await makeBench({
    answers: [failing, reply("spec"), reply("plan")],
    options: { ...settings({ enrich: graph }), target: "enrich" },
  });
  expect(await bench.work()).toMatchObject({
    kind: "waiting",
    for: "you",
    reason: expect.stringContaining("I cannot."),
  });
  expect((await bench.planes()).position.graph?.states["plan"]).toMatchObject({ status: "skipped" });
  await bench.answer("again");
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.state()).outputs.map((output) => output.node)).toEqual(["spec", "plan"]);
});

test("stopped by the user, it has failed with that reason; the next run of the issue has it", async () => {
  const failing = reply("spec", { status: "FAILED", summary: "I cannot." });
  await using bench = await makeBench({ answers: [failing], options: { ...settings(), target: "enrich" } });
  expect(await bench.work()).toMatchObject({ kind: "waiting" });
  await bench.answer("stop");
  expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringContaining("Stopped by the user") });
  expect((await bench.state()).team?.complexity).toMatchObject({ score: 0, factors: { priorFailures: false } });
  // The next run counts the earlier failure as complexity.
  const { team } = await bench.second(1);
  expect(team?.complexity).toMatchObject({ score: 2, factors: { priorFailures: true } });
  expect(team?.members.map(({ agent }) => agent)).toContain("orchestrator");
});

test("continued without the failed node, it reports that", async () => {
  const failing = reply("spec", { status: "FAILED", summary: "I cannot." });
  await using bench = await makeBench({ answers: [failing], options: { ...settings(), target: "enrich" } });
  expect(await bench.work()).toMatchObject({ kind: "waiting" });
  await bench.answer("continue");
  expect(await bench.work()).toMatchObject({
    kind: "done",
    reason: expect.stringContaining("spec failed (I cannot.)"),
  });
});

test("files of e2e are committed separately, and not with the next phase", async () => {
  const check = node("check", "qa-engineer", { edits: true });
  await using bench = await makeBench({
    answers: [writes("check", "e2e.txt", "tested\n"), ...PASS],
    options: { ...settings({ e2e: [check] }), target: "e2e" },
    issue: { labels: ["state:ready"] },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await bench.git("worktree", "log", "-2", "--format=%s")).toBe(
    "Issue #1, e2e: Add a greeting\nIssue #1, implementing: Add a greeting",
  );
  expect(await bench.git("worktree", "status", "--porcelain")).toBe("");
});

test.each([
  ["implementing, where no later node changes files", [node("document", "techwriter")], "implementing"],
  ["docs, where a node could change files until then", undefined, "docs"],
])("a run in which no agent changed a file ends with %s", async (_name, docs, last) => {
  await using bench = await makeBench({
    answers: ["build", "check", "document"].map((role) => reply(role)),
    options: { ...settings(docs === undefined ? {} : { docs }) },
    issue: { labels: ["state:ready"] },
  });
  expect(await bench.work()).toMatchObject({
    kind: "failed",
    reason: expect.stringMatching(new RegExp(`none will in the phases after ${last}: there is nothing to open a pull`)),
  });
  expect((await bench.trail()).at(-1)).toBe(`${last}:fatal`);
  expect(await bench.labels()).toEqual([`state:${last}`]);
});

test("a run with a target before the pull request may change nothing", async () => {
  await using bench = await makeBench({
    answers: [reply("build")],
    options: { ...settings({ docs: [] }), target: "implementing" },
    issue: { labels: ["state:ready"] },
  });
  expect(await bench.work()).toMatchObject({ kind: "done", reason: expect.stringContaining("without any change") });
});
