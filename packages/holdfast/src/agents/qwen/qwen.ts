import { existsSync } from "node:fs";
import type { Agent, AgentUsage } from "../../ports/agent.ts";
import { UNKNOWN_USAGE } from "../classify-exit.ts";
import { createCliAgent, type CliAgentParams } from "../frame/cli-agent.ts";
import type { CliCall, CliDialect } from "../frame/dialect.ts";
import { probeVersion } from "../frame/probe-version.ts";
import { tokensUsed } from "../frame/tokens-used.ts";
import { QWEN_ENV, qwenArgs } from "./argv.ts";
import { classifyQwen } from "./classify.ts";
import { innerProgram } from "./inner-program.ts";
import { NOTHING_READ, readQwenLine, type QwenState } from "./reader.ts";
import { recordOf, sumOf, type QwenRecord } from "./record.ts";
import { qwenSessions, readRecord, sessionFile } from "./sessions.ts";
import { sessionLost } from "../frame/session-lost.ts";

/** `qwen:MODEL`: Qwen Code. */
export function createQwenAgent(params: CliAgentParams): Agent {
  return createCliAgent(QWEN, params);
}

interface Call {
  readonly read: QwenState;
  /** The session's file when the call began. */
  readonly before: string;
}

const INSTALL =
  "Install it: npm install -g @qwen-code/qwen-code, then run `qwen` once and log in, or set OPENAI_API_KEY.";

const QWEN: CliDialect<Call> = {
  name: "qwen",
  title: "Qwen Code",
  program: "qwen",
  install: INSTALL,
  capabilities: {
    resume: true,
    forkAtMessage: false,
    chooseSession: true,
    usage: true,
    cost: false,
    structuredOutput: false,
  },
  sessions: qwenSessions,
  // It is silent while a command runs, and while it tries again.
  idleMs: 15 * 60_000,
  environment: QWEN_ENV,
  native: innerProgram,
  sessionIds: "5",
  isTaken: (session, { task, env }) => existsSync(sessionFile({ session, cwd: task.cwd, env })),
  plan(call) {
    const { task, session } = call;
    if (session === null) throw new TypeError("Qwen Code's session is chosen before it starts");
    const text = textOf(call);
    if (task.session !== null && text === null) return lost(task.session);
    const state = { read: NOTHING_READ, before: text ?? "" };
    return { kind: "start", args: qwenArgs({ task, session, extra: call.extra }), input: task.prompt, env: {}, state };
  },
  read(state, line) {
    const step = readQwenLine(state.read, line);
    return { ...step, state: { ...state, read: step.state } };
  },
  end(state, exit, call) {
    const { refused } = ownRecord(state, call);
    return classifyQwen({ state: state.read, refused, exit, resumes: call.task.session !== null });
  },
  usage: usageOf,
  probe: (run) => probeVersion(run, { program: "qwen", install: INSTALL }),
};

/** Its result leaves out what killed calls have taken; its record has each answer. */
function usageOf(state: Call, call: CliCall): AgentUsage {
  const own = ownRecord(state, call);
  return own.answers.size === 0 ? UNKNOWN_USAGE : tokensUsed(sumOf(own));
}

function ownRecord({ before }: Call, call: CliCall): QwenRecord {
  return recordOf(textOf(call) ?? "", before);
}

function textOf({ session, task, env }: CliCall): string | null {
  return readRecord({ session: session ?? "", cwd: task.cwd, env });
}

function lost(session: string) {
  return sessionLost(`Qwen Code has nothing of session ${session} for this worktree`);
}
