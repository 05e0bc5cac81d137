import { openaiError } from "./openai-error.ts";
import { piecesOf, type Protocol, type Reply, type StreamEvent } from "./protocol.ts";
import type { Turn } from "./conversation.ts";
import { asRecords, asText, textOf, type JsonRecord } from "../../core/record.ts";

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
  whole: (reply) => ({ ...head(reply, "completed"), output: itemsOf(reply), usage: usageOf(reply) }),
  stream(reply) {
    const events: JsonRecord[] = [
      { type: "response.created", response: head(reply, "in_progress") },
      { type: "response.in_progress", response: head(reply, "in_progress") },
    ];
    for (const [index, item] of reply.refused ? [] : itemsOf(reply).entries()) {
      events.push({ type: "response.output_item.added", output_index: index, item: emptied(item) });
      events.push(...deltasOf(reply, item).map((delta) => ({ output_index: index, item_id: item["id"], ...delta })));
      events.push({ type: "response.output_item.done", output_index: index, item });
    }
    const response = reply.refused
      ? { ...head(reply, "incomplete"), incomplete_details: { reason: "content_filter" }, usage: usageOf(reply) }
      : { ...head(reply, "completed"), output: itemsOf(reply), usage: usageOf(reply) };
    events.push({ type: reply.refused ? "response.incomplete" : "response.completed", response });
    return events.map((data, number): StreamEvent => ({
      name: asText(data["type"]),
      data: { ...data, sequence_number: number },
      ...(number === events.length - 1 ? { told: reply.usage } : {}),
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

function head({ id, model }: Reply, status: string): JsonRecord {
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

function usageOf({ usage }: Reply): object {
  const input = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cacheRead },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + usage.output,
  };
}
