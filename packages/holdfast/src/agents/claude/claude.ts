import { existsSync } from "node:fs";
import type { Agent, AgentProbe } from "../../ports/agent.ts";
import { createCliAgent, type CliAgentParams } from "../frame/cli-agent.ts";
import type { CliCall, CliDialect, CliFailure } from "../frame/dialect.ts";
import { claudeArgs, sandboxOf } from "./argv.ts";
import { classifyClaude } from "./classify.ts";
import { findTranscript, measureTranscripts, readAdded, readTranscript } from "./find-transcripts.ts";
import { readLogin } from "./login.ts";
import { NOTHING_READ, readClaudeLine, type ClaudeState } from "./reader.ts";
import { claudeSessions } from "./sessions.ts";
import { transcriptPlace, type TranscriptPlace } from "./transcript-place.ts";
import { claudeUsage, costSoFar } from "./usage.ts";
import { sessionLost } from "../frame/session-lost.ts";

/** `claude:MODEL`: Claude Code. */
export function createClaudeAgent(params: CliAgentParams): Agent {
  return createCliAgent(CLAUDE, params);
}

interface Call {
  readonly read: ClaudeState;
  /** The transcript of the session that is gone on with. */
  readonly from: string | null;
  /** Length of the session's files when the call began. */
  readonly before: ReadonlyMap<string, number>;
}

const CLAUDE: CliDialect<Call> = {
  name: "claude",
  title: "Claude Code",
  program: "claude",
  install: "Install it: npm install -g @anthropic-ai/claude-code, then log in with `claude auth login`.",
  capabilities: {
    resume: true,
    forkAtMessage: true,
    chooseSession: true,
    usage: true,
    cost: true,
    structuredOutput: false,
  },
  sessions: claudeSessions,
  // Tools tell of themselves every 30 s, answers as they stream; a request may wait ten minutes for its first byte.
  idleMs: 15 * 60_000,
  isTaken: (session, call) => findTranscript(placeOf(session, call)) !== null,
  plan(call) {
    const { task, session } = call;
    if (session === null) throw new TypeError("Claude Code's session is chosen before it starts");
    const from = task.session === null ? null : findTranscript(placeOf(task.session, call));
    if (task.session !== null && from === null) return lost(task.session);
    const args = claudeArgs({ task, session, extra: call.extra });
    const isRoot = process.getuid?.() === 0;
    const sandbox = sandboxOf({ args, isRoot, isContainer: isContainer(process.env), env: call.env });
    if (sandbox.kind === "refused") return { kind: "refused", ...ROOT_WITHOUT_SANDBOX };
    return {
      kind: "start",
      args,
      input: task.prompt,
      env: sandbox.env,
      state: {
        read: NOTHING_READ,
        from,
        before: measureTranscripts(placeOf(session, call)),
      },
    };
  },
  read(state, line) {
    const { state: read, events } = readClaudeLine(state.read, line);
    return { state: { ...state, read }, events };
  },
  end: (state) => classifyClaude(state.read, { resumes: state.from !== null }),
  usage(state, call) {
    const { read, from, before } = state;
    const place = placeOf(call.session ?? "", call);
    // A fork's file begins with a copy of what others have paid for: there the stream alone is counted.
    const isFork = from !== null && call.session !== call.task.session;
    return claudeUsage({
      state: read,
      costBefore: () =>
        from === null ? 0 : costSoFar(readTranscript(from).subarray(0, before.get(from)).toString("utf8")),
      added: () => (isFork ? [] : readAdded(place, before)),
    });
  },
  async probe(run): Promise<AgentProbe> {
    const version = await run(["--version"]);
    const named = /\d+\.\d+\.\d+\S*/.exec(version.stdout.toString("utf8"))?.[0] ?? null;
    if (version.code !== 0 || named === null) {
      const problem = `claude --version failed: ${version.stderr.trim().slice(-300) || `exit ${version.code ?? "none"}`}`;
      return { installed: true, version: named, problem, hint: CLAUDE.install };
    }
    const login = readLogin(await run(["auth", "status"]));
    return { installed: true, version: named, ...login };
  },
};

/** Docker and Podman leave a file, others a variable. */
function isContainer(env: NodeJS.ProcessEnv): boolean {
  const isNamed = (env["container"] ?? "") !== "" || (env["KUBERNETES_SERVICE_HOST"] ?? "") !== "";
  return isNamed || existsSync("/.dockerenv") || existsSync("/run/.containerenv");
}

const ROOT_WITHOUT_SANDBOX: CliFailure = {
  cause: "missing",
  message: "Claude Code does not skip permissions as root outside of a sandbox, and no container was found here",
  hint: "Run Holdfast as another user, or without --yolo. If this machine is a sandbox, set IS_SANDBOX=1.",
  until: null,
};

function placeOf(session: string, { task, env }: CliCall): TranscriptPlace {
  return transcriptPlace({ session, cwd: task.cwd, env });
}

function lost(session: string) {
  return sessionLost(`Claude Code has no transcript of session ${session}`);
}
