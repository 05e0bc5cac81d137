import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { field } from "../patch-document.ts";
import { addResult, addText, count, openStep, textOf } from "./log-builder.ts";
import type { LogBuilder } from "./log-builder.ts";

/** One event of `codex exec --json`. False: not such an event, or one that is no step. */
export function readCodexEvent(event: JsonObject, builder: LogBuilder): boolean {
  const item = field(event, "item");
  switch (event["type"]) {
    case "thread.started":
      builder.session ??= textOf(field(event, "thread_id"), builder);
      return true;
    case "item.completed":
      return isJsonObject(item) && readItem(item, builder);
    case "turn.completed":
      return readUsage(field(event, "usage"), builder);
    case "error":
    case "turn.failed":
      openStep(builder, { source: "system", turn: null }).message = textOf(field(event, "message") ?? event, builder);
      return true;
    default:
      return false;
  }
}

function readItem(item: JsonObject, builder: LogBuilder): boolean {
  const { type, id: _, ...rest } = item;
  switch (type) {
    case "agent_message": {
      const last = builder.steps.at(-1);
      const open = last?.source === "agent" && last.message === "" && last.calls.length === 0 ? last : null;
      (open ?? openStep(builder, { source: "agent", turn: null })).message = textOf(field(item, "text"), builder);
      return true;
    }
    case "reasoning": {
      const step = openStep(builder, { source: "agent", turn: null });
      step.reasoning = addText(step.reasoning, textOf(field(item, "text"), builder));
      return true;
    }
    case "command_execution": {
      const { aggregated_output: output, command, ...facts } = rest;
      return readCall(item, builder, {
        arguments: { command: command ?? null },
        content: textOf(output, builder),
        facts,
      });
    }
    case "file_change":
    case "mcp_tool_call":
    case "web_search":
      return readCall(item, builder, { arguments: rest, content: null, facts: {} });
    default:
      return false;
  }
}

function readCall(
  item: JsonObject,
  builder: LogBuilder,
  call: { readonly arguments: JsonObject; readonly content: string | null; readonly facts: JsonObject },
): boolean {
  const used = builder.steps.flatMap((step) => step.calls.map((one) => one.tool_call_id));
  const given = field(item, "id");
  const id = typeof given === "string" && !used.includes(given) ? given : `call-${used.length + 1}`;
  const step = openStep(builder, { source: "agent", turn: null });
  step.calls.push({ tool_call_id: id, function_name: String(item["type"]), arguments: call.arguments });
  if (call.content !== null) addResult(builder, id, { content: call.content, extra: call.facts });
  return true;
}

function readUsage(usage: Json | undefined, builder: LogBuilder): boolean {
  if (!isJsonObject(usage)) return false;
  const { totals } = builder;
  builder.totals = {
    ...totals,
    total_prompt_tokens: (totals.total_prompt_tokens ?? 0) + count(usage, "input_tokens"),
    total_completion_tokens: (totals.total_completion_tokens ?? 0) + count(usage, "output_tokens"),
    total_cached_tokens: (totals.total_cached_tokens ?? 0) + count(usage, "cached_input_tokens"),
  };
  return true;
}
