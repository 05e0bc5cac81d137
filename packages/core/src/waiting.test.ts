import { expect, test } from "vitest";
import { startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, type State, TOY_CONFIG, TOY_INPUTS, begin, define } from "@holdfast/test-support/core/work-bench";
import { answerDecision, beginRun, raiseLimits } from "./control-run.ts";
import type { Budget } from "./position.ts";
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

/** A run with these limits, whose agent has made its first call. */
async function afterFirstCall(limit: Partial<Budget["limit"]>, of: typeof usage | typeof NEGATIVE) {
  let calls = 0;
  const toy = await startTestRunInWorktree(() => {
    calls += 1;
    return { usage: of };
  });
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({ adapters: toy.adapters, workflow, ...given, workspace: toy.workspace, limit });
  const outcome = await toy.go(workflow);
  expect(calls).toBe(1);
  return { ...toy, outcome, calls: () => calls };
}

const NEGATIVE = { inputTokens: -1000, outputTokens: -100, microUsd: -1 };

test.each<[string, Partial<Budget["limit"]>, typeof usage | typeof NEGATIVE, string]>([
  ["money, of a call without a price", { microUsd: 1_000_000 }, usage, "--max-cost none --max-tokens N"],
  ["money, of a call with a negative price", { microUsd: 1_000_000 }, NEGATIVE, "--max-cost none --max-tokens N"],
  ["tokens, of a call with negative ones", { tokens: 1_000_000 }, NEGATIVE, "--max-tokens none --max-total-time 1h"],
])("a limit on %s, makes the run wait for the user after the first call", async (_, limit, of, instead) => {
  const { adapters, store, go, outcome, calls } = await afterFirstCall(limit, of);
  const what = limit.microUsd === undefined ? "tokens" : "money";
  const reason = expect.stringMatching(
    `^The limit on ${what} cannot be kept: what toy:big used for one is not known\\..*\`holdfast resume ${ID} ${instead}\``,
  ) as string;
  expect(outcome).toMatchObject({ kind: "waiting", for: "you", reason });
  expect((await store.latest(ID))?.planes.position.budget.spent).toMatchObject({ unpriced: 1 });
  // A plain resume, also with a higher limit, asks again and calls no agent.
  await raiseLimits({ adapters, run: ID, limit: { [what === "money" ? "microUsd" : "tokens"]: 2_000_000 } });
  // As in a replay, where no agent may be opened.
  const agent = (): never => expect.fail("an agent was opened");
  expect(await go(workflow, { adapters: { ...adapters, agent } })).toMatchObject({
    kind: "waiting",
    for: "you",
    reason,
  });
  expect(calls()).toBe(1);
  // The answer holds for the stage attempt.
  await answerDecision({ adapters, run: ID, answer: "continue", by: "Ada" });
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect(calls()).toBe(2);
});

test("without the limit on money, a run continues whose call has an unknown price, and the other limits hold", async () => {
  const { adapters, store, go } = await afterFirstCall({ microUsd: 1_000_000, tokens: 1_100 }, usage);
  await raiseLimits({ adapters, run: ID, limit: { microUsd: null } });
  expect(await go(workflow)).toMatchObject({
    kind: "waiting",
    for: "budget",
    reason: "The budget is used up: 1100 of 1100 tokens",
  });
  expect((await store.latest(ID))?.planes.position.budget.spent).toMatchObject({ microUsd: 0, unpriced: 1 });
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
