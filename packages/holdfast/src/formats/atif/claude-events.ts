import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { field } from "../patch-document.ts";
import { addResult, addText, count, openStep, textOf } from "./log-builder.ts";
import type { LogBuilder } from "./log-builder.ts";

/**
 * One event of claude's stream-json. Usage is taken from the last event alone: those of single messages are of their
 * beginning and too small. False: not such an event, or one that is no step.
 */
export function readClaudeEvent(event: JsonObject, builder: LogBuilder): boolean {
  const message = field(event, "message");
  switch (event["type"]) {
    case "system":
      if (event["subtype"] !== "init") return false;
      builder.session ??= textIn(event, "session_id");
      builder.model ??= textIn(event, "model");
      builder.version ??= textIn(event, "claude_code_version");
      builder.others.push(event);
      return true;
    case "assistant":
      return isJsonObject(message) && readAssistant(message, builder);
    case "user":
      return isJsonObject(message) && readUser(field(message, "content"), builder);
    case "result":
      return readResult(event, builder);
    default:
      return false;
  }
}

function readAssistant(message: JsonObject, builder: LogBuilder): boolean {
  const content = field(message, "content");
  if (!isJsonArray(content)) return false;
  const step = openStep(builder, { source: "agent", turn: textIn(message, "id") });
  step.model ??= textIn(message, "model");
  const signed = content.some((block) => isJsonObject(block) && field(block, "signature") !== undefined);
  if (signed || field(message, "usage") !== undefined) builder.details += 1;
  for (const block of content) {
    if (!isJsonObject(block)) step.message = addText(step.message, textOf(block, builder));
    else if (block["type"] === "thinking")
      step.reasoning = addText(step.reasoning, textOf(field(block, "thinking"), builder));
    else if (block["type"] === "tool_use") {
      const input = field(block, "input");
      step.calls.push({
        tool_call_id: textIn(block, "id") ?? `call-${builder.steps.length}-${step.calls.length + 1}`,
        function_name: textIn(block, "name") ?? "unknown",
        // The format knows named arguments only.
        arguments: isJsonObject(input) ? input : input === undefined ? {} : { input },
      });
    } else step.message = addText(step.message, textOf([block], builder));
  }
  return true;
}

function readUser(content: Json | undefined, builder: LogBuilder): boolean {
  if (typeof content === "string") {
    openStep(builder, { source: "user", turn: null }).message = content;
    return true;
  }
  if (!isJsonArray(content)) return false;
  for (const block of content) {
    if (isJsonObject(block) && block["type"] === "tool_result") {
      const failed = block["is_error"] === true ? { extra: { is_error: true } } : {};
      addResult(builder, textIn(block, "tool_use_id"), {
        content: textOf(field(block, "content"), builder),
        ...failed,
      });
    } else openStep(builder, { source: "user", turn: null }).message = textOf([block], builder);
  }
  return true;
}

function readResult(event: JsonObject, builder: LogBuilder): boolean {
  const usage = field(event, "usage");
  const cost = field(event, "total_cost_usd");
  builder.others.push(event);
  if (isJsonObject(usage)) {
    const cached = count(usage, "cache_read_input_tokens");
    const fresh = count(usage, "input_tokens") + count(usage, "cache_creation_input_tokens");
    builder.totals = {
      ...builder.totals,
      total_prompt_tokens: fresh + cached,
      total_completion_tokens: count(usage, "output_tokens"),
      total_cached_tokens: cached,
    };
  }
  if (typeof cost === "number") builder.totals = { ...builder.totals, total_cost_usd: cost };
  return true;
}

function textIn(object: JsonObject, name: string): string | null {
  const value = field(object, name);
  return typeof value === "string" && value !== "" ? value : null;
}
