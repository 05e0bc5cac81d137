import type { FailureCause } from "../../ports/agent.ts";
import type { AgentExit } from "../agent-process.ts";
import { causeOfAnswer, causeOfStatus, causeOfWords, sharedHint } from "../frame/cause-of-status.ts";
import type { CliEnd, CliFailure } from "../frame/dialect.ts";
import type { QwenState } from "./reader.ts";
import type { QwenRefusal } from "./record.ts";

export function classifyQwen(params: {
  readonly state: QwenState;
  /** As its record has it. */
  readonly refused: QwenRefusal | null;
  readonly exit: Pick<AgentExit, "kind" | "code" | "stderr">;
  readonly resumes: boolean;
}): CliEnd {
  const { state, refused, exit, resumes } = params;
  const { result } = state;
  const isFirst = resumes && !state.hasActed;
  if (result === null) return withoutResult(refused, exit, isFirst);
  if (result.isError) {
    const words = wordsOf(result.error);
    return { kind: "failed", ...failure(causeOf(words, refused, isFirst), words) };
  }
  const denied = [...new Set(result.denied)];
  if (denied.length === 0) return { kind: "completed", text: result.text };
  return { kind: "failed", ...failure("permission_denied", `not allowed to use ${denied.join(", ")}`) };
}

function causeOf(words: string, refused: QwenRefusal | null, isFirst: boolean): FailureCause {
  // `[API Error: 401 …]`: the status is the first of the words, too.
  const said = /^(\d{3})\b/.exec(words)?.[1];
  const status = refused?.status ?? (said === undefined ? null : Number(said));
  const all = `${words} ${refused?.message ?? ""}`;
  if (/Context is too large/i.test(all)) return "context_too_long";
  return (
    causeOfAnswer(all) ??
    causeOfWords(all) ??
    causeOfStatus(status) ??
    (status === 400 && isFirst ? "session_lost" : "crash")
  );
}

function wordsOf(error: string): string {
  return /^\[API Error: (.*?)\]?$/s.exec(error)?.[1] ?? (error || "failed without a word");
}

/** It tries again in silence, which its record alone tells of. What it finds wrong before it begins has words only. */
function withoutResult(
  refused: QwenRefusal | null,
  { kind, code, stderr }: Pick<AgentExit, "kind" | "code" | "stderr">,
  isFirst: boolean,
): CliEnd {
  if (refused !== null)
    return { kind: "waiting", ...failure(causeOf(refused.message, refused, isFirst), refused.message) };
  if (kind !== "exited" || code === 0) return { kind: "open" };
  const lost = /^No saved session found.*/m.exec(stderr)?.[0];
  if (lost !== undefined) return { kind: "failed", ...failure("session_lost", lost) };
  const login = /^.*(?:No auth type|auth method|API[_ ]?KEY).*/im.exec(stderr)?.[0];
  return login === undefined ? { kind: "open" } : { kind: "failed", ...failure("auth", login) };
}

function failure(cause: FailureCause, words: string): CliFailure {
  return {
    cause,
    message: `Qwen Code: ${words.slice(0, 500)}`,
    hint: HINTS[cause] ?? sharedHint(cause, "qwen"),
    until: null,
  };
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Set OPENAI_API_KEY (with OPENAI_BASE_URL and OPENAI_MODEL), or run `qwen` once by hand and log in.",
  billing: "Pay the provider, or use another key.",
  missing: "Choose a model that the provider has: qwen:MODEL, or qwen for its default.",
  permission_denied: "Run with --yolo, or allow the tool in ~/.qwen/settings.json.",
};
