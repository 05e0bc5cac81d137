import type { FailureCause } from "../../ports/agent.ts";
import type { AgentExit } from "../agent-process.ts";
import { causeOfAnswer, causeOfStatus, causeOfWords, sharedHint } from "../frame/cause-of-status.ts";
import type { CliEnd } from "../frame/dialect.ts";
import type { PiState } from "./reader.ts";

/** It ends with 0 whatever came of it: how its last message ended decides. */
export function classifyPi(params: {
  readonly state: PiState;
  readonly exit: Pick<AgentExit, "kind" | "code" | "stderr">;
  readonly resumes: boolean;
  readonly yolo: boolean;
}): CliEnd {
  const { state, exit, resumes, yolo } = params;
  const { last } = state;
  if (last === null) return withoutMessage(exit);
  if (last.stop === "error") return failure(causeOf(last.error, resumes && !state.hasActed), last.error || "failed");
  if (!state.isOver) return { kind: "open" };
  if (!yolo && state.absent.size > 0)
    return failure("permission_denied", `not allowed to use ${[...state.absent].join(", ")}`);
  // It takes an answer that it cannot read for an empty one: a page of a proxy, a stream without events.
  const spent = (state.spent?.input ?? 0) + (state.spent?.output ?? 0);
  if (last.stop === "stop" && last.text === "" && spent === 0 && !state.hasActed)
    return failure("network", "the provider's answer was empty");
  if (last.stop === "stop") return { kind: "completed", text: last.text };
  return failure("crash", `stopped in the middle: ${last.stop}`);
}

/** The message is the status, and the provider's answer behind it. */
function causeOf(error: string, isFirst: boolean): FailureCause {
  const status = /^(\d{3})\b/.exec(error)?.[1];
  const code = status === undefined ? null : Number(status);
  return (
    causeOfAnswer(error) ??
    causeOfWords(error) ??
    causeOfStatus(code) ??
    (code === 400 && isFirst ? "session_lost" : "crash")
  );
}

/** What it finds wrong before it begins has words only. */
function withoutMessage({ kind, code, stderr }: Pick<AgentExit, "kind" | "code" | "stderr">): CliEnd {
  if (kind !== "exited" || code === 0) return { kind: "open" };
  const [, words = ""] = /^(?:Error: )?(.+)/m.exec(stderr) ?? [];
  if (/No session found/.test(stderr)) return failure("session_lost", words);
  if (/Model .*not found/.test(stderr)) return failure("missing", words);
  return /No API key|No models available/.test(stderr) ? failure("auth", words) : { kind: "open" };
}

function failure(cause: FailureCause, words: string): CliEnd {
  return {
    kind: "failed",
    cause,
    message: `pi: ${words.slice(0, 500)}`,
    hint: HINTS[cause] ?? sharedHint(cause, "pi"),
    until: null,
  };
}

const HINTS: Partial<Readonly<Record<FailureCause, string>>> = {
  auth: "Run `pi` once by hand and /login, or set the provider's key.",
  billing: "Pay the provider, or use another key.",
  missing: "Choose a model that `pi --list-models` names: pi:PROVIDER/MODEL.",
  permission_denied: "Run with --yolo: without it pi has no shell.",
};
