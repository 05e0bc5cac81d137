import { asRecord, asText, type JsonRecord } from "../../core/record.ts";
import { parseRecord } from "../frame/parse-record.ts";

/** What a session's file says about the requests of one call, or of all. */
export interface QwenRecord {
  /** Of each answer, side calls included, by line. */
  readonly answers: ReadonlyMap<string, TokenCount>;
  /** The last request that was refused, unless an answer followed it. */
  readonly refused: QwenRefusal | null;
}

/** Input holds what a cache gave. */
export interface TokenCount {
  readonly input: number;
  readonly output: number;
  readonly cached: number;
}

export interface QwenRefusal {
  readonly status: number | null;
  readonly message: string;
}

/** `before`: as it was when the call began. A session's file only grows. */
export function recordOf(text: string, before = ""): QwenRecord {
  const answers = new Map<string, TokenCount>();
  let refused: QwenRefusal | null = null;
  for (const line of (text.startsWith(before) ? text.slice(before.length) : text).split("\n")) {
    if (!line.includes('"ui_telemetry"')) continue;
    const entry = parseRecord(line);
    const event = asRecord(asRecord(entry["systemPayload"])["uiEvent"]);
    const name = asText(event["event.name"]);
    // What it does beside the work is tried once, and nobody waits for it.
    const isMain = asText(event["subagent_name"]) === "";
    const tokens = name.endsWith(".api_response") ? tokensOf(event) : null;
    if (tokens !== null) answers.set(asText(entry["uuid"]), tokens);
    if (tokens !== null && isMain) refused = null;
    if (name.endsWith(".api_error") && isMain) refused = refusalOf(event);
  }
  return { answers, refused };
}

/** Thoughts are told apart from answers, or not at all; the total has both. */
function tokensOf(event: JsonRecord): TokenCount | null {
  const { input_token_count: input, total_token_count: total, cached_content_token_count: cached } = event;
  if (typeof input !== "number" || typeof total !== "number" || total < input) return null;
  return { input, output: total - input, cached: typeof cached === "number" ? cached : 0 };
}

function refusalOf(event: JsonRecord): QwenRefusal {
  const status = event["status_code"];
  return { status: typeof status === "number" ? status : null, message: asText(event["error_message"]) };
}

export function sumOf({ answers }: QwenRecord): TokenCount {
  const sum = (of: keyof TokenCount) => [...answers.values()].reduce((total, tokens) => total + tokens[of], 0);
  return { input: sum("input"), output: sum("output"), cached: sum("cached") };
}
