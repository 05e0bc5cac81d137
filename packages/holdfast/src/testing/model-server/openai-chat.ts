import { openaiError } from "./openai-error.ts";
import { objectInput, piecesOf, type Protocol, type Reply } from "./protocol.ts";
import { asRecords, asText, textOf } from "../../core/record.ts";

/** POST /v1/chat/completions */
export const openaiChat: Protocol = {
  name: "chat",
  read(body) {
    const messages = asRecords(body["messages"]).filter(({ role }) => role === "user" || role === "assistant");
    return {
      model: asText(body["model"]),
      stream: body["stream"] === true,
      hasTools: asRecords(body["tools"]).length > 0,
      turns: messages.map((message) => ({
        role: message["role"] === "assistant" ? "model" : "user",
        text: textOf(message["content"]),
        toolCalls: asRecords(message["tool_calls"]).length,
      })),
    };
  },
  whole(reply) {
    const { text, tool } = reply;
    const message = { role: "assistant", content: text, ...(tool === null ? {} : { tool_calls: callsOf(reply) }) };
    const choice = { index: 0, message, finish_reason: finishOf(reply), logprobs: null };
    return { ...head(reply, "chat.completion"), choices: [choice], usage: usageOf(reply) };
  },
  stream(reply) {
    const base = head(reply, "chat.completion.chunk");
    const chunk = (delta: object, finish: string | null = null) => ({
      data: { ...base, choices: [{ index: 0, delta, finish_reason: finish }] },
    });
    const calls = callsOf(reply).map((call, index) => ({ index, ...call }));
    return [
      chunk({ role: "assistant", content: "" }),
      ...piecesOf(reply.text).map((content) => chunk({ content })),
      ...(calls.length === 0 ? [] : [chunk({ tool_calls: calls })]),
      chunk({}, finishOf(reply)),
      { data: { ...base, choices: [], usage: usageOf(reply) }, told: reply.usage },
      { data: "[DONE]" },
    ];
  },
  error: openaiError,
};

function head({ id, model }: Reply, object: string): object {
  return { id: `chatcmpl-${id}`, object, created: CREATED, model };
}

const CREATED = 1_780_000_000;

function callsOf({ id, tool }: Reply): readonly object[] {
  if (tool === null) return [];
  const called = { name: tool.name, arguments: JSON.stringify(objectInput(tool)) };
  return [{ id: `call_${id}`, type: "function", function: called }];
}

function finishOf({ tool, refused }: Reply): string {
  if (refused) return "content_filter";
  return tool === null ? "stop" : "tool_calls";
}

function usageOf({ usage }: Reply): object {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    prompt_tokens: prompt,
    prompt_tokens_details: { cached_tokens: usage.cacheRead },
    completion_tokens: usage.output,
    completion_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt + usage.output,
  };
}
