import type { Agent } from "../../ports/agent.ts";
import { createCliAgent, type CliAgentParams } from "../frame/cli-agent.ts";
import type { CliDialect } from "../frame/dialect.ts";
import { probeVersion } from "../frame/probe-version.ts";
import { opencodeArgs, opencodeEnv } from "./argv.ts";
import { classifyOpencode, isOverflow, STREAM_ERROR } from "./classify.ts";
import { NOTHING_READ, readOpencodeLine, type OpencodeState } from "./reader.ts";
import { opencodeRecords } from "./session-reader.ts";
import { pricedUsage } from "../frame/priced-usage.ts";

/** `opencode:PROVIDER/MODEL`. */
export function createOpencodeAgent(params: CliAgentParams): Agent {
  return createCliAgent(OPENCODE, params);
}

const INSTALL = "Install it: npm install -g opencode-ai, then run `opencode auth login`.";

const OPENCODE: CliDialect<OpencodeState> = {
  name: "opencode",
  title: "opencode",
  program: "opencode",
  install: INSTALL,
  capabilities: {
    resume: true,
    forkAtMessage: false,
    chooseSession: false,
    usage: true,
    cost: true,
    structuredOutput: false,
  },
  // All sessions are in one database, which is read and never written.
  sessions: null,
  records: opencodeRecords,
  // It tells an answer when it is whole and a command when it has ended, and reports in its log alone that it tries again.
  idleMs: 15 * 60_000,
  environment: { OPENCODE_DISABLE_AUTOUPDATE: "1" },
  plan: ({ task, env, extra }) => ({
    kind: "start",
    args: opencodeArgs({ task, extra }),
    input: task.prompt,
    env: opencodeEnv({ task, env }),
    state: NOTHING_READ,
  }),
  read: readOpencodeLine,
  isWaiting: (line) => STREAM_ERROR.test(line),
  isOverflow,
  end: (state, exit, { task, now }) => classifyOpencode({ state, exit, resumes: task.session !== null, now: now() }),
  // Each step is told once, of this call alone.
  usage: ({ spent }) => pricedUsage(spent),
  probe: (run) => probeVersion(run, { program: "opencode", install: INSTALL }),
};
