import { objectInput, piecesOf, type Protocol, type Reply, type StreamEvent } from "./protocol.ts";
import { asRecords, asText, textOf } from "../../core/record.ts";

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
    usage: usageOf(reply),
  }),
  stream(reply) {
    const start = { ...message(reply), content: [], stop_reason: null, usage: { ...usageOf(reply), output_tokens: 1 } };
    const events: StreamEvent[] = [
      { ...named("message_start", { message: start }), told: { ...reply.usage, output: 1 } },
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
          usage: usageOf(reply),
        }),
        told: reply.usage,
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

function usageOf({ usage }: Reply): object {
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
