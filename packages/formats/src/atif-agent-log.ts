// Converts agents' raw output (claude, codex or plain text) into ATIF steps, and defines the ATIF types.

import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { field } from "./document.ts";
import type { Loss } from "./format.ts";

export interface ReadLog {
  readonly session: string | null;
  readonly model: string | null;
  readonly version: string | null;
  readonly steps: readonly UnnumberedStep[];
  readonly totals: FinalMetrics;
  /** Events of a known stream that are not steps or contain more than a step can express, unchanged. */
  readonly others: readonly Json[];
  readonly losses: readonly Loss[];
}

/**
 * Reads what an agent printed: events of claude (and compatible agents) or codex, one per line. Any other output is
 * plain text and becomes one message. Unknown lines of a known stream are kept next to the steps.
 */
export function readLog(lines: readonly string[]): ReadLog {
  const builder: LogBuilder = {
    session: null,
    model: null,
    version: null,
    steps: [],
    totals: {},
    others: [],
    images: 0,
    details: 0,
  };
  const { others } = builder;
  const plain: string[] = [];
  let known = false;
  for (const line of lines) {
    const event = eventOf(line);
    const taken = event !== null && (readClaudeEvent(event, builder) || readCodexEvent(event, builder));
    known ||= taken;
    if (taken || line.trim() === "") continue;
    if (event === null) plain.push(line);
    else others.push(event);
  }
  if (known) others.push(...plain);
  else if (plain.length > 0) openStep(builder, { source: "agent", turn: null }).message = plain.join("\n");
  return {
    session: builder.session,
    model: builder.model,
    version: builder.version,
    steps: builder.steps.map(closeStep),
    totals: builder.totals,
    others,
    losses: lossesOf(builder),
  };
}

function lossesOf({ images, details }: LogBuilder): readonly Loss[] {
  return [
    ...(images === 0
      ? []
      : [{ path: "logs.images", why: "The format needs images as files; only their paths are written" }]),
    ...(details === 0
      ? []
      : [{ path: "logs.messages", why: "Token counts and signatures of single messages are not written" }]),
  ];
}

function eventOf(line: string): JsonObject | null {
  if (!line.trimStart().startsWith("{")) return null;
  try {
    const value: Json = JSON.parse(line);
    return isJsonObject(value) && typeof value["type"] === "string" ? value : null;
  } catch {
    return null;
  }
}

function closeStep(step: OpenStep): UnnumberedStep {
  return {
    source: step.source,
    message: step.message,
    ...(step.model === null ? {} : { model_name: step.model }),
    ...(step.reasoning === "" ? {} : { reasoning_content: step.reasoning }),
    ...(step.calls.length === 0 ? {} : { tool_calls: step.calls }),
    ...(step.results.length === 0 ? {} : { observation: { results: step.results } }),
  };
}

/** A step under construction. */
interface OpenStep {
  source: UnnumberedStep["source"];
  /** Events of the same model turn share it; null: the step is separate. */
  turn: string | null;
  message: string;
  reasoning: string;
  model: string | null;
  calls: ToolCall[];
  results: ObservationResult[];
}

interface LogBuilder {
  session: string | null;
  model: string | null;
  version: string | null;
  readonly steps: OpenStep[];
  totals: FinalMetrics;
  /** Events of a known stream that are not steps or contain more than a step can express, unchanged. */
  readonly others: Json[];
  /** Number of images. Only their position is kept, because the format requires a file for each. */
  images: number;
  /** Number of messages whose own token counts and signatures are dropped. */
  details: number;
}

/** Returns the step of this turn, or starts a new one. */
function openStep(
  builder: LogBuilder,
  params: { readonly source: OpenStep["source"]; readonly turn: string | null },
): OpenStep {
  const last = builder.steps.at(-1);
  if (last !== undefined && params.turn !== null && last.turn === params.turn) return last;
  const { source, turn } = params;
  const step: OpenStep = { source, turn, message: "", reasoning: "", model: null, calls: [], results: [] };
  builder.steps.push(step);
  return step;
}

/** Adds a result to the step that made the call, or to a new system step. */
function addResult(builder: LogBuilder, call: string | null, result: Omit<ObservationResult, "source_call_id">): void {
  const owner = builder.steps.findLast((step) => step.calls.some((one) => one.tool_call_id === call));
  if (owner !== undefined && call !== null) owner.results.push({ source_call_id: call, ...result });
  else openStep(builder, { source: "system", turn: null }).results.push(result);
}

function addText(to: string, more: string): string {
  return to === "" ? more : `${to}\n\n${more}`;
}

/** The text, or the joined texts of content blocks; other blocks appear as JSON or as "[image]". */
function textOf(content: Json | undefined, builder: Pick<LogBuilder, "images">): string {
  if (typeof content === "string") return content;
  if (!isJsonArray(content)) return content === undefined || content === null ? "" : JSON.stringify(content);
  return content
    .map((block) => {
      const text = isJsonObject(block) ? field(block, "text") : undefined;
      if (typeof text === "string") return text;
      if (!isJsonObject(block) || block["type"] !== "image") return JSON.stringify(block);
      builder.images += 1;
      return "[image]";
    })
    .join("\n");
}

function count(object: JsonObject, name: string): number {
  const value = field(object, name);
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : 0;
}

/**
 * Reads an event of claude's stream-json. Only the last event counts for usage: single messages report it at their
 * start, when it is too small. Returns false if it is not such an event or not a step.
 */
function readClaudeEvent(event: JsonObject, builder: LogBuilder): boolean {
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
        // The format has only named arguments.
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

/** Reads an event of `codex exec --json`. Returns false if it is not such an event or not a step. */
function readCodexEvent(event: JsonObject, builder: LogBuilder): boolean {
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

/**
 * Agent Trajectory Interchange Format, version 1.7 (Harbor's RFC 0001), as far as Holdfast writes it. Missing fields
 * are left out, never null. Readers reject unknown fields, so Holdfast's own are in `extra`.
 */
export interface Trajectory {
  readonly schema_version: "ATIF-v1.7";
  /** Id of the run; several documents may share it. */
  readonly session_id?: string;
  /** Id of this document; every embedded document needs its own. */
  readonly trajectory_id?: string;
  readonly agent: TrajectoryAgent;
  /** Numbered 1, 2, 3 … */
  readonly steps: readonly TrajectoryStep[];
  readonly notes?: string;
  readonly final_metrics?: FinalMetrics;
  readonly subagent_trajectories?: readonly Trajectory[];
  readonly extra?: JsonObject;
}

export interface TrajectoryAgent {
  readonly name: string;
  readonly version: string;
  readonly model_name?: string;
  readonly extra?: JsonObject;
}

interface TrajectoryStep {
  readonly step_id: number;
  readonly timestamp?: string;
  readonly source: "system" | "user" | "agent";
  readonly message: string;
  /** Only agent steps have the fields from here to `metrics`, except for the observation. */
  readonly model_name?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly observation?: { readonly results: readonly ObservationResult[] };
  readonly metrics?: StepMetrics;
  /** 0: the workflow acted without asking a model, so there are no metrics and no reasoning. */
  readonly llm_call_count?: number;
  readonly extra?: JsonObject;
}

interface ToolCall {
  /** Unique within the trajectory. */
  readonly tool_call_id: string;
  readonly function_name: string;
  readonly arguments: JsonObject;
  readonly extra?: JsonObject;
}

interface ObservationResult {
  /** Id of a call in the same step. */
  readonly source_call_id?: string;
  readonly content?: string;
  /** References an embedded trajectory by id. */
  readonly subagent_trajectory_ref?: readonly { readonly trajectory_id: string; readonly session_id?: string }[];
  readonly extra?: JsonObject;
}

interface StepMetrics {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly cached_tokens?: number;
  readonly cost_usd?: number;
  readonly extra?: JsonObject;
}

export interface FinalMetrics {
  readonly total_prompt_tokens?: number;
  readonly total_completion_tokens?: number;
  readonly total_cached_tokens?: number;
  readonly total_cost_usd?: number;
  readonly total_steps?: number;
}

export type UnnumberedStep = Omit<TrajectoryStep, "step_id">;

export function numberSteps(steps: readonly UnnumberedStep[]): readonly TrajectoryStep[] {
  return steps.map((step, index) => ({ step_id: index + 1, ...step }));
}

/** Returns a text unchanged, and any other value as JSON. */
export function contentText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
