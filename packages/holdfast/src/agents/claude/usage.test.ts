import fc from "fast-check";
import { expect, test } from "vitest";
import { NOTHING_READ, readClaudeLine, type ClaudeState } from "./reader.ts";
import { claudeUsage, costSoFar } from "./usage.ts";

interface Told {
  readonly id: string;
  readonly input: number;
  readonly output: number;
}

function usage({ input, output }: Omit<Told, "id">) {
  return { input_tokens: input, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: output };
}

/** As the program prints a message: its start, a block or two with a placeholder, its end. */
function printed({ id, input, output }: Told): readonly object[] {
  const message = { id, model: "m", content: [{ type: "text", text: "x" }], usage: usage({ input, output: 1 }) };
  return [
    { type: "stream_event", event: { type: "message_start", message } },
    { type: "assistant", message, uuid: "u" },
    { type: "assistant", message, uuid: "v" },
    { type: "stream_event", event: { type: "message_delta", usage: usage({ input, output }) }, api_message_id: id },
  ];
}

function written({ id, input, output }: Told): object {
  return { type: "assistant", message: { id, model: "m", usage: usage({ input, output }) } };
}

function count(lines: readonly object[], more: { readonly added?: string; readonly costBefore?: number } = {}) {
  const state = lines.reduce<ClaudeState>(
    (read, line) => readClaudeLine(read, JSON.stringify(line)).state,
    NOTHING_READ,
  );
  return claudeUsage({ state, added: () => [more.added ?? ""], costBefore: () => more.costBefore ?? 0 });
}

function sumOf(messages: readonly Told[]) {
  const inputTokens = messages.reduce((sum, { input }) => sum + input, 0);
  return { inputTokens, outputTokens: messages.reduce((sum, { output }) => sum + output, 0) };
}

const messages = fc.uniqueArray(
  fc.record({ id: fc.uuid(), input: fc.nat(10_000), output: fc.integer({ min: 1, max: 10_000 }) }),
  { selector: ({ id }) => id, minLength: 1, maxLength: 8 },
);

test("a killed call: each message once, however often and wherever it was told", () => {
  fc.assert(
    fc.property(messages, fc.nat(8), fc.nat(8), (all, streamed, kept) => {
      // Some came by the stream, some only reached the transcript, and some of those were cut off at their last line.
      const lines = all.slice(0, streamed).flatMap(printed);
      const added = [...all.slice(kept), ...all].map(written).map((line) => JSON.stringify(line));
      expect(count(lines, { added: `${added.join("\n")}\n{"type":"assist` })).toEqual({
        ...sumOf(all),
        microUsd: null,
      });
    }),
  );
});

test("results count what came before them; what comes after is counted by message", () => {
  fc.assert(
    fc.property(fc.array(messages, { minLength: 1, maxLength: 3 }), messages, (closed, open) => {
      const lines = closed.flatMap((some) => [...some.flatMap(printed), result(some)]);
      expect(count(lines)).toEqual({ ...sumOf(closed.flat()), microUsd: closed.length * 1000 });
      expect(count([...lines, ...open.flatMap(printed)])).toEqual({
        ...sumOf([...closed.flat(), ...open]),
        microUsd: null,
      });
    }),
  );
});

function result(some: readonly Told[]): object {
  const { inputTokens, outputTokens } = sumOf(some);
  const since = { m: { inputTokens, outputTokens, costUSD: 0.001, costBasis: "list" } };
  // Its own `usage` leaves subagents out.
  return { type: "result", subtype: "success", is_error: false, usage: {}, model_usage_since_last_result: since };
}

test("a call that never heard from the model does not say", () => {
  expect(count([])).toEqual({ inputTokens: null, outputTokens: null, microUsd: null });
});

test("versions that do not itemize: the cost is what was added to the session's, where the session keeps one", () => {
  const old = { type: "result", subtype: "success", is_error: false, usage: usage({ input: 5, output: 2 }) };
  const told = { ...old, total_cost_usd: 0.003 };
  expect(count([told])).toEqual({ inputTokens: 5, outputTokens: 2, microUsd: 3000 });
  expect(count([told], { costBefore: 0.001 })).toEqual({ inputTokens: 5, outputTokens: 2, microUsd: 2000 });
  expect(count([old])).toEqual({ inputTokens: 5, outputTokens: 2, microUsd: null });
});

test("the cost so far is the last that the transcript tells", () => {
  const line = (cost: number) => `{"type":"cost-state","totalCostUSD":${cost}}\n`;
  expect(costSoFar("")).toBe(0);
  expect(costSoFar(`{"type":"user"}\n${line(1)}{"type":"user"}\n${line(2.5)}{"type":"user"}\n`)).toBe(2.5);
  expect(costSoFar(`${line(1)}{"type":"cost-state","totalCo`)).toBe(0);
});
