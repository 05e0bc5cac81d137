import { asRecord, asText, type JsonRecord } from "../../core/record.ts";
import type { FailureCause } from "../../ports/agent.ts";
import type { AgentExit } from "../agent-process.ts";
import { causeOfAnswer, causeOfStatus, causeOfWords, retryTime, sharedHint } from "../frame/cause-of-status.ts";
import type { CliEnd } from "../frame/dialect.ts";
import type { OpencodeState } from "./reader.ts";

/** There is no last event: a call is done when its last step has ended because the model had nothing more to do. */
export function classifyOpencode(params: {
  readonly state: OpencodeState;
  readonly exit: Pick<AgentExit, "kind" | "code" | "stderr">;
  readonly resumes: boolean;
  readonly now: number;
}): CliEnd {
  const { state, exit } = params;
  const waiting = waitingInLog(exit.stderr);
  // Ended because it summarized its history again and again, and the prompt stayed too long.
  if (exit.kind === "idle" && waiting.kind === "waiting" && waiting.cause === "context_too_long") return waiting;
  if (state.error !== null) return failedWith(state.error, params);
  if (params.resumes && exit.kind === "exited" && exit.code !== 0 && /Session not found/.test(exit.stderr))
    return failure("session_lost", "the session is not there");
  if (state.isEmpty) return { ...failure("network", "the provider's answers are empty"), kind: "waiting" };
  if (state.reason === null) return waiting;
  if (state.denied.size > 0) return failure("permission_denied", `not allowed to use ${[...state.denied].join(", ")}`);
  if (state.reason === "stop") return { kind: "completed", text: state.text };
  const cause = causeOfAnswer(state.reason) ?? "crash";
  return failure(cause, `stopped in the middle: ${state.reason}`);
}

/** A line of its log: a request failed, and will be made again. */
export const STREAM_ERROR = /message="stream error".* error\.error="((?:[^"\\]|\\.)*)"/;

/** OpenCode then summarizes its history and asks again, without end where that does not help. */
export function isOverflow(line: string): boolean {
  const words = STREAM_ERROR.exec(line)?.[1];
  return words !== undefined && causeOfWords(words) === "context_too_long";
}

/** It makes a failed request again for ever. What it waits for is the last failure in its log, which has the words and no status. */
export function waitingInLog(stderr: string): CliEnd {
  const line = stderr
    .split("\n")
    .toReversed()
    .find((one) => STREAM_ERROR.test(one));
  if (line === undefined) return { kind: "open" };
  const words = (STREAM_ERROR.exec(line)?.[1] ?? "").replaceAll('\\"', '"');
  const limited = /rate.?limit|too many requests|\b429\b|quota/i.test(words) ? "rate_limit" : null;
  const cause = causeOfAnswer(words) ?? limited ?? causeOfWords(words) ?? "overload";
  return { ...failure(cause, words), kind: "waiting" };
}

function failedWith(
  error: JsonRecord,
  { state, resumes, now }: { readonly state: OpencodeState; readonly resumes: boolean; readonly now: number },
): CliEnd {
  const data = asRecord(error["data"]);
  const name = asText(error["name"]);
  const words = asText(data["message"]) || name || "failed without a word";
  const status = typeof data["statusCode"] === "number" ? data["statusCode"] : null;
  const isHistory = status === 400 && resumes && !state.hasActed;
  const cause =
    CAUSES[name] ??
    causeOfAnswer(`${words} ${asText(data["responseBody"])}`) ??
    causeOfWords(`${words} ${asText(data["responseBody"])}`) ??
    causeOfStatus(status) ??
    (isHistory ? "session_lost" : "crash");
  const header = asText(asRecord(data["responseHeaders"])["retry-after"]);
  const until = cause === "rate_limit" || cause === "overload" ? retryTime(header, now) : null;
  // It says so of a model that it does not know, and of what else surprises it.
  const hint =
    name === "UnknownError" ? "See opencode's log; `opencode models` names the models that it knows." : undefined;
  return failure(cause, words, { until, ...(hint === undefined ? {} : { hint }) });
}

const CAUSES: Readonly<Record<string, FailureCause>> = {
  ProviderAuthError: "auth",
  ContextOverflowError: "context_too_long",
  MessageOutputLengthError: "context_too_long",
};

function failure(
  cause: FailureCause,
  words: string,
  more: { readonly until?: string | null; readonly hint?: string } = {},
): Extract<CliEnd, { kind: "failed" }> {
  const { until = null, hint = HINTS[cause] ?? sharedHint(cause, "opencode") } = more;
  return { kind: "failed", cause, message: `opencode: ${words.slice(0, 500)}`, hint, until };
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Run `opencode auth login`, or set the provider's key.",
  billing: "Pay the provider, or use another key.",
  missing: "Choose a model that `opencode models` names: opencode:PROVIDER/MODEL.",
  permission_denied: "Run with --yolo, or allow the tool in opencode.json.",
};
