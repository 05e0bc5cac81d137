import fc from "fast-check";
import { expect, test } from "vitest";
import { recordOf, sumOf } from "./record.ts";

const line = (uuid: string, uiEvent: object) =>
  JSON.stringify({ uuid, type: "system", subtype: "ui_telemetry", systemPayload: { uiEvent } });
const answer = (uuid: string, input: number, output: number, more: object = {}) =>
  line(uuid, {
    "event.name": "qwen-code.api_response",
    input_token_count: input,
    total_token_count: input + output,
    ...more,
  });
const error = (status: number, more: object = {}) =>
  line("e", { "event.name": "qwen-code.api_error", status_code: status, error_message: `${status} no`, ...more });

test("each answer once, whatever else is in the file and wherever it breaks off", () => {
  const spent = fc.array(fc.record({ input: fc.nat(1e6), output: fc.nat(1e6) }));
  fc.assert(
    fc.property(spent, fc.array(fc.json()), (answers, others) => {
      const lines = answers.map(({ input, output }, id) => answer(`${id}`, input, output));
      const text = [...lines, ...others, ...lines, (lines[0] ?? "").slice(0, -3)].join("\n");
      expect([...recordOf(text).answers.values()]).toEqual(answers.map((tokens) => ({ ...tokens, cached: 0 })));
    }),
  );
});

test("what was there before the call is not the call's", () => {
  const before = `${answer("a", 10, 1)}\n${error(500)}\n`;
  expect(recordOf(before, before)).toEqual({ answers: new Map(), refused: null });
  const cached = answer("b", 7, 2, { cached_content_token_count: 5 });
  expect(sumOf(recordOf(`${before}${cached}\n`, before))).toEqual({ input: 7, output: 2, cached: 5 });
});

test("a refusal holds until the work has an answer", () => {
  const side = { subagent_name: "managed-auto-memory-extractor" };
  const refused = { status: 429, message: "429 no" };
  expect(recordOf(error(429)).refused).toEqual(refused);
  expect(recordOf([error(429), answer("b", 1, 1, side)].join("\n")).refused).toEqual(refused);
  expect(recordOf([error(429), answer("b", 1, 1)].join("\n")).refused).toBeNull();
  expect(recordOf(error(429, side)).refused).toBeNull();
});
