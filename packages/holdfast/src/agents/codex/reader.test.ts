import fc from "fast-check";
import { expect, test } from "vitest";
import { NOTHING_READ, readCodexLine } from "./reader.ts";
import { sumOfAnswers, totalSoFar } from "./token-count.ts";

test("no line harms the reader, and none that it does not know changes what was read", () => {
  const strange = fc.oneof(
    fc.string(),
    fc.json(),
    fc.json().map((value) => `{"type":"item.completed","item":${value}}`),
  );
  fc.assert(
    fc.property(fc.array(strange), (lines) => {
      const state = lines.reduce((before, line) => readCodexLine(before, line).state, NOTHING_READ);
      expect(state).toMatchObject({ session: null, end: "open", total: null });
    }),
  );
});

test("a tool call is told once: when it begins, or when it is over for one that had no beginning", () => {
  const line = (type: string, id: string) =>
    JSON.stringify({ type, item: { id, type: "command_execution", command: "ls", status: "completed" } });
  let state = NOTHING_READ;
  const events = [line("item.started", "a"), line("item.completed", "a"), line("item.completed", "b")].flatMap(
    (text) => {
      const step = readCodexLine(state, text);
      state = step.state;
      return step.events;
    },
  );
  expect(events).toEqual([1, 2].map(() => ({ kind: "tool", name: "exec_command", detail: "ls" })));
});

test("trouble is over when work goes on", () => {
  const trouble = readCodexLine(NOTHING_READ, JSON.stringify({ type: "error", message: "Reconnecting... 1/5" }));
  expect(trouble).toMatchObject({ waiting: true, state: { trouble: "Reconnecting... 1/5" } });
  const item = JSON.stringify({ type: "item.completed", item: { type: "agent_message", text: "Hello" } });
  const next = readCodexLine(trouble.state, item);
  expect(next).toMatchObject({ state: { trouble: null, text: "Hello" }, events: [{ kind: "text", text: "Hello" }] });
  expect(next.waiting).toBeUndefined();
});

test("answers are counted once each, wherever a killed call broke off", () => {
  const anyAnswers = fc.uniqueArray(fc.record({ id: fc.uuid(), input: fc.nat(), output: fc.nat(), cached: fc.nat() }), {
    selector: ({ id }) => id,
    minLength: 1,
  });
  fc.assert(
    fc.property(anyAnswers, (answers) => {
      const lines = answers.map(({ id, input, output, cached }) => {
        const usage = { input_tokens: input, output_tokens: output, cached_input_tokens: cached };
        return JSON.stringify({ type: "token_usage_record", payload: { response_id: id, usage } });
      });
      const text = [...lines, ...lines, (lines[0] ?? "").slice(0, -3)].join("\n");
      const sum = (of: "input" | "output" | "cached") => answers.reduce((total, answer) => total + answer[of], 0);
      expect(sumOfAnswers(text)).toEqual({ input: sum("input"), output: sum("output"), cached: sum("cached") });
    }),
  );
  expect(sumOfAnswers("")).toBeNull();
});

test("the thread's own total is the last one told", () => {
  const line = (input: number) => {
    const total_token_usage = { input_tokens: input, output_tokens: 1 };
    return JSON.stringify({ payload: { type: "token_count", info: { total_token_usage } } });
  };
  expect(totalSoFar([line(5), line(9)].join("\n"))).toEqual({ input: 9, output: 1, cached: 0 });
  expect(totalSoFar("")).toEqual({ input: 0, output: 0, cached: 0 });
});
