import { asRecord, asRecords, asText, type JsonRecord } from "../../core/record.ts";
import type { FailureCause } from "../../ports/agent.ts";
import type { AgentExit } from "../agent-process.ts";
import { causeOfAnswer, sharedHint } from "../frame/cause-of-status.ts";
import type { CliEnd } from "../frame/dialect.ts";
import type { GeminiResult, GeminiState } from "./reader.ts";
import { resetTime } from "./reset-time.ts";

/** What the result comes to: by the provider's own answer where the message has it, else by the status in the exit code. */
export function classifyGemini(params: {
  readonly state: GeminiState;
  readonly exit: Pick<AgentExit, "kind" | "code" | "stderr">;
  readonly resumes: boolean;
  readonly now: number;
}): CliEnd {
  const { state, exit } = params;
  const { result } = state;
  if (result === null) return withoutResult(exit, params.resumes);
  if (!result.isError) return withoutDenials(state);
  const { cause, until } = causeOf(result, params);
  const words = wordsOf(result.message) || "failed without a word";
  return {
    kind: "failed",
    cause,
    message: `Gemini CLI: ${words.slice(0, 500)}`,
    hint: HINTS[cause] ?? sharedHint(cause, "gemini"),
    until,
  };
}

function withoutDenials({ text, denied }: GeminiState): CliEnd {
  if (denied.size === 0) return { kind: "completed", text };
  const message = `Gemini CLI was not allowed to use ${[...denied].join(", ")}`;
  return { kind: "failed", cause: "permission_denied", message, hint: HINTS.permission_denied ?? null, until: null };
}

/** Exit codes of its own for what it finds wrong before it begins. */
function withoutResult({ kind, code, stderr }: Pick<AgentExit, "kind" | "code" | "stderr">, resumes: boolean): CliEnd {
  if (kind !== "exited") return { kind: "open" };
  const cause =
    code === 41 ? "auth" : code === 42 && resumes && /resuming session/i.test(stderr) ? "session_lost" : null;
  if (cause === null) return { kind: "open" };
  const said = stderr.split("\n").filter((line) => line.trim() !== "" && !/^(?:YOLO mode|Warning:|Ripgrep)/.test(line));
  const message = `Gemini CLI: ${said.slice(-3).join(" ").slice(0, 500)}`;
  return { kind: "failed", cause, message, hint: HINTS[cause] ?? null, until: null };
}

function causeOf(
  { message }: GeminiResult,
  params: {
    readonly state: GeminiState;
    readonly exit: Pick<AgentExit, "code">;
    readonly resumes: boolean;
    readonly now: number;
  },
): { readonly cause: FailureCause; readonly until: string | null } {
  const error = errorOf(message);
  const code = error["code"];
  const status = typeof code === "number" ? code : statusOf(params.exit.code);
  const at = status === 429 ? resetTime(message, params.now) : null;
  return {
    cause: causeOfAnswer(message) ?? byWords(message, error) ?? byStatus(status) ?? otherwise(status, params),
    until: at === null ? null : new Date(at).toISOString(),
  };
}

function byWords(message: string, error: JsonRecord): FailureCause | null {
  const reasons = asRecords(error["details"]).map((detail) => asText(detail["reason"]));
  if (reasons.includes("API_KEY_INVALID") || /API key (?:not valid|expired)/i.test(message)) return "auth";
  if (/exceeds the maximum number of tokens|context window will overflow/i.test(message)) return "context_too_long";
  if (/billing (?:to be|is not) enabled|credits are depleted/i.test(message)) return "billing";
  if (/models?\/?\S* is not found|model .*not found/i.test(message)) return "missing";
  // What breaks off in the middle of a line, a stream as well as a page that is not one.
  if (/Incomplete JSON segment|\bterminated\b|fetch failed|socket|ECONN|ENOTFOUND|ETIMEDOUT|network/i.test(message))
    return "network";
  return null;
}

function byStatus(status: number | null): FailureCause | null {
  if (status === 401 || status === 403) return "auth";
  if (status === 402) return "billing";
  if (status === 404) return "missing";
  if (status === 408) return "network";
  if (status === 413) return "context_too_long";
  if (status === 429) return "rate_limit";
  return status !== null && status >= 500 ? "overload" : null;
}

/** The first request of a session that is gone on with: when the provider finds it wrong, its history is. */
function otherwise(
  status: number | null,
  { state, resumes }: { readonly state: GeminiState; readonly resumes: boolean },
): FailureCause {
  return status === 400 && resumes && !state.hasActed ? "session_lost" : "crash";
}

/** It ends with the status of the answer that it could not do without, of which an exit code keeps the last eight bits. */
function statusOf(code: number | null): number | null {
  return STATUSES.find((status) => status % 256 === code) ?? null;
}

const STATUSES = [400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529];

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Set GEMINI_API_KEY, or run `gemini` once by hand and log in.",
  billing: "Enable billing for the Google project, or use another key.",
  missing: "Choose a model that the account may use: gemini:MODEL, or gemini for its default.",
  permission_denied: "Run with --yolo, or allow the tool in ~/.gemini/settings.json.",
};

/** `[API Error: …]`, where … is the provider's answer or words. */
function errorOf(message: string): JsonRecord {
  try {
    return asRecord(asRecord(JSON.parse(inBrackets(message)))["error"]);
  } catch {
    return {};
  }
}

function wordsOf(message: string): string {
  return asText(errorOf(message)["message"]) || inBrackets(message);
}

function inBrackets(message: string): string {
  return /^\[API Error: (.*?)\](?:\n|$)/s.exec(message)?.[1] ?? message;
}
