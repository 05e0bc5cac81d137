import { asRecord, asText, type JsonRecord } from "../../core/record.ts";
import type { FailureCause } from "../../ports/agent.ts";
import type { AgentExit } from "../agent-process.ts";
import { causeOfStatus, causeOfWords, retryTime } from "../frame/cause-of-status.ts";
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
  if (state.error !== null) return failedWith(state.error, params);
  if (params.resumes && exit.kind === "exited" && exit.code !== 0 && /Session not found/.test(exit.stderr))
    return failure("session_lost", "the session is not there");
  if (state.reason === null) return { kind: "open" };
  if (state.denied.size > 0) return failure("permission_denied", `not allowed to use ${[...state.denied].join(", ")}`);
  if (state.reason === "stop") return { kind: "completed", text: state.text };
  return failure("crash", `stopped in the middle: ${state.reason}`);
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
): CliEnd {
  const { until = null, hint = HINTS[cause] ?? null } = more;
  return { kind: "failed", cause, message: `opencode: ${words.slice(0, 500)}`, hint, until };
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Run `opencode auth login`, or set the provider's key.",
  billing: "Pay the provider, or use another key.",
  missing: "Choose a model that `opencode models` names: opencode:PROVIDER/MODEL.",
  permission_denied: "Run with --yolo, or allow the tool in opencode.json.",
};
