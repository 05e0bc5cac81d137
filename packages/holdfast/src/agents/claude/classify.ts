import { causeOfAnswer, sharedHint } from "../frame/cause-of-status.ts";
import type { CliEnd } from "../frame/dialect.ts";
import type { FailureCause } from "../../ports/agent.ts";
import { REFUSED, type ClaudeResult, type ClaudeState } from "./reader.ts";

/** What the last result comes to. Judged by its fields: the words are for people, and the subtype says "success" for a refused request. */
export function classifyClaude(state: ClaudeState, params: { readonly resumes: boolean }): CliEnd {
  const { result } = state;
  if (result === null) return { kind: "open" };
  if (!result.isError && result.subtype === "success") return withoutDenials(state, result);
  const cause = causeOf(state, result, params.resumes);
  const until = cause === "rate_limit" ? untilOf(state.resetsAt) : null;
  return {
    kind: "failed",
    cause,
    message: messageOf(result),
    hint: HINTS[cause] ?? sharedHint(cause, "claude"),
    until,
  };
}

function withoutDenials(state: ClaudeState, { text }: ClaudeResult): CliEnd {
  if (state.denied.size === 0) return { kind: "completed", text };
  const message = `Claude Code was not allowed to use ${[...state.denied].join(", ")}`;
  return { kind: "failed", cause: "permission_denied", message, hint: HINTS.permission_denied ?? null, until: null };
}

function causeOf(state: ClaudeState, result: ClaudeResult, resumes: boolean): FailureCause {
  const { status, apiError, terminalReason } = result;
  if (terminalReason === "prompt_too_long" || status === 413) return "context_too_long";
  if (state.error === REFUSED) return "refusal";
  const answer = causeOfAnswer(messageOf(result));
  if (answer !== null) return answer;
  if (apiError === "tool_history_mismatch") return "session_lost";
  if (apiError === "connection_failed") return "network";
  const byWord = ERRORS[state.error ?? ""];
  if (byWord !== undefined && status === null) return byWord;
  if (status !== null) return causeOfStatus(status) ?? byWord ?? refusal(state, resumes);
  if (terminalReason.startsWith("aborted")) return "killed";
  // It had not begun: the session, or the message to go on from, is not known.
  if (resumes && result.subtype === "error_during_execution" && result.turns === 0) return "session_lost";
  return terminalReason === "api_error" ? "network" : "crash";
}

const ERRORS: Readonly<Record<string, FailureCause | undefined>> = {
  authentication_failed: "auth",
  oauth_org_not_allowed: "auth",
  billing_error: "billing",
  rate_limit: "rate_limit",
  overloaded: "overload",
  model_not_found: "missing",
};

function causeOfStatus(status: number): FailureCause | null {
  if (status === 401 || status === 403) return "auth";
  if (status === 402) return "billing";
  if (status === 408) return "network";
  if (status === 429) return "rate_limit";
  return status >= 500 ? "overload" : null;
}

/** A request that the provider finds wrong. When it is the first of a session that is gone on with, its history is what is wrong. */
function refusal(state: ClaudeState, resumes: boolean): FailureCause {
  return resumes && state.spent.input === 0 && state.counted.size === 0 ? "session_lost" : "crash";
}

function untilOf(resetsAt: number | null): string | null {
  const at = (resetsAt ?? Number.NaN) * 1000;
  return at > 0 && at < MAX_DATE ? new Date(at).toISOString() : null;
}

/** Beyond it there is no ISO 8601 of four-digit years. */
const MAX_DATE = Date.UTC(9999, 11, 31);

function messageOf(result: ClaudeResult): string {
  const said = result.text === "" ? result.errors.join("; ") : result.text;
  return said === "" ? `Claude Code ended with ${result.subtype}` : `Claude Code: ${said.slice(0, 500)}`;
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Log in with `claude auth login`, or set ANTHROPIC_API_KEY.",
  billing: "Add credit to the Anthropic account, or log in with another one.",
  missing: "Choose a model that the account may use: claude:MODEL, or claude for its default.",
  permission_denied: "Run with --yolo, or allow the tool in the repository's .claude/settings.json.",
};
