import type { FailureCause } from "../../ports/agent.ts";
import { asRecord, asText } from "../../core/record.ts";
import { causeOfAnswer, sharedHint } from "../frame/cause-of-status.ts";
import type { CliEnd, CliFailure } from "../frame/dialect.ts";
import type { CodexState } from "./reader.ts";
import { resetTime, retryTime } from "./reset-time.ts";

/** What the turn came to. Codex tells failures in words alone, some with a status in them, some with the provider's answer as JSON. */
export function classifyCodex(params: {
  readonly state: CodexState;
  readonly stderr: string;
  readonly resumes: boolean;
  /** An answer of the model came whole. */
  readonly answered: boolean;
  readonly now: number;
}): CliEnd {
  const { state, stderr } = params;
  switch (state.end) {
    case "completed":
      return withoutDenials(state, stderr);
    case "failed":
      return { kind: "failed", ...failureOf(state.trouble ?? "", params) };
    case "open":
      if (state.trouble !== null) return { kind: "waiting", ...failureOf(state.trouble, params) };
      return beforeStart(stderr);
  }
}

/** What was refused does not stand in the events: the model was told, and the log. */
function withoutDenials({ text }: CodexState, stderr: string): CliEnd {
  const denial = /tools::router: error=(.*(?:rejected by user approval settings|escalated permissions).*)/.exec(
    stderr,
  )?.[1];
  if (denial === undefined) return { kind: "completed", text };
  const message = `Codex was not allowed to act: ${denial}`;
  return { kind: "failed", cause: "permission_denied", message, hint: HINTS.permission_denied ?? null, until: null };
}

function beforeStart(stderr: string): CliEnd {
  const tooLong = /turn\/start failed: (.*?)(?: \(code|,? data:).*"input_too_large"/.exec(stderr)?.[1];
  if (tooLong !== undefined)
    return { kind: "failed", cause: "context_too_long", message: `Codex: ${tooLong}`, hint: TOO_LONG, until: null };
  const refusal = /thread\/resume failed: (.*)/.exec(stderr)?.[1];
  // Another process still writes to it: that passes, and a fresh session beside it would be a second agent.
  if (refusal === undefined || /active writer/.test(refusal)) return { kind: "open" };
  return { kind: "failed", cause: "session_lost", message: `Codex: ${refusal}`, hint: null, until: null };
}

const TOO_LONG = sharedHint("context_too_long", "codex");

function failureOf(
  text: string,
  params: {
    readonly stderr: string;
    readonly resumes: boolean;
    readonly answered: boolean;
    readonly now: number;
  },
): CliFailure {
  const cause = causeOf(text, params);
  const at = cause === "rate_limit" ? (resetTime(text, params.now) ?? retryTime(params.stderr)) : null;
  const until = at === null ? null : new Date(at).toISOString();
  const message = `Codex: ${(wordsOf(text) || "failed without a word").slice(0, 500)}`;
  return { cause, message, hint: HINTS[cause] ?? sharedHint(cause, "codex"), until };
}

function causeOf(text: string, params: { readonly resumes: boolean; readonly answered: boolean }): FailureCause {
  const answer = causeOfAnswer(text);
  if (answer !== null) return answer;
  for (const [words, cause] of WORDS) if (words.test(text)) return cause;
  const status = Number(/\bstatus:? (\d{3})\b/.exec(text)?.[1] ?? Number.NaN);
  const byStatus = STATUSES[status] ?? (status >= 500 ? "overload" : null);
  if (byStatus !== null) return byStatus;
  // The first request of a session that is gone on with: when the provider finds it wrong, its history is.
  const isRefusal = errorOf(text) !== null || status === 400;
  return isRefusal && params.resumes && !params.answered ? "session_lost" : "crash";
}

/** In this order: "Reconnecting… (stream disconnected: …)" may hold any of the later ones. */
const WORDS: readonly (readonly [RegExp, FailureCause])[] = [
  [/context_length_exceeded|exceeds the context window|ran out of room in the model.s context/i, "context_too_long"],
  [/hit your usage limit|usage_limit_reached/i, "rate_limit"],
  [/insufficient_quota|quota exceeded|upgrade to plus|out of credits/i, "billing"],
  [/no tool (?:output|call) found/i, "session_lost"],
  [/missing environment variable|not logged in|invalid_api_key|log out and sign in|refresh token/i, "auth"],
  [/model_not_found|the model .* does not exist|not supported when using codex/i, "missing"],
  [/rate limit|last status: 429/i, "rate_limit"],
  [/high demand|at capacity|overloaded|internal server error/i, "overload"],
  [/stream disconnected|waiting for network|connection failed|error sending request|timed? ?out|dns error/i, "network"],
];

const STATUSES: Readonly<Record<number, FailureCause | undefined>> = {
  401: "auth",
  402: "billing",
  403: "auth",
  408: "network",
  429: "rate_limit",
};

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Log in with `codex login`, or set the key that ~/.codex/config.toml names.",
  billing: "Add credit to the OpenAI account, or log in with another one.",
  missing: "Choose a model that the account may use: codex:MODEL, or codex for its default.",
  permission_denied: "Run with --yolo, or allow it in ~/.codex/config.toml.",
};

/** The provider's answer, where the message is one. */
function errorOf(text: string): ReturnType<typeof asRecord> | null {
  try {
    const { error } = asRecord(JSON.parse(text));
    return error === undefined ? null : asRecord(error);
  } catch {
    return null;
  }
}

function wordsOf(text: string): string {
  const error = errorOf(text);
  return error === null ? text : asText(error["message"]) || text;
}
