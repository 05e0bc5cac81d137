import { asRecord, asText, type JsonRecord } from "../../core/record.ts";
import type { FailureCause } from "../../ports/agent.ts";
import { causeOfAnswer, causeOfStatus, causeOfWords, sharedHint } from "../frame/cause-of-status.ts";
import type { CliEnd } from "../frame/dialect.ts";

/** An error that an agent answered a request with. */
export interface AcpError {
  readonly code: number | null;
  /** With what the agent adds in the error's data. */
  readonly message: string;
  /** The HTTP status in the error's data. */
  readonly status?: number | null;
  /** The error is the provider's answer, and its message holds the provider's words alone. */
  readonly isProvider?: boolean;
}

/** How the conversation ended. */
export type AcpEnd =
  | { readonly kind: "answered"; readonly stopReason: string }
  /** The prompt was refused, or what comes before it. */
  | { readonly kind: "refused"; readonly at: "begin" | "session" | "prompt"; readonly error: AcpError }
  /** It speaks, but cannot do what is needed. */
  | { readonly kind: "unable"; readonly cause: FailureCause; readonly message: string };

/** null: the program ended, or was ended, before it had answered. */
export function classifyAcp(params: {
  readonly end: AcpEnd | null;
  readonly title: string;
  readonly text: string;
  readonly denied: readonly string[];
  readonly resumes: boolean;
  /** Text or a tool call was seen. */
  readonly worked: boolean;
}): CliEnd {
  const { end, title } = params;
  if (end === null) return { kind: "open" };
  switch (end.kind) {
    case "answered":
      return stopped(end.stopReason, params);
    case "unable":
      return fail(end.cause, `${title} ${end.message}`);
    case "refused":
      return fail(causeOf(end, params), `${title}: ${wordsOf(end.error).slice(0, 500)}`);
  }
}

function stopped(
  reason: string,
  {
    title,
    text,
    denied,
    worked,
  }: { readonly title: string; readonly text: string; readonly denied: readonly string[]; readonly worked: boolean },
): CliEnd {
  if (denied.length > 0)
    return fail("permission_denied", `${title} was not allowed: ${denied.join("; ").slice(0, 500)}`);
  switch (reason) {
    case "end_turn":
      if (title.startsWith("Copilot")) {
        const failed = copilotFailure(text);
        if (failed !== null) return fail(failed.cause, `${title}: ${failed.words.slice(0, 500)}`);
      }
      // A model that declined leaves no trace but this, where the agent does not report it.
      if (text === "" && !worked) return fail("crash", `${title} ended its turn without an answer`);
      return { kind: "completed", text };
    case "max_tokens":
      return fail("context_too_long", `${title} stopped: the model has no tokens left for an answer`);
    case "max_turn_requests":
      return fail("crash", `${title} stopped: it may make no more requests in one turn`);
    case "refusal":
      return fail("refusal", `${title}: the model declined this prompt`);
    case "cancelled":
      return fail("killed", `${title} was cancelled, and not by this run`);
    default:
      return fail("crash", `${title} stopped for a reason that is not known: ${reason}`);
  }
}

/** Copilot CLI ends its turn as if all were well, with the failure as its words. */
function copilotFailure(text: string): { readonly cause: FailureCause; readonly words: string } | null {
  const words = /(?:^|\n|\.\.\.)Error: ([^]+)$/.exec(text)?.[1];
  if (words === undefined) return null;
  const status = /\(HTTP (\d{3})\)|(?:^|Last error: )(\d{3})\b/.exec(words);
  const byStatus = causeOfStatus(status === null ? null : Number(status[1] ?? status[2]));
  return { cause: causeOfAnswer(words) ?? byStatus ?? causeOfWords(words) ?? "crash", words };
}

function causeOf(
  { at, error }: Extract<AcpEnd, { kind: "refused" }>,
  { resumes, worked }: { readonly resumes: boolean; readonly worked: boolean },
): FailureCause {
  const known = causeOfAnswer(error.message) ?? byCode(error) ?? byWords(error);
  if (at === "session" && resumes) return known === "auth" ? "auth" : "session_lost";
  // The first request with an old history: when the provider finds it wrong, its history is.
  return known ?? (at === "prompt" && resumes && !worked && statusOf(error) === 400 ? "session_lost" : "crash");
}

const AUTH_REQUIRED = -32_000;

function byCode(error: AcpError): FailureCause | null {
  if (error.code === AUTH_REQUIRED) return "auth";
  const status = statusOf(error);
  const cause = causeOfStatus(status);
  // Gemini CLI calls everything 500 that has no status of its own.
  return status === null || status === 404 || status >= 500 ? (byWords(error) ?? cause) : cause;
}

/** Where the code says nothing: what providers and runtimes say word for word. */
function byWords(error: AcpError): FailureCause | null {
  const { message } = error;
  if (/model\S* .*(?:is not found|not found|does not exist)/i.test(message)) return "missing";
  if (/rate.?limit|too many requests|quota exceeded/i.test(message)) return "rate_limit";
  if (/overloaded/i.test(message)) return "overload";
  if (/maximum number of tokens/i.test(message)) return "context_too_long";
  if (AUTH.test(message)) return "auth";
  if (/Incomplete JSON segment/.test(message)) return "network";
  return causeOfWords(message) ?? (error.isProvider === true ? byProviderWords(wordsOf(error)) : null);
}

const AUTH =
  /(?:invalid|incorrect|expired) (?:x-)?api[ _-]?key|api[ _-]?key (?:not valid|is invalid|expired)|token (?:has |is )?expired|unauthori[sz]ed|unauthenticated|authentication (?:failed|error|required)|log ?in again/i;

/** Words that mean this only in a provider's answer: a file system denies permission too. */
function byProviderWords(words: string): FailureCause | null {
  if (/permission denied|forbidden|access denied|not authori[sz]ed/i.test(words)) return "auth";
  return /internal (?:server )?error|service unavailable|bad gateway/i.test(words) ? "overload" : null;
}

/** An HTTP status as the code, in the error's data, in the provider's answer that the message is, or as the first of its words. */
function statusOf({ code, message, status = null }: AcpError): number | null {
  if (code !== null && isStatus(code)) return code;
  if (status !== null && isStatus(status)) return status;
  const answered = providerError(message)["code"];
  if (typeof answered === "number") return answered;
  const first = /^(?:Internal error: )?(?:\[?API Error: )?(\d{3})\b/.exec(message)?.[1];
  return first !== undefined && isStatus(Number(first)) ? Number(first) : null;
}

function isStatus(code: number): boolean {
  return code >= 400 && code < 600;
}

function wordsOf({ message }: AcpError): string {
  return asText(providerError(message)["message"]) || message || "failed without a word";
}

function providerError(message: string): JsonRecord {
  try {
    return asRecord(asRecord(JSON.parse(message))["error"]);
  } catch {
    return {};
  }
}

function fail(cause: FailureCause, message: string): CliEnd {
  return { kind: "failed", cause, message, hint: HINTS[cause] ?? sharedHint(cause, "acp"), until: null };
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Log in with the agent's own program, by hand, and try again.",
  missing: "Choose another model in the agent's own settings, or by a flag of its command line.",
  permission_denied: "Run with --yolo, or allow it in the agent's own settings.",
};
