import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { field } from "../patch-document.ts";
import type { FinalMetrics, ObservationResult, ToolCall, UnnumberedStep } from "./trajectory.ts";

/** A step that is still being put together. */
export interface OpenStep {
  source: UnnumberedStep["source"];
  /** Several events of one model turn have the same; null: on its own. */
  turn: string | null;
  message: string;
  reasoning: string;
  model: string | null;
  calls: ToolCall[];
  results: ObservationResult[];
}

export interface LogBuilder {
  session: string | null;
  model: string | null;
  version: string | null;
  readonly steps: OpenStep[];
  totals: FinalMetrics;
  /** Events of a known stream that are no step, or say more than one tells: kept as they came. */
  readonly others: Json[];
  /** Of them only the place is told: the format wants a file for each. */
  images: number;
  /** Messages whose own figures and signatures are not carried. */
  details: number;
}

/** The step of this turn, or a new one. */
export function openStep(
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

/** A result belongs to the step that made the call, or else to none. */
export function addResult(
  builder: LogBuilder,
  call: string | null,
  result: Omit<ObservationResult, "source_call_id">,
): void {
  const owner = builder.steps.findLast((step) => step.calls.some((one) => one.tool_call_id === call));
  if (owner !== undefined && call !== null) owner.results.push({ source_call_id: call, ...result });
  else openStep(builder, { source: "system", turn: null }).results.push(result);
}

export function addText(to: string, more: string): string {
  return to === "" ? more : `${to}\n\n${more}`;
}

/** Texts of a list of content blocks, or the text itself; what is not text is named in its place. */
export function textOf(content: Json | undefined, builder: Pick<LogBuilder, "images">): string {
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

export function count(object: JsonObject, name: string): number {
  const value = field(object, name);
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : 0;
}
