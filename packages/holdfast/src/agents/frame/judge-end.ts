import type { AgentOutcome, AgentTask, FailureCause } from "../../ports/agent.ts";
import type { AgentExit } from "../agent-process.ts";
import { classifyExit } from "../classify-exit.ts";
import type { CliEnd, CliFailure } from "./dialect.ts";

type Judged = Pick<Extract<AgentOutcome, { kind: "completed" }>, "kind" | "text"> | Omit<Failed, "session" | "usage">;
type Failed = Extract<AgentOutcome, { kind: "failed" }>;

/**
 * Success is a terminal event without an error *and* exit 0 *and* nothing left running. What we ended ourselves is judged by why; else what the
 * agent says about its failure goes before what its exit code may mean.
 */
export function judgeEnd(params: {
  readonly end: CliEnd;
  readonly exit: AgentExit;
  readonly title: string;
  /** Text or a tool call was seen. */
  readonly worked: boolean;
  readonly now: number;
  readonly task: Pick<AgentTask, "timeoutMs" | "idleMs">;
}): Judged {
  const { end, exit, title, worked, now } = params;
  const { timeoutMs, idleMs } = params.task;
  const ended = classifyExit({ exit, name: title, now, timeoutMs, idleMs });
  const byItself = exit.survivors === null && exit.kind === "exited";
  const isInstant = (byItself || exit.kind === "signalled") && !worked && exit.milliseconds < INSTANT_MS;
  const fail = (failure: CliFailure): Judged => {
    const { cause, message, hint, until } = failure;
    return { kind: "failed", cause, message, hint, until, instant: isInstant && !SAME_AGAIN.includes(cause) };
  };
  if (exit.kind === "not_started" && ended !== null) return ended;
  const waitsFor = end.kind === "waiting" && exit.survivors === null && exit.kind === "idle" ? end : null;
  if (ended !== null && !byItself) return fail(waitsFor ?? ended);
  switch (end.kind) {
    case "failed":
      return fail(end);
    case "open":
    case "waiting":
      return fail(ended ?? { cause: "crash", message: `${title} ended without a result`, hint: null, until: null });
    case "completed":
      return ended === null ? { kind: "completed", text: end.text } : fail(ended);
  }
}

/** The same call would come to the same. */
const SAME_AGAIN: readonly FailureCause[] = ["context_too_long", "permission_denied"];
/** These programs take a second or two to say that they cannot begin. */
const INSTANT_MS = 10_000;
