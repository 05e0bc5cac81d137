import { existsSync } from "node:fs";
import type { Agent, AgentUsage } from "../../ports/agent.ts";
import { UNKNOWN_USAGE } from "../classify-exit.ts";
import { createCliAgent, type CliAgentParams } from "../frame/cli-agent.ts";
import type { CliCall, CliDialect } from "../frame/dialect.ts";
import { readOwnFile } from "../frame/own-files.ts";
import { probeVersion } from "../frame/probe-version.ts";
import { tokensUsed } from "../frame/tokens-used.ts";
import { copilotArgs } from "./argv.ts";
import { classifyCopilot } from "./classify.ts";
import { nativeBinary } from "./native-binary.ts";
import { NOTHING_READ, readCopilotLine, type CopilotState } from "./reader.ts";
import { copilotSessions } from "./sessions.ts";
import { spentOf } from "./spent.ts";
import { transcriptPlace } from "./transcript-place.ts";
import { sessionLost } from "../frame/session-lost.ts";

/** `copilot:MODEL`: GitHub Copilot CLI. */
export function createCopilotAgent(params: CliAgentParams): Agent {
  return createCliAgent(COPILOT, params);
}

interface Call {
  readonly read: CopilotState;
  /** Answers that the session had when the call began. */
  readonly before: ReadonlySet<string>;
}

const INSTALL = "Install it: npm install -g @github/copilot, then run `copilot login`.";

const COPILOT: CliDialect<Call> = {
  name: "copilot",
  title: "Copilot CLI",
  program: "copilot",
  install: INSTALL,
  capabilities: {
    resume: true,
    forkAtMessage: false,
    chooseSession: true,
    usage: true,
    cost: false,
    structuredOutput: false,
  },
  sessions: copilotSessions,
  // It is silent while a command runs.
  idleMs: 15 * 60_000,
  native: (path) => [nativeBinary(path)],
  isTaken: (session, { env }) => existsSync(transcriptPlace({ session, env })),
  plan(call) {
    const { task, session } = call;
    if (session === null) throw new TypeError("Copilot CLI's session is chosen before it starts");
    const text = recordOf(call);
    if (task.session !== null && text === null) return lost(task.session);
    return {
      kind: "start",
      args: copilotArgs({ task, session, extra: call.extra }),
      input: task.prompt,
      env: {},
      state: { read: NOTHING_READ, before: new Set(spentOf(text ?? "").keys()) },
    };
  },
  read(state, line) {
    const step = readCopilotLine(state.read, line);
    return { ...step, state: { ...state, read: step.state } };
  },
  end: ({ read }, exit, { task }) => classifyCopilot({ state: read, exit, resumes: task.session !== null }),
  usage: usageOf,
  probe: (run) => probeVersion(run, { program: "copilot", install: INSTALL }),
};

/** What it prints has no tokens; its record has them for each answer, also of a call that was killed. */
function usageOf({ before }: Call, call: CliCall): AgentUsage {
  const own = [...spentOf(recordOf(call) ?? "")].filter(([id]) => !before.has(id)).map(([, spent]) => spent);
  if (own.length === 0) return UNKNOWN_USAGE;
  const sum = (of: "input" | "output") => own.reduce((total, spent) => total + spent[of], 0);
  return tokensUsed({ input: sum("input"), output: sum("output") });
}

function recordOf({ session, env }: CliCall): string | null {
  return readOwnFile(transcriptPlace({ session: session ?? "", env }))?.toString("utf8") ?? null;
}

function lost(session: string) {
  return sessionLost(`Copilot CLI has nothing of session ${session}`);
}
