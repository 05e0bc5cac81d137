import type { JsonRecord } from "../../core/record.ts";
import type { AgentEvent, AgentOutcome, AgentTask } from "../../ports/agent.ts";
import { quietly, type AgentExit } from "../agent-process.ts";
import { UNKNOWN_USAGE } from "../classify-exit.ts";
import { judgeEnd } from "../frame/judge-end.ts";
import { waitingInLog } from "../opencode/classify.ts";
import { classifyQwen } from "../qwen/classify.ts";
import { NOTHING_READ } from "../qwen/reader.ts";
import { recordOf } from "../qwen/record.ts";
import { readRecord } from "../qwen/sessions.ts";
import { classifyAcp, type AcpEnd } from "./classify.ts";
import type { AcpListener } from "./converse.ts";
import { NOTHING_HEARD, readUpdate } from "./read-update.ts";
import { acpUsage } from "./usage.ts";

/** What the conversation told, and what it comes to. */
export function createCallRecord(params: {
  readonly task: AgentTask;
  /** What the program finds in its environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly line: string;
  /** Text or a tool call has come. */
  readonly onWork: (kind: "text" | "tool") => void;
}) {
  const { task, env, line, onWork } = params;
  const emit = quietly(task.onEvent);
  const denied: string[] = [];
  let state = NOTHING_HEARD;
  let costBefore: number | null = null;
  let answer: JsonRecord | null = null;
  let session = task.session;
  let agent = { name: "", title: line };
  let worked = false;
  /** The record of Qwen Code's session when the prompt was sent; null: it was not sent. */
  let before: string | null = null;
  const qwenRecord = (): string =>
    agent.name === "qwen-code" ? (readRecord({ session: session ?? "", cwd: task.cwd, env }) ?? "") : "";
  const tell = (event: AgentEvent): void => {
    if (event.kind === "text" || event.kind === "tool") {
      worked = true;
      onWork(event.kind);
    }
    emit(event);
  };
  const listener: AcpListener = {
    update(update, isOld) {
      const step = readUpdate(state, update);
      // What a loaded session tells again was said, and counted, by an earlier call. What it has cost by then is where this one begins.
      if (isOld) costBefore = step.state.cost ?? costBefore;
      state = isOld ? { ...NOTHING_HEARD, cost: step.state.cost } : step.state;
      if (!isOld) for (const event of step.events) tell(event);
    },
    session(id) {
      session = id;
      before = qwenRecord();
      tell({ kind: "session", id });
    },
    denied: (what) => void denied.push(what),
    agent: ({ name, title }) => void (agent = { name, title: title === "" ? line : title }),
    answer: (told) => void (answer = told),
  };
  const conclude = (params: {
    readonly end: AcpEnd | null;
    readonly exit: AgentExit;
    readonly now: number;
  }): AgentOutcome => {
    const { end, now } = params;
    const { text } = state;
    const { title } = agent;
    const resumes = task.session !== null;
    // Some make a failed request again in silence, and report why in a file or a log of their own.
    const refused = end === null && before !== null ? recordOf(qwenRecord(), before).refused : null;
    const judged = judgeEnd({
      end:
        refused !== null
          ? classifyQwen({ state: NOTHING_READ, refused, exit: params.exit, resumes })
          : end === null
            ? waitingInLog(params.exit.stderr)
            : classifyAcp({ end, title, text, denied, resumes, worked }),
      exit: exitOf(params.exit, { isOver: end !== null, isInterrupted: task.signal.aborted }),
      title,
      worked,
      now,
      task,
    });
    const usage = acpUsage({ answer, agent: agent.name, isNew: !resumes, costBefore, costNow: state.cost });
    const tokens = (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0);
    if (tokens > 0) emit({ kind: "usage", tokens });
    const spent = params.exit.kind === "not_started" ? UNKNOWN_USAGE : usage;
    return { ...judged, session, usage: spent };
  };
  return { listener, conclude };
}

/** Such a program serves until it is sent away: once it has answered, how it leaves says nothing. */
function exitOf(
  exit: AgentExit,
  { isOver, isInterrupted }: { readonly isOver: boolean; readonly isInterrupted: boolean },
): AgentExit {
  if (exit.kind === "not_started" || exit.kind === "timed_out" || exit.kind === "idle")
    return isOver ? left(exit) : exit;
  if (isInterrupted) return { ...exit, kind: "interrupted" };
  // Ended by us, and not because the run was: it was sent away and did not leave.
  return isOver || exit.kind === "interrupted" ? left(exit) : exit;
}

function left(exit: AgentExit): AgentExit {
  return { ...exit, kind: "exited", code: 0, signal: null };
}
