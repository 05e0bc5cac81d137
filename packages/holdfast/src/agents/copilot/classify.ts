import type { FailureCause } from "../../ports/agent.ts";
import type { AgentExit } from "../agent-process.ts";
import { causeOfAnswer, causeOfStatus, causeOfWords, sharedHint } from "../frame/cause-of-status.ts";
import type { CliEnd, CliFailure } from "../frame/dialect.ts";
import type { CopilotError, CopilotState } from "./reader.ts";

export function classifyCopilot(params: {
  readonly state: CopilotState;
  readonly exit: Pick<AgentExit, "kind" | "code" | "stderr">;
  readonly resumes: boolean;
}): CliEnd {
  const { state, exit, resumes } = params;
  const isFirst = resumes && !state.hasActed;
  if (state.error !== null) return { kind: "failed", ...failureOf(state.error, state.refused, isFirst) };
  if (state.exitCode === null) return withoutResult(state, exit, isFirst);
  if (state.denied.size > 0)
    return { kind: "failed", ...failure("permission_denied", `not allowed to use ${[...state.denied].join(", ")}`) };
  // Its own words in place of an answer, and no failure by its own account.
  if (state.exitCode === 0 && /^The model returned no content because .*blocked by content filtering/.test(state.text))
    return { kind: "failed", ...failure("refusal", state.text) };
  if (state.exitCode === 0) return { kind: "completed", text: state.text };
  return { kind: "failed", ...failure("crash", `its result is ${state.exitCode}`) };
}

/** What it finds wrong before it begins has words only. */
function withoutResult(
  { refused }: CopilotState,
  { kind, code, stderr }: Pick<AgentExit, "kind" | "code" | "stderr">,
  isFirst: boolean,
): CliEnd {
  if (refused !== null) return { kind: "waiting", ...failureOf(refused, null, isFirst) };
  if (kind !== "exited" || code === 0) return { kind: "open" };
  const [, words = ""] = /^(?:Error: )?(.+)/m.exec(stderr) ?? [];
  if (/No session, task, or name matched/.test(stderr)) return { kind: "failed", ...failure("session_lost", words) };
  if (/No authentication information|not (?:logged in|authenticated)/i.test(stderr))
    return { kind: "failed", ...failure("auth", words) };
  return /model .*(?:not available|not found)/i.test(stderr)
    ? { kind: "failed", ...failure("missing", words) }
    : { kind: "open" };
}

function failureOf(error: CopilotError, refused: CopilotError | null, isFirst: boolean): CliFailure {
  const words = `${error.message} ${refused?.message ?? ""}`;
  const status = error.status ?? refused?.status ?? null;
  const cause =
    causeOfAnswer(words) ??
    CAUSES[error.type] ??
    causeOfWords(words) ??
    causeOfStatus(status) ??
    (status === 400 && isFirst ? "session_lost" : "crash");
  return failure(cause, error.message || "failed without a word");
}

const CAUSES: Readonly<Record<string, FailureCause>> = {
  authentication: "auth",
  authorization: "auth",
  quota: "billing",
  rate_limit: "rate_limit",
  context_limit: "context_too_long",
};

function failure(cause: FailureCause, words: string): CliFailure {
  return {
    cause,
    message: `Copilot CLI: ${words.slice(0, 500)}`,
    hint: HINTS[cause] ?? sharedHint(cause, "copilot"),
    until: null,
  };
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Run `copilot login`, or set COPILOT_GITHUB_TOKEN.",
  billing: "The plan's requests are used up: wait for the next month, or allow more in the account's settings.",
  missing: "Choose a model that the account may use: copilot:MODEL, or copilot for its default.",
  permission_denied: "Run with --yolo, or allow the tool in Copilot CLI's settings.",
};
