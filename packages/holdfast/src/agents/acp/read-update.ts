import { asRecord, asText, type JsonRecord } from "../../core/record.ts";
import type { AgentEvent } from "../../ports/agent.ts";

/** What the updates of a call came to so far. */
export interface AcpState {
  /** The agent's words since its last tool call. */
  readonly text: string;
  /** A tool call came since the last word: the next one begins the last words anew. */
  readonly isStale: boolean;
  /** Micro-dollars of the whole session, as it was told last; null: not told, or in another currency. */
  readonly cost: number | null;
}

export const NOTHING_HEARD: AcpState = { text: "", isStale: false, cost: null };

/** One `session/update`. Of a kind that is not known, or not of interest, it changes nothing. */
export function readUpdate(
  state: AcpState,
  update: JsonRecord,
): { readonly state: AcpState; readonly events: readonly AgentEvent[] } {
  switch (update["sessionUpdate"]) {
    case "agent_message_chunk": {
      const text = asText(asRecord(update["content"])["text"]);
      if (text === "") return { state, events: [] };
      const before = state.isStale ? "" : state.text;
      return { state: { ...state, text: before + text, isStale: false }, events: [{ kind: "text", text }] };
    }
    case "tool_call": {
      const name = asText(update["kind"]) || "tool";
      return { state: { ...state, isStale: true }, events: [{ kind: "tool", name, detail: asText(update["title"]) }] };
    }
    case "usage_update":
      return { state: { ...state, cost: microUsdOf(asRecord(update["cost"])) ?? state.cost }, events: [] };
    default:
      return { state, events: [] };
  }
}

function microUsdOf({ amount, currency }: JsonRecord): number | null {
  return typeof amount === "number" && Number.isFinite(amount) && currency === "USD" ? Math.round(amount * 1e6) : null;
}
