import { describe, expect, test } from "vitest";
import type { Agent, FailureCause } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import type { ModelFault, ModelScript } from "@holdfast/test-support/agents/model-script";
import { REAL_COPILOT, REAL_OPENCODE, REAL_PI, REAL_QWEN } from "@holdfast/test-support/agents/provider-agents";
import {
  type AgentScene,
  CODEX_MODEL,
  GEMINI_MODEL,
  MODEL,
  findRealAgent,
  openClaudeScene,
  openCodexScene,
  openGeminiScene,
} from "@holdfast/test-support/agents/real-agents";
import { SEED, sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { prepareCall } from "@holdfast/testing/agent-contract";
import { createAcpAgent } from "./acp.ts";
import { createCommandAgent } from "./command.ts";

/** A real program, used through its own command line or the Agent Client Protocol. */
interface CauseSubject {
  readonly name: string;
  readonly program: string;
  readonly model: string;
  /** The error for a context that is too long, in the words of the provider whose API the program uses. */
  readonly tooLong: { readonly message: string; readonly type?: string };
  open(params: { readonly script: ModelScript; readonly later: Later }): Promise<AgentScene>;
  /** Rows for which this program reports too little to know the cause: the cause reported instead, and why. */
  readonly blind?: Readonly<Record<string, { readonly cause: FailureCause; readonly why: string }>>;
}

type Later = (undo: () => void | Promise<void>) => void;

const ANTHROPIC_LONG = { message: "prompt is too long: 300000 tokens > 200000 maximum" };
const CHAT_LONG = {
  message: "This model's maximum context length is 128000 tokens. However, you requested 300000 tokens.",
  type: "context_length_exceeded",
};
const RESPONSES_LONG = {
  message: "Your input exceeds the context window of this model.",
  type: "context_length_exceeded",
};
const GEMINI_LONG = {
  message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
};

const PORTAL = "a login page with status 200";
const BLOCKED = "a blocking page with status 403";
const REFUSED = "a refusal by the model";

/** The agents with their own command line. */
const CLI_SUBJECTS: readonly CauseSubject[] = [
  {
    name: "claude",
    program: "claude",
    model: MODEL,
    tooLong: ANTHROPIC_LONG,
    open: openClaudeScene,
    blind: { [BLOCKED]: { cause: "auth", why: "it reports the page's title as the provider's message" } },
  },
  {
    name: "codex",
    program: "codex",
    model: CODEX_MODEL,
    tooLong: RESPONSES_LONG,
    open: openCodexScene,
    blind: { [PORTAL]: { cause: "network", why: "it reports a stream without events, not what came instead" } },
  },
  {
    name: "gemini",
    program: "gemini",
    model: GEMINI_MODEL,
    tooLong: GEMINI_LONG,
    open: openGeminiScene,
    blind: { [PORTAL]: { cause: "network", why: "it reports a line that breaks off, not what came instead" } },
  },
  {
    ...subjectOf(REAL_OPENCODE),
    tooLong: CHAT_LONG,
    blind: { [PORTAL]: { cause: "network", why: "it reports empty answers, not what came instead" } },
  },
  {
    ...subjectOf(REAL_PI),
    tooLong: ANTHROPIC_LONG,
    blind: {
      [PORTAL]: { cause: "network", why: "it reports an empty answer, not what came instead" },
      [REFUSED]: { cause: "crash", why: "it reports an unknown error" },
    },
  },
  {
    ...subjectOf(REAL_COPILOT),
    tooLong: ANTHROPIC_LONG,
    blind: {
      [PORTAL]: { cause: "network", why: "it reports a stream without a message, not what came instead" },
      [BLOCKED]: { cause: "auth", why: "it reports the status alone" },
    },
  },
  {
    ...subjectOf(REAL_QWEN),
    tooLong: CHAT_LONG,
    blind: { [REFUSED]: { cause: "crash", why: "it reports an empty answer, not why" } },
  },
];

/** The agents that support the Agent Client Protocol themselves. */
const ACP_SUBJECTS: readonly CauseSubject[] = [
  inAcp(
    "gemini",
    "exec gemini --acp --skip-trust",
    { GEMINI_CLI_NO_RELAUNCH: "true" },
    {
      [PORTAL]: { cause: "network", why: "it reports a line that breaks off, not what came instead" },
      [REFUSED]: { cause: "crash", why: "it ends the turn without an error message" },
    },
  ),
  inAcp(
    "opencode",
    "exec opencode acp",
    {},
    // Neither an update nor a line of its log reports these steps.
    { [PORTAL]: { cause: "hang", why: "it begins one empty step after the other, and reports none" } },
  ),
  inAcp(
    "copilot",
    "exec copilot --acp",
    {},
    {
      [PORTAL]: { cause: "network", why: "it reports a stream without a message, not what came instead" },
      [BLOCKED]: { cause: "auth", why: "it reports the status alone" },
      [REFUSED]: { cause: "crash", why: "it ends the turn without an error message" },
    },
  ),
  inAcp(
    "qwen",
    "exec qwen --acp --auth-type openai",
    {},
    { [REFUSED]: { cause: "crash", why: "it reports an empty answer, not why" } },
  ),
];

/** Why the other programs are not in `ACP_SUBJECTS`. */
const NO_ACP: Readonly<Record<string, string>> = {
  claude: "speaks ACP only through another maker's adapter, which test-agents/ does not install",
  codex: "speaks ACP only through another maker's adapter, which test-agents/ does not install",
  pi: "does not speak ACP",
};

interface CauseRow {
  readonly name: string;
  readonly cause: FailureCause;
  readonly why?: never;
  fault(subject: CauseSubject): ModelFault;
}

const status = (code: number, message: string, type?: string): ModelFault => ({
  kind: "status",
  status: code,
  message,
  ...(type === undefined ? {} : { type }),
});

/** The faults between program and model, and the cause that each has for every program. */
const CAUSE_ROWS: readonly CauseRow[] = [
  { name: "500", cause: "overload", fault: () => status(500, "internal error") },
  { name: "529", cause: "overload", fault: () => status(529, "overloaded") },
  { name: "a stream that is cut", cause: "network", fault: () => ({ kind: "cut" }) },
  { name: "a stream that falls silent", cause: "hang", fault: () => ({ kind: "silent" }) },
  { name: PORTAL, cause: "proxy", fault: () => ({ kind: "html", status: 200 }) },
  { name: BLOCKED, cause: "proxy", fault: () => ({ kind: "html", status: 403 }) },
  {
    name: "a version that is too old",
    cause: "too_old",
    fault: () =>
      status(400, "This model requires a newer version of the client. Please upgrade to the latest version."),
  },
  {
    name: "a context that is too long",
    cause: "context_too_long",
    fault: ({ tooLong }) => status(400, tooLong.message, tooLong.type),
  },
  { name: REFUSED, cause: "refusal", fault: () => ({ kind: "refusal" }) },
  { name: "a rejected key", cause: "auth", fault: () => status(401, "invalid api key") },
  { name: "a login without access", cause: "auth", fault: () => status(403, "permission denied") },
  {
    name: "an expired login",
    cause: "auth",
    fault: () => status(401, "OAuth token has expired. Please log in again."),
  },
];

const LIMIT = { timeout: 600_000 };
/**
 * How long a program may be silent, in milliseconds. A silent program is ended after the first limit. On a busy machine that can be before
 * it has called the model, or before it has written the reason into its own log. Then it is called again with the next limit.
 */
const IDLE_MS = [20_000, 60_000, 240_000];
/** Causes to which some programs react with silence. They report all others by themselves, however long their start takes. */
const SILENT: readonly FailureCause[] = ["hang", "overload", "network"];

/** Tests of all programs run in parallel: most of them wait for a program to start, or for a limit. */
function causeSuite(subject: CauseSubject): void {
  const found = findRealAgent(subject.program);
  const gone = found.kind === "absent" ? found.why : null;
  describe.concurrent(`causes of failure of the real ${subject.name}, by seed ${SEED}`, () => {
    for (const row of sampleBySeed(CAUSE_ROWS, 1, subject.name)) {
      const { cause, why = null } = subject.blind?.[row.name] ?? row;
      const title = `${row.name} is ${cause}${because(gone ?? why)}`;
      test.skipIf(gone !== null)(title, LIMIT, async ({ expect, onTestFinished }) => {
        const rules = [{ match: /(?:)/, steps: [{ text: "a\nb\nc\nd", fault: row.fault(subject) }] }];
        for (const idleMs of SILENT.includes(cause) ? IDLE_MS : IDLE_MS.slice(-1)) {
          const scene = await subject.open({ script: { rules }, later: onTestFinished });
          const call = prepareCall(scene, { model: subject.model, idleMs });
          const outcome = await scene.agent.run(call.task);
          const isAsked = scene.server.requests.some(({ place }) => place !== null);
          const isHang = outcome.kind === "failed" && outcome.cause === "hang";
          const isTooEarly = cause === "hang" ? !isAsked : isHang;
          if (isTooEarly && idleMs !== IDLE_MS.at(-1)) continue;
          const log = call.events.flatMap((event) => (event.kind === "raw" ? [event.line.slice(0, 2000)] : []));
          const report = `${JSON.stringify(outcome)}\n${log.slice(-8).join("\n")}`;
          expect(outcome, report).toMatchObject({ kind: "failed", cause });
          expect(isAsked, report).toBe(true);
          // A cause that needs the user's action must come with a hint.
          if (outcome.kind === "failed" && ACTS.includes(cause)) expect(outcome.hint).not.toBeNull();
          return;
        }
      });
    }
  });
}

const ACTS: readonly FailureCause[] = ["auth", "too_old", "context_too_long", "refusal", "proxy"];

function because(why: string | null): string {
  return why === null ? "" : ` (${why})`;
}

function subjectOf(real: typeof REAL_PI): Omit<CauseSubject, "tooLong"> {
  return { name: real.agent.name, program: real.agent.name, model: real.model, open: (params) => real.open(params) };
}

function inAcp(
  program: string,
  line: string,
  more: Readonly<Record<string, string>>,
  blind?: CauseSubject["blind"],
): CauseSubject {
  const own = CLI_SUBJECTS.find((subject) => subject.program === program);
  if (own === undefined) throw new TypeError(`${program} has no command line of its own`);
  return {
    program: own.program,
    tooLong: own.tooLong,
    ...(blind === undefined ? {} : { blind }),
    name: `${program} over ACP`,
    model: line,
    async open(params) {
      const scene = await own.open(params);
      const agent = createAcpAgent({ clock: systemClock });
      const env = { ...scene.env, ...more };
      const wrapped: Agent = { ...agent, run: (task) => agent.run({ ...task, env: { ...env, ...task.env } }) };
      return { ...scene, agent: wrapped };
    },
  };
}

for (const subject of [...CLI_SUBJECTS, ...ACP_SUBJECTS]) causeSuite(subject);

describe("programs without ACP", () => {
  test.skip.for(Object.entries(NO_ACP))("%s: %s", () => undefined);
});

/** A user's command reports only its exit, so most causes look alike from outside. */
describe("causes of failure of a command", () => {
  const shown: Readonly<Record<string, { readonly line: string; readonly idleMs?: number }>> = {
    "500": { line: "echo 'retry later' >&2; exit 75" },
    "529": { line: "echo 'retry later' >&2; exit 75" },
    "a stream that falls silent": { line: "sleep 600", idleMs: 500 },
  };
  for (const { name, cause } of CAUSE_ROWS) {
    const how = shown[name];
    const why = how === undefined ? " (a command reports its exit status, not a cause)" : "";
    test.skipIf(how === undefined)(`${name} is ${cause}${why}`, async (context) => {
      const agent = createCommandAgent({ clock: systemClock });
      const cwd = scratchDirectory(context.onTestFinished);
      const { task } = prepareCall({ cwd }, { model: how?.line ?? "", idleMs: how?.idleMs ?? null });
      expect(await agent.run(task)).toMatchObject({ kind: "failed", cause });
    });
  }
});
