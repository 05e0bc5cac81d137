// The model APIs that the scripted model server implements: Anthropic Messages, OpenAI Responses and chat completions, Gemini.

import { type JsonRecord, asRecords, asText, textOf } from "@holdfast/core/json";
import { type Protocol, type Reply, type StreamEvent, type Turn, objectInput, piecesOf } from "./model-script.ts";

/** POST /v1/messages */
export const anthropic: Protocol = {
  name: "anthropic",
  read(body) {
    return {
      model: asText(body["model"]),
      stream: body["stream"] === true,
      hasTools: asRecords(body["tools"]).length > 0,
      turns: asRecords(body["messages"]).map(({ role, content }) => ({
        role: role === "assistant" ? "model" : "user",
        text: textOf(content),
        toolCalls: asRecords(content).filter(({ type }) => type === "tool_use").length,
      })),
    };
  },
  whole: (reply) => ({
    ...message(reply),
    content: blocksOf(reply).map(({ full }) => full),
    stop_reason: stopOf(reply),
    usage: anthropicUsage(reply),
  }),
  stream(reply) {
    const start = {
      ...message(reply),
      content: [],
      stop_reason: null,
      usage: { ...anthropicUsage(reply), output_tokens: 1 },
    };
    const events: StreamEvent[] = [
      { ...named("message_start", { message: start }), usage: { ...reply.usage, output: 1 } },
    ];
    for (const [index, block] of blocksOf(reply).entries()) {
      const { empty, deltas } = block;
      events.push(named("content_block_start", { index, content_block: empty }));
      for (const delta of deltas) events.push(named("content_block_delta", { index, delta }));
      events.push(named("content_block_stop", { index }));
    }
    events.push(
      {
        ...named("message_delta", {
          delta: { stop_reason: stopOf(reply), stop_sequence: null },
          usage: anthropicUsage(reply),
        }),
        usage: reply.usage,
      },
      named("message_stop", {}),
    );
    return events;
  },
  error: ({ status, message, type }) => ({
    type: "error",
    error: { type: type ?? ERROR_TYPES[status] ?? "api_error", message },
    request_id: "req_scripted",
  }),
};

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  529: "overloaded_error",
};

function named(type: string, data: object): StreamEvent {
  return { name: type, data: { type, ...data } };
}

function message({ id, model }: Reply): object {
  return { id: `msg_${id}`, type: "message", role: "assistant", model, stop_sequence: null };
}

function stopOf({ tool, refused }: Reply): string {
  if (refused) return "refusal";
  return tool === null ? "end_turn" : "tool_use";
}

function anthropicUsage({ usage }: Reply): object {
  return {
    input_tokens: usage.input,
    cache_read_input_tokens: usage.cacheRead,
    cache_creation_input_tokens: usage.cacheWrite,
    output_tokens: usage.output,
  };
}

interface Block {
  readonly full: object;
  readonly empty: object;
  readonly deltas: readonly object[];
}

function blocksOf({ id, text, tool }: Reply): readonly Block[] {
  const said: Block = {
    full: { type: "text", text },
    empty: { type: "text", text: "" },
    deltas: piecesOf(text).map((piece) => ({ type: "text_delta", text: piece })),
  };
  if (tool === null) return [said];
  const call = { type: "tool_use", id: `toolu_${id}`, name: tool.name };
  const input = objectInput(tool);
  const used: Block = {
    full: { ...call, input },
    empty: { ...call, input: {} },
    deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(input) }],
  };
  return text === "" ? [used] : [said, used];
}

const openaiError: Protocol["error"] = ({ status, message, type }) => ({
  error: { message, type: type ?? TYPES[status] ?? "server_error", code: type ?? null, param: null },
});

const TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "invalid_request_error",
  403: "insufficient_permissions",
  404: "invalid_request_error",
  429: "rate_limit_exceeded",
};

/** POST /v1/responses */
export const openaiResponses: Protocol = {
  name: "responses",
  read(body) {
    const { input } = body;
    return {
      model: asText(body["model"]),
      stream: body["stream"] === true,
      hasTools: asRecords(body["tools"]).length > 0,
      turns:
        typeof input === "string"
          ? [{ role: "user", text: input, toolCalls: 0 }]
          : asRecords(input).flatMap((item) => turnOf(item)),
    };
  },
  whole: (reply) => ({ ...responseHead(reply, "completed"), output: itemsOf(reply), usage: responsesUsage(reply) }),
  stream(reply) {
    const events: JsonRecord[] = [
      { type: "response.created", response: responseHead(reply, "in_progress") },
      { type: "response.in_progress", response: responseHead(reply, "in_progress") },
    ];
    for (const [index, item] of reply.refused ? [] : itemsOf(reply).entries()) {
      events.push({ type: "response.output_item.added", output_index: index, item: emptied(item) });
      events.push(...deltasOf(reply, item).map((delta) => ({ output_index: index, item_id: item["id"], ...delta })));
      events.push({ type: "response.output_item.done", output_index: index, item });
    }
    const response = reply.refused
      ? {
          ...responseHead(reply, "incomplete"),
          incomplete_details: { reason: "content_filter" },
          usage: responsesUsage(reply),
        }
      : { ...responseHead(reply, "completed"), output: itemsOf(reply), usage: responsesUsage(reply) };
    events.push({ type: reply.refused ? "response.incomplete" : "response.completed", response });
    return events.map((data, number): StreamEvent => ({
      name: asText(data["type"]),
      data: { ...data, sequence_number: number },
      ...(number === events.length - 1 ? { usage: reply.usage } : {}),
    }));
  },
  error: openaiError,
};

function turnOf(item: JsonRecord): readonly Turn[] {
  const { type, role } = item;
  if (type === "function_call" || type === "custom_tool_call" || type === "local_shell_call")
    return [{ role: "model", text: "", toolCalls: 1 }];
  if (role !== "user" && role !== "assistant") return [];
  return [{ role: role === "user" ? "user" : "model", text: textOf(item["content"]), toolCalls: 0 }];
}

function responseHead({ id, model }: Reply, status: string): JsonRecord {
  return { id: `resp_${id}`, object: "response", created_at: CREATED, model, status, output: [], error: null };
}

const CREATED = 1_780_000_000;

function itemsOf({ id, text, tool }: Reply): readonly JsonRecord[] {
  const content = [{ type: "output_text", text, annotations: [] }];
  const said = { id: `msg_${id}`, type: "message", role: "assistant", status: "completed", content };
  if (tool === null) return [said];
  const call = { call_id: `call_${id}`, name: tool.name, status: "completed" };
  const used =
    typeof tool.input === "string"
      ? { id: `ctc_${id}`, type: "custom_tool_call", ...call, input: tool.input }
      : { id: `fc_${id}`, type: "function_call", ...call, arguments: JSON.stringify(tool.input) };
  return text === "" ? [used] : [said, used];
}

function emptied(item: JsonRecord): JsonRecord {
  const blank = item["type"] === "message" ? { content: [] } : "input" in item ? { input: "" } : { arguments: "" };
  return { ...item, status: "in_progress", ...blank };
}

function deltasOf({ text }: Reply, item: JsonRecord): readonly JsonRecord[] {
  switch (item["type"]) {
    case "message": {
      const part = (said: string) => ({ type: "output_text", text: said, annotations: [] });
      const at = { content_index: 0 };
      return [
        { type: "response.content_part.added", ...at, part: part("") },
        ...piecesOf(text).map((delta) => ({ type: "response.output_text.delta", ...at, delta })),
        { type: "response.output_text.done", ...at, text },
        { type: "response.content_part.done", ...at, part: part(text) },
      ];
    }
    case "custom_tool_call":
      return [
        { type: "response.custom_tool_call_input.delta", delta: item["input"] },
        { type: "response.custom_tool_call_input.done", input: item["input"] },
      ];
    default:
      return [
        { type: "response.function_call_arguments.delta", delta: item["arguments"] },
        { type: "response.function_call_arguments.done", arguments: item["arguments"] },
      ];
  }
}

function responsesUsage({ usage }: Reply): object {
  const input = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cacheRead },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + usage.output,
  };
}

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
    return { ...chatHead(reply, "chat.completion"), choices: [choice], usage: chatUsage(reply) };
  },
  stream(reply) {
    const base = chatHead(reply, "chat.completion.chunk");
    const chunk = (delta: object, finish: string | null = null) => ({
      data: { ...base, choices: [{ index: 0, delta, finish_reason: finish }] },
    });
    const calls = callsOf(reply).map((call, index) => ({ index, ...call }));
    return [
      chunk({ role: "assistant", content: "" }),
      ...piecesOf(reply.text).map((content) => chunk({ content })),
      ...(calls.length === 0 ? [] : [chunk({ tool_calls: calls })]),
      chunk({}, finishOf(reply)),
      { data: { ...base, choices: [], usage: chatUsage(reply) }, usage: reply.usage },
      { data: "[DONE]" },
    ];
  },
  error: openaiError,
};

function chatHead({ id, model }: Reply, object: string): object {
  return { id: `chatcmpl-${id}`, object, created: CREATED, model };
}

function callsOf({ id, tool }: Reply): readonly object[] {
  if (tool === null) return [];
  const called = { name: tool.name, arguments: JSON.stringify(objectInput(tool)) };
  return [{ id: `call_${id}`, type: "function", function: called }];
}

function finishOf({ tool, refused }: Reply): string {
  if (refused) return "content_filter";
  return tool === null ? "stop" : "tool_calls";
}

function chatUsage({ usage }: Reply): object {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    prompt_tokens: prompt,
    prompt_tokens_details: { cached_tokens: usage.cacheRead },
    completion_tokens: usage.output,
    completion_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt + usage.output,
  };
}

/** POST /v1beta/models/MODEL:generateContent and :streamGenerateContent */
export const gemini: Protocol = {
  name: "gemini",
  read(body, url) {
    return {
      model: /models\/([^:/]+)/.exec(url.pathname)?.[1] ?? "",
      stream: url.pathname.endsWith(":streamGenerateContent"),
      hasTools: asRecords(body["tools"]).length > 0,
      turns: asRecords(body["contents"]).map(({ role, parts }) => ({
        role: role === "model" ? "model" : "user",
        text: textOf(parts),
        toolCalls: asRecords(parts).filter((part) => part["functionCall"] !== undefined).length,
      })),
    };
  },
  whole: (reply) => answer(reply, [...textParts(reply), ...callParts(reply)], true),
  stream: (reply) => [
    ...textParts(reply).map((part) => ({ data: answer(reply, [part], false) })),
    { data: answer(reply, callParts(reply), true), usage: reply.usage },
  ],
  error: ({ status, message, type }) => ({
    error: { code: status, message, status: type ?? STATUSES[status] ?? "INTERNAL" },
  }),
};

const STATUSES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  503: "UNAVAILABLE",
};

function answer(reply: Reply, parts: readonly object[], last: boolean): object {
  const content = { role: "model", parts };
  return {
    candidates: [{ content, index: 0, ...(last ? { finishReason: reply.refused ? "SAFETY" : "STOP" } : {}) }],
    ...(last ? { usageMetadata: geminiUsage(reply) } : {}),
    modelVersion: reply.model,
    responseId: reply.id,
  };
}

function textParts({ text }: Reply): readonly object[] {
  return piecesOf(text).map((piece) => ({ text: piece }));
}

function callParts({ id, tool }: Reply): readonly object[] {
  if (tool === null) return [];
  return [{ functionCall: { id: `call_${id}`, name: tool.name, args: objectInput(tool) } }];
}

function geminiUsage({ usage }: Reply): object {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    promptTokenCount: prompt,
    cachedContentTokenCount: usage.cacheRead,
    candidatesTokenCount: usage.output,
    totalTokenCount: prompt + usage.output,
  };
}
