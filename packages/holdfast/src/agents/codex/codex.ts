import type { Agent, AgentUsage } from "../../ports/agent.ts";
import { UNKNOWN_USAGE } from "../classify-exit.ts";
import { tokensUsed } from "../frame/tokens-used.ts";
import { createCliAgent, type CliAgentParams } from "../frame/cli-agent.ts";
import type { CliDialect } from "../frame/dialect.ts";
import { codexArgs, codexEnv } from "./argv.ts";
import { classifyCodex } from "./classify.ts";
import { findRollout, readAdded, sizeOf } from "./find-rollout.ts";
import { nativeBinary } from "./native-binary.ts";
import { probeCodex } from "./probe.ts";
import { NOTHING_READ, readCodexLine, type CodexState } from "./reader.ts";
import { sumOfAnswers, totalSoFar, type TokenCount } from "./token-count.ts";
import { codexSessions } from "./sessions.ts";
import { transcriptPlace } from "./transcript-place.ts";
import { sessionLost } from "../frame/session-lost.ts";

/** `codex:MODEL`: OpenAI Codex. */
export function createCodexAgent(params: CliAgentParams): Agent {
  return createCliAgent(CODEX, params);
}

interface Call {
  readonly read: CodexState;
  /** Of the session's file when the call began. */
  readonly bytesBefore: number;
  readonly totalBefore: TokenCount;
}

const INSTALL = "Install it: npm install -g @openai/codex, then log in with `codex login`.";

const CODEX: CliDialect<Call> = {
  name: "codex",
  title: "Codex",
  program: "codex",
  install: INSTALL,
  capabilities: {
    resume: true,
    forkAtMessage: false,
    chooseSession: false,
    usage: true,
    cost: false,
    structuredOutput: false,
  },
  sessions: codexSessions,
  // It is silent while the model thinks and while a command runs; its own limit for a silent stream is five minutes.
  idleMs: 15 * 60_000,
  native: (path) => [nativeBinary(path)],
  plan({ task, env, extra }) {
    const file = task.session === null ? null : findRollout(transcriptPlace({ session: task.session, env }));
    if (task.session !== null && file === null) return lost(task.session);
    return {
      kind: "start",
      args: codexArgs({ task, extra }),
      input: task.prompt,
      env: codexEnv(env),
      state: {
        read: NOTHING_READ,
        bytesBefore: file === null ? 0 : sizeOf(file),
        totalBefore: totalSoFar(file === null ? "" : readAdded(file, 0)),
      },
    };
  },
  read(state, line) {
    const step = readCodexLine(state.read, line);
    return { ...step, state: { ...state, read: step.state } };
  },
  end(state, exit, { task, now }) {
    const { read } = state;
    const answered = read.begun.size > 0 || read.text !== "";
    return classifyCodex({ state: read, stderr: exit.stderr, resumes: task.session !== null, answered, now: now() });
  },
  usage: (state, { env }) => usageOf(state, env),
  probe: (run) => probeCodex(run, INSTALL),
};

/**
 * Each answer has a record in the rollout, also of a call that was killed. The terminal event counts the whole thread, and forgets what
 * a killed call had taken: it only serves where there is no rollout to read.
 */
function usageOf(state: Call, env: Readonly<Record<string, string | undefined>>): AgentUsage {
  const { read, bytesBefore, totalBefore } = state;
  const file = read.session === null ? null : findRollout(transcriptPlace({ session: read.session, env }));
  const answers = file === null ? null : sumOfAnswers(readAdded(file, bytesBefore));
  if (answers !== null) return tokensUsed(answers);
  const { total } = read;
  if (total !== null) {
    const since = (now: number, before: number) => (now < before ? now : now - before);
    const input = since(total.input, totalBefore.input);
    const cached = since(total.cached, totalBefore.cached);
    return tokensUsed({ input, output: since(total.output, totalBefore.output), cached });
  }
  // Refused before any answer; of one that was cut off nobody knows what it took.
  return read.end === "failed" ? tokensUsed({ input: 0, output: 0 }) : UNKNOWN_USAGE;
}

function lost(session: string) {
  return sessionLost(`Codex has no rollout of session ${session}`);
}
