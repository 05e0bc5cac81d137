import fc from "fast-check";
import { expect, test } from "vitest";
import { chooseAnswer, planAnswer, type CallFacts } from "./plan-answer.ts";
import type { Answer } from "./script-schema.ts";

const files = { completion: "DONE 7", finalize: ".tmp/finalize.txt", commitReport: ".tmp/report.txt" };
const call: CallFacts = { role: "impl", iteration: 2, attempt: 1, resumed: false, yolo: false };

function plan(answer: Answer, attempt = 1) {
  return planAnswer({ answer, attempt, session: null, files });
}

test("the first answer that fits is taken; an absent condition fits all", () => {
  const answers: Answer[] = [
    { when: { role: "review" }, reply: "a" },
    { when: { role: ["impl", "simplify"], iteration: [1, 3] }, reply: "b" },
    { when: { iteration: 2, attempt: 2 }, reply: "c" },
    { when: { resumed: true }, reply: "d" },
    { reply: "e" },
    { when: { role: "impl" }, reply: "never" },
  ];
  const pick = (facts: Partial<CallFacts>) => chooseAnswer({ answers }, { ...call, ...facts })?.reply;
  expect(pick({ role: "review" })).toBe("a");
  expect(pick({ iteration: 3 })).toBe("b");
  expect(pick({ attempt: 2 })).toBe("c");
  expect(pick({ resumed: true })).toBe("d");
  expect(pick({})).toBe("e");
  expect(chooseAnswer({ answers: answers.slice(0, 3) }, call)).toBeUndefined();
});

test("the choice depends on the call alone: any order of calls, with any repeated, gives each its own answer", () => {
  const answers: Answer[] = [1, 2, 3].flatMap((iteration) =>
    [1, 2].map((attempt) => ({ when: { iteration, attempt }, reply: `${iteration}/${attempt}` })),
  );
  const calls = fc.array(
    fc.record({ iteration: fc.integer({ min: 1, max: 3 }), attempt: fc.integer({ min: 1, max: 2 }) }),
  );
  fc.assert(
    fc.property(calls, (made) => {
      for (const { iteration, attempt } of made)
        expect(chooseAnswer({ answers }, { ...call, iteration, attempt })?.reply).toBe(`${iteration}/${attempt}`);
    }),
  );
});

test("edits come in their order, then the reports, usage, the orphan and the reply", () => {
  const actions = plan({
    delayMs: 5,
    edits: [
      { do: "write", path: "a", text: "x" },
      { do: "wait", ms: 3 },
      { do: "delete", path: "b" },
    ],
    finalize: { title: "[feat][#7] A", body: "Why.\n" },
    commitReport: "Made A",
    usage: { input: 1 },
    spawn: { ignoreTerm: true },
    reply: "ok",
  });
  expect(actions.map((action) => (action.do === "say" ? `say ${action.event.type}` : action.do))).toEqual([
    "wait",
    "write",
    "say edit",
    "wait",
    "delete",
    "say edit",
    "write",
    "write",
    "say usage",
    "spawn",
    "say result",
    "exit",
  ]);
  expect(actions).toContainEqual({ do: "write", path: ".tmp/finalize.txt", text: "[feat][#7] A\n\nWhy.\n\nDONE 7\n" });
  expect(actions).toContainEqual({ do: "write", path: ".tmp/report.txt", text: "Made A" });
  expect(actions).toContainEqual({ do: "say", event: { type: "usage", input: 1, output: null, microUsd: null } });
});

test("a failure comes before any edit, or after them when the script says so, and only as often as it says", () => {
  const edits: Answer["edits"] = [{ do: "write", path: "a", text: "x" }];
  const kinds = (answer: Answer, attempt: number) => plan(answer, attempt).map((action) => action.do);
  const fail = { cause: "overload", times: 2 } as const;
  expect(kinds({ edits, fail }, 1)).toEqual(["say", "exit"]);
  expect(kinds({ edits, fail }, 2)).toEqual(["say", "exit"]);
  expect(kinds({ edits, fail }, 3)).toEqual(["write", "say", "say", "exit"]);
  expect(kinds({ edits, fail: { cause: "crash", afterEdits: true } }, 9)).toEqual(["write", "say", "say", "exit"]);
});

test("scores are a JSON block after the reply", () => {
  const said = plan({ reply: "Close.", scores: { faithful: 91, style: 80 } }).find((action) => action.do === "say");
  expect(said?.do === "say" && said.event.type === "result" ? said.event.text : said).toBe(
    'Close.\n\n```json\n{"scores":{"faithful":91,"style":80}}\n```',
  );
});
