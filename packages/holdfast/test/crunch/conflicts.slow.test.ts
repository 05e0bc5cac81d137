import { expect, test } from "vitest";
import { pendingMessages } from "@holdfast/workflows/crunch/message-log";
import { node, reply, settings, writes } from "./answers.ts";
import { type Answer, makeBench } from "./bench.ts";

const wants = (choice: string) => ({
  recommendations: [{ scope: "sign-in", choice, rationale: "Why.", confidence: 80 }],
});
const stands = (agent: string, rest: object): Answer => ({
  when: { role: `debate-${agent}` },
  reply: JSON.stringify({ rationale: "As before.", confidence: 80, relevance: 1, ...rest }),
});
const pair = [node("tokens", "security-analyst"), node("sessions", "dev-python")];
const opinions = [reply("tokens", wants("use tokens")), reply("sessions", wants("use sessions"))];

test("a critical veto ends a conflict at once", async () => {
  const veto = { severity: "CRITICAL", target: "use sessions", reason: "They can be stolen." };
  await using bench = await makeBench({
    answers: [
      ...opinions,
      stands("security-analyst", { choice: "use tokens", veto }),
      stands("dev-python", { choice: "use sessions" }),
    ],
    options: { ...settings({ enrich: pair }), target: "enrich" },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const { conflicts, messages } = await bench.state();
  expect(conflicts).toMatchObject([
    { topic: "sign-in", resolution: { how: "veto", choice: "use tokens", vetoApplied: true } },
  ]);
  expect(messages.records.filter(({ message }) => message.type === "VOTE")).toHaveLength(2);
  const triggers = (await bench.holdfast.store.listCheckpoints({ run: bench.run })).map(({ trigger }) => trigger);
  expect(triggers).toEqual(expect.arrayContaining(["conflict_start", "conflict_resolved", "batch_complete"]));
});

test("a high veto is escalated, and answered with approve", async () => {
  const veto = { severity: "HIGH", target: "use sessions", reason: "They can be stolen." };
  await using bench = await makeBench({
    answers: [
      ...opinions,
      stands("security-analyst", { choice: "use tokens", veto }),
      stands("dev-python", { choice: "use sessions" }),
    ],
    options: { ...settings({ enrich: pair }), target: "enrich" },
  });
  expect(await bench.work()).toMatchObject({
    kind: "waiting",
    for: "you",
    reason: expect.stringContaining("sign-in"),
  });
  const latest = (await bench.holdfast.store.latest(bench.run))?.sequence ?? 0;
  const { external } = await bench.holdfast.formats.encode({ run: bench.run, sequence: latest }, "crunch-yaml");
  const [open] = (await bench.state()).conflicts;
  expect(external.described?.members).toMatchObject({
    acp_state: { awaiting_response: [expect.stringMatching(/^MSG-/)], conflicts_in_progress: [open?.id] },
    recovery_info: {
      prerequisites_met: false,
      warnings: [`Conflict ${open?.id} is not resolved`, expect.stringMatching(/^Waiting for an answer: .*sign-in/)],
    },
  });
  await bench.answer("use sessions");
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const { conflicts, messages } = await bench.state();
  expect(conflicts).toMatchObject([
    { escalation: { reason: "high_veto" }, resolution: { how: "person", choice: "use sessions", userOverride: true } },
  ]);
  const asked = messages.records.find(({ message }) => message.type === "ESCALATE");
  expect(asked?.status.kind).toBe("answered");
});

test("two agents that change the same lines: the second resolves it, in the order of the definition", async () => {
  const graph = [
    node("one", "dev-python", { edits: true }),
    node("two", "dev-go", { edits: true }),
    node("three", "techwriter", { edits: true }),
  ];
  await using bench = await makeBench({
    answers: [
      writes("one", "shared.txt", "by one\n", { delayMs: 300 }),
      writes("two", "shared.txt", "by two\n"),
      writes("three", "other.txt", "by three\n"),
      writes("fix-two", "shared.txt", "by one and two\n"),
    ],
    options: { ...settings({ implementing: graph }), target: "implementing" },
    issue: { labels: ["state:ready"] },
  });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await bench.read("shared.txt")).toBe("by one and two\n");
  expect(await bench.read("other.txt")).toBe("by three\n");
  expect((await bench.state()).conflicts).toMatchObject([
    { participants: ["dev-go"], resolution: { how: "agreement" } },
  ]);
});

test("a handover becomes a node; broadcasts and questions to the user are delivered", async () => {
  const graph = [
    node("one", "system-architect"),
    node("two", "qa-engineer", { after: ["one"] }),
    node("three", "reviewer", { after: ["two"] }),
  ];
  await using bench = await makeBench({
    answers: [
      reply("three"),
      reply("one", {
        status: "PARTIAL",
        handoff: { to: "dev-python", reason: "It is Python." },
        broadcasts: [
          { event: "CHECKPOINT", message: "before the rest" },
          { event: "CONTEXT_UPDATE", message: "The door is blue." },
        ],
        findings: [{ severity: "HIGH", title: "No lock", location: "door.py:3", recommendation: "Add one." }],
      }),
      reply("one-1-handoff"),
      reply("two", { escalate: { reason: "Which colour?", options: ["red", "blue"] } }),
    ],
    options: { ...settings({ enrich: graph }), target: "enrich" },
  });
  expect(await bench.work()).toMatchObject({
    kind: "waiting",
    for: "you",
    reason: expect.stringContaining("Which colour?"),
  });
  const asked = (await bench.state()).messages.records.filter(({ status }) => status.kind === "awaiting");
  expect(asked).toMatchObject([{ message: { type: "ESCALATE" } }]);
  await bench.answer("blue");
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const { outputs, messages } = await bench.state();
  expect(outputs.map((output) => `${output.node} ${output.agent}`).toSorted()).toEqual([
    "one system-architect",
    "one-1-handoff dev-python",
    "three reviewer",
    "two qa-engineer",
  ]);
  expect(pendingMessages(messages)).toEqual([]);
  const promptOf = (id: string): string =>
    messages.records.flatMap(({ message: { type, payload } }) =>
      type === "REQUEST" && payload.node === id ? [payload.prompt] : [],
    )[0] ?? "";
  for (const id of ["two", "three"]) {
    expect(promptOf(id)).toContain("- The door is blue.");
    expect(promptOf(id)).toContain("- HIGH No lock (door.py:3), found by system-architect: Add one.");
  }
  expect(promptOf("three")).toMatch(
    /source="agents">qa-engineer \(two\) asks: Which colour\?<\/data-[0-9a-f]+>\n {2}Answer: blue/,
  );
  expect(promptOf("one-1-handoff") + promptOf("two")).not.toContain("Answer:");
  expect(messages.records.map(({ message }) => message.type)).toEqual(
    expect.arrayContaining(["HANDOFF", "BROADCAST", "ESCALATE"]),
  );
  const names = (await bench.holdfast.store.listCheckpoints({ run: bench.run })).map(({ name }) => name);
  expect(names).toContain("system-architect: before the rest");
});

test.each(["SUCCESS", "FAILED"])("an abort ends the phase, also of an agent that reports %s", async (status) => {
  const graph = [node("one", "system-architect"), node("two", "qa-engineer", { after: ["one"] })];
  await using bench = await makeBench({
    answers: [reply("one", { status, broadcasts: [{ event: "ABORT", message: "This is another project." }] })],
    options: { ...settings({ enrich: graph }), target: "enrich" },
  });
  expect(await bench.work()).toMatchObject({
    kind: "failed",
    reason: expect.stringContaining("This is another project."),
  });
});

test("a change that is not made again is not lost silently: the user leaves it out, or stops", async () => {
  const graph = [node("one", "dev-python", { edits: true }), node("two", "dev-go", { edits: true })];
  await using bench = await makeBench({
    answers: [writes("one", "shared.txt", "by one\n"), writes("two", "shared.txt", "by two\n"), reply("fix-two")],
    options: { ...settings({ implementing: graph }), target: "implementing" },
    issue: { labels: ["state:ready"] },
  });
  expect(await bench.work()).toMatchObject({ kind: "waiting", reason: expect.stringContaining("shared.txt") });
  expect(await bench.read("shared.txt")).toBe("by one\n");
  await bench.answer("stop");
  expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringContaining("Stopped by the user") });
  const { messages } = await bench.state();
  expect(messages.records.filter(({ status }) => status.kind === "awaiting")).toEqual([]);
});
