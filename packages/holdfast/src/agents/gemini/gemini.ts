import type { Agent, AgentUsage } from "../../ports/agent.ts";
import { UNKNOWN_USAGE } from "../classify-exit.ts";
import { createCliAgent, type CliAgentParams } from "../frame/cli-agent.ts";
import type { CliCall, CliDialect } from "../frame/dialect.ts";
import { tokensUsed } from "../frame/tokens-used.ts";
import { GEMINI_ENV, geminiArgs } from "./argv.ts";
import { findChats, removeHollowChats } from "./chat-files.ts";
import { classifyGemini } from "./classify.ts";
import { probeGemini } from "./probe.ts";
import { NOTHING_READ, readGeminiLine, type GeminiState } from "./reader.ts";
import { add, NO_TOKENS } from "./token-count.ts";
import { geminiSessions } from "./sessions.ts";
import { transcriptPlace, type TranscriptPlace } from "./transcript-place.ts";
import { sessionLost } from "../frame/session-lost.ts";

/** `gemini:MODEL`: Gemini CLI. */
export function createGeminiAgent(params: CliAgentParams): Agent {
  return createCliAgent(GEMINI, params);
}

interface Call {
  readonly read: GeminiState;
  /** Messages that the session had when the call began. */
  readonly before: ReadonlySet<string>;
}

const INSTALL =
  "Install it: npm install -g @google/gemini-cli, then set GEMINI_API_KEY, or run `gemini` once and log in.";

const GEMINI: CliDialect<Call> = {
  name: "gemini",
  title: "Gemini CLI",
  program: "gemini",
  install: INSTALL,
  capabilities: {
    resume: true,
    forkAtMessage: false,
    chooseSession: true,
    usage: true,
    cost: false,
    structuredOutput: false,
  },
  sessions: geminiSessions,
  // It is silent while the model thinks and while a command runs.
  idleMs: 15 * 60_000,
  environment: GEMINI_ENV,
  isTaken: (session, call) => findChats(placeOf(session, call)).length > 0,
  plan(call) {
    const { task, session } = call;
    if (session === null) throw new TypeError("Gemini CLI's session is chosen before it starts");
    if (Buffer.byteLength(task.prompt) > MAX_PROMPT_BYTES) return tooLong(task.prompt);
    const place = placeOf(session, call);
    removeHollowChats(place);
    const chats = findChats(place);
    if (task.session !== null && chats.every(({ isHollow }) => isHollow)) return lost(task.session);
    return {
      kind: "start",
      args: geminiArgs({ task, session, extra: call.extra }),
      input: task.prompt,
      env: {},
      state: { read: NOTHING_READ, before: new Set(chats.flatMap(({ answers }) => [...answers.keys()])) },
    };
  },
  read(state, line) {
    const { state: read, events } = readGeminiLine(state.read, line);
    return { state: { ...state, read }, events };
  },
  end: ({ read }, exit, { task, now }) =>
    classifyGemini({ state: read, exit, resumes: task.session !== null, now: now() }),
  usage: usageOf,
  probe: (run) => probeGemini(run, INSTALL),
};

/** The result counts this process alone, side calls included; where none came, the answers that the session's files have got. */
function usageOf({ read, before }: Call, call: CliCall): AgentUsage {
  const told = read.result?.tokens ?? null;
  if (told !== null) return tokensUsed(told);
  const chats = findChats(placeOf(call.session ?? "", call));
  const answers = new Map(chats.flatMap((chat) => [...chat.answers]));
  const own = [...answers].filter(([id]) => !before.has(id)).map(([, tokens]) => tokens);
  return own.length === 0 ? UNKNOWN_USAGE : tokensUsed(own.reduce(add, NO_TOKENS));
}

function placeOf(session: string, { task, env }: CliCall): TranscriptPlace {
  return transcriptPlace({ session, cwd: task.cwd, env });
}

/** It repeats the prompt on its output, and what does not go through the pipe before it ends is lost: the result with it. */
const MAX_PROMPT_BYTES = 600_000;

function tooLong(prompt: string) {
  const message = `Gemini CLI loses its result after a prompt of ${Buffer.byteLength(prompt)} bytes; it can take ${MAX_PROMPT_BYTES}`;
  return { kind: "refused", cause: "context_too_long", message, hint: null, until: null } as const;
}

function lost(session: string) {
  return sessionLost(`Gemini CLI has nothing of session ${session} for this worktree`);
}
