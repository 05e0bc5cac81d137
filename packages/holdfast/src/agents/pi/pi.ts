import type { Agent } from "../../ports/agent.ts";
import { createCliAgent, type CliAgentParams } from "../frame/cli-agent.ts";
import type { CliDialect } from "../frame/dialect.ts";
import { probeVersion } from "../frame/probe-version.ts";
import { piArgs } from "./argv.ts";
import { classifyPi } from "./classify.ts";
import { add, NOTHING_READ, readPiLine, type PiState } from "./reader.ts";
import { findSession, piSessions } from "./sessions.ts";
import { pricedUsage } from "../frame/priced-usage.ts";
import { sessionLost } from "../frame/session-lost.ts";

/** `pi:PROVIDER/MODEL`. */
export function createPiAgent(params: CliAgentParams): Agent {
  return createCliAgent(PI, params);
}

const INSTALL = "Install it: npm install -g @earendil-works/pi-coding-agent, then run `pi` once and /login.";

const PI: CliDialect<PiState> = {
  name: "pi",
  title: "pi",
  program: "pi",
  install: INSTALL,
  capabilities: {
    resume: true,
    forkAtMessage: false,
    chooseSession: false,
    usage: true,
    cost: true,
    structuredOutput: false,
  },
  sessions: piSessions,
  // It is silent while a command runs, and while it waits for as long as a provider asked it to.
  idleMs: 15 * 60_000,
  environment: { PI_SKIP_VERSION_CHECK: "1" },
  plan({ task, env, extra }) {
    const { session, cwd } = task;
    // It would offer to take over a session of another worktree, and wait for an answer.
    if (session !== null && findSession({ session, cwd, env }) === null) return lost(session);
    return { kind: "start", args: piArgs({ task, extra }), input: task.prompt, env: {}, state: NOTHING_READ };
  },
  read: readPiLine,
  end: (state, exit, { task }) => classifyPi({ state, exit, resumes: task.session !== null, yolo: task.yolo }),
  // Each message is told once, of this call alone.
  usage: ({ spent, open }) => pricedUsage(open === null ? spent : add(spent, open)),
  probe: (run) => probeVersion(run, { program: "pi", install: INSTALL }),
};

function lost(session: string) {
  return sessionLost(`pi has nothing of session ${session} for this worktree`);
}
