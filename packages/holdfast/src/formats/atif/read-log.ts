import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { readClaudeEvent } from "./claude-events.ts";
import { readCodexEvent } from "./codex-events.ts";
import type { Loss } from "../format.ts";
import { openStep } from "./log-builder.ts";
import type { LogBuilder, OpenStep } from "./log-builder.ts";
import type { FinalMetrics, UnnumberedStep } from "./trajectory.ts";

export interface ReadLog {
  readonly session: string | null;
  readonly model: string | null;
  readonly version: string | null;
  readonly steps: readonly UnnumberedStep[];
  readonly totals: FinalMetrics;
  /** Events of a known stream that are no step, or say more than one tells: kept as they came. */
  readonly others: readonly Json[];
  readonly losses: readonly Loss[];
}

/**
 * What agents print: events of claude (and of those that speak like it) or of codex, a line each; else the plain text of a
 * program, which is then one message. Lines of a stream that we do not know are kept beside the steps.
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
      : [{ path: "logs.images", why: "The format wants images as files; only their places are told" }]),
    ...(details === 0
      ? []
      : [{ path: "logs.messages", why: "Of single messages neither token counts nor signatures are carried" }]),
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
