import { expect, test } from "vitest";
import { startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, type State, TOY_CONFIG, TOY_INPUTS, begin, define } from "@holdfast/test-support/core/work-bench";
import { beginRun } from "./control-run.ts";
import type { ProgressEvent } from "./progress.ts";
import type { AgentReport, StageFunction } from "./workflow.ts";

const reports: AgentReport[] = [];
const work: StageFunction<State> = async ({ agent }) => {
  for (const name of ["one", "two"])
    reports.push(await agent({ name, role: "impl", prompt: "do it", model: "toy:big", yolo: false }));
  return { event: "worked", reason: "did it" };
};
const workflow = define({ work });
const usage = { inputTokens: 1000, outputTokens: 100, cachedTokens: 400, microUsd: null };

test("tokens without a price of the agent have the price of the table", async () => {
  const { adapters, store, go, workspace } = await startTestRunInWorktree(() => ({ usage }));
  await begin(adapters, workflow, workspace);
  reports.length = 0;
  const prices = { "toy:big": { input: 2, cached: 1, output: 10 } };
  await go(workflow, { adapters: { ...adapters, prices } });
  const each = 600 * 2 + 400 + 1000;
  expect(reports.map((report) => report.usage.microUsd)).toEqual([each, each]);
  const spent = (await store.latest(ID))?.planes.position.budget.spent;
  expect(spent).toEqual({ tokens: 2200, microUsd: 2 * each, milliseconds: expect.any(Number) });
});

test("a limit on money without a price is reported as not enforced, once, and the others are enforced", async () => {
  const { adapters, store, go, workspace } = await startTestRunInWorktree(() => ({ usage }));
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({ adapters, workflow, ...given, workspace, limit: { microUsd: 1_000_000, tokens: 1_100 } });
  const heard: ProgressEvent[] = [];
  const outcome = await go(workflow, { listen: (event) => void heard.push(event) });
  expect(outcome).toMatchObject({
    kind: "waiting",
    for: "budget",
    reason: "The budget is used up: 1100 of 1100 tokens",
  });
  const text = /^The limit on money cannot be kept: what toy:big costs is not known .* the limit on tokens holds$/;
  const notices = heard.filter((event) => event.kind === "budget" && text.test(event.text));
  expect(notices).toHaveLength(1);
  const journal = await Array.fromAsync(store.readJournal({ run: ID }));
  expect(journal.filter(({ kind, body }) => kind === "note" && text.test(String(body["text"])))).toHaveLength(1);
  expect((await store.latest(ID))?.planes.position.budget.spent).toMatchObject({ microUsd: 0, unpriced: 1 });
});

test("it is reported once per run, also after a kill; without another limit that is reported too", async () => {
  const { adapters, store, go, crash, workspace } = await startTestRunInWorktree(() => ({ usage }));
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({ adapters, workflow, ...given, workspace, limit: { microUsd: 1_000_000 } });
  // step.started, the notice and the answer; then step.started of the second call.
  expect(await crash(workflow, 4, "after")).toBe("died");
  await go(workflow);
  const journal = await Array.fromAsync(store.readJournal({ run: ID }));
  const notices = journal.flatMap(({ kind, body }) => (kind === "note" ? [String(body["text"])] : []));
  expect(notices.filter((notice) => notice.includes("The limit on money"))).toEqual([
    expect.stringContaining("nothing else limits this run"),
  ]);
  // Two calls, and the one that was cut off, whose usage is unknown.
  const { spent } = (await store.latest(ID))?.planes.position.budget ?? expect.fail();
  expect(spent).toMatchObject({ unpriced: 3, uncounted: 1 });
});

test("a call that died with its process is counted from the agent's record, once", async () => {
  const record = { text: "" };
  const toy = await startTestRunInWorktree(
    (task) => {
      task.onEvent({ kind: "session", id: "s" });
      record.text += "x".repeat(30);
      return { session: "s", usage: { inputTokens: 30, outputTokens: 0, microUsd: null } };
    },
    { resume: true },
    {
      read: async () => ({ text: record.text, lastMessage: null }),
      write: async () => undefined,
      tokensIn: (text) => ({ input: text.length, output: 0 }),
    },
  );
  await begin(toy.adapters, workflow, toy.workspace);
  const spent = async () => (await toy.store.latest(ID))?.planes.position.budget.spent.tokens;
  expect(await toy.crash(workflow, 3, "before")).toBe("died");
  // Killed again when the run was resumed, and right after the call was counted: it is not counted twice.
  expect(await toy.crash(workflow, 1, "after")).toBe("died");
  expect(await toy.crash(workflow, 1, "after")).toBe("died");
  expect((await toy.kinds()).filter((kind) => kind === "step.lost")).toHaveLength(1);
  await toy.go(workflow);
  expect(record.text.length).toBe(90);
  expect(await spent()).toBe(90);
});
