import { extname, join, resolve } from "node:path";
import { FAILURE_CAUSES, type Agent, type AgentOutcome, type AgentTask, type AgentUsage } from "../ports/agent.ts";
import type { Clock } from "../ports/clock.ts";
import { sha256 } from "../system/hash.ts";
import { readRegularFile } from "../system/regular-file.ts";
import { quietly, runAgentProcess } from "./agent-process.ts";
import { classifyExit, UNKNOWN_USAGE } from "./classify-exit.ts";
import { passedEnvironment } from "./passed-environment.ts";
import { chooseAnswer, planAnswer, type RunnerAction, type RunnerEvent } from "./plan-answer.ts";
import type { Script } from "./script-schema.ts";

/**
 * `scripted:<path>`: does what a script says for this role, iteration and attempt, in a real process. For demos and tests.
 * As `scripted-session` it has sessions: an interrupted call can be gone on with.
 */
export function createScriptedAgent(params: {
  readonly clock: Clock;
  /** Where relative paths of scripts begin. */
  readonly directory: string;
  readonly sessions: boolean;
  /** Variables that the user passes to every agent. */
  readonly env?: readonly string[];
}): Agent {
  return {
    name: params.sessions ? "scripted-session" : "scripted",
    capabilities: {
      resume: params.sessions,
      forkAtMessage: false,
      chooseSession: false,
      usage: true,
      cost: true,
      structuredOutput: false,
      seed: true,
    },
    sessions: null,
    async run(task) {
      const session = params.sessions ? (task.session ?? `scripted-${sha256(task.mark).slice(0, 12)}`) : null;
      const prepared = await prepare({ task, session, directory: params.directory });
      if (typeof prepared === "string") return unusable(prepared, session);
      const env = passedEnvironment({ agent: "scripted", task, named: params.env });
      return perform({ task, env, session, actions: prepared, clock: params.clock });
    },
    preview(task) {
      const env = Object.keys(passedEnvironment({ agent: "scripted", task, named: params.env }));
      return { argv: [process.execPath, resolve(params.directory, task.model ?? "")], env: env.toSorted() };
    },
    probe: () => Promise.resolve({ installed: true, version: process.version, problem: null, hint: null }),
  };
}

/** The actions, or why there are none. */
async function prepare(params: {
  readonly task: AgentTask;
  readonly session: string | null;
  readonly directory: string;
}): Promise<readonly RunnerAction[] | string> {
  const { task, session } = params;
  if (task.model === null) return "No script is given for the agent";
  const path = resolve(params.directory, task.model);
  const script = await readScript(path);
  if (typeof script === "string") return script;
  const { role, iteration, attempt } = task;
  const answer = chooseAnswer(script, { role, iteration, attempt, resumed: task.session !== null, yolo: task.yolo });
  if (answer === undefined)
    return `${path} has no answer for role ${JSON.stringify(role)}, iteration ${iteration}, attempt ${attempt}`;
  const completion = task.env["HOLDFAST_COMPLETION"] ?? markerIn(task.prompt);
  if (answer.finalize !== undefined && completion === null)
    return `${path} finalizes, but neither HOLDFAST_COMPLETION nor the prompt gives this call a completion marker`;
  const files = {
    completion,
    finalize: task.env["HOLDFAST_FINALIZE_FILE"] ?? ".tmp/finalize.txt",
    commitReport: task.env["HOLDFAST_COMMIT_REPORT"] ?? `.tmp/commit-report-iter-${iteration}.txt`,
  };
  return planAnswer({ answer, attempt, session, files });
}

/** Read as any agent would: "… the completion marker … is the line:", and then the line. The first counts; older output may follow it. */
function markerIn(prompt: string): string | null {
  return /completion marker[^\n]*:[ \t]*\r?\n([^\r\n]+)/i.exec(prompt)?.[1]?.trim() ?? null;
}

async function readScript(path: string): Promise<Script | string> {
  try {
    const file = readRegularFile({ path, maxBytes: MAX_SCRIPT_BYTES });
    if (file.kind === "absent") return `The script ${path} is not there`;
    if (file.kind === "refused") return `The script cannot be read: ${file.why}`;
    // The YAML parser and the schema cost more to load than most commands to run.
    const { parseScript } = await import("./parse-script.ts");
    const parsed = parseScript(file.bytes.toString("utf8"));
    return parsed.ok ? parsed.script : parsed.problems.map((problem) => `${path}:${problem}`).join("\n");
  } catch (error) {
    return `The script ${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}

async function perform(params: {
  readonly task: AgentTask;
  readonly env: Readonly<Record<string, string>>;
  readonly session: string | null;
  readonly actions: readonly RunnerAction[];
  readonly clock: Clock;
}): Promise<AgentOutcome> {
  const { task, env, session, clock } = params;
  const emit = quietly(task.onEvent);
  let usage = UNKNOWN_USAGE;
  let last: RunnerEvent | null = null;
  let messages = 0;
  const exit = await runAgentProcess({
    task,
    env,
    command: process.execPath,
    args: ["--disable-warning=ExperimentalWarning", RUNNER],
    input: JSON.stringify(params.actions),
    onLine(line) {
      const event = parseEvent(line);
      if (event === null) return;
      last = event;
      messages += 1;
      emit({ kind: "message", id: `${session ?? "scripted"}-${messages}` });
      if (event.type === "session") emit({ kind: "session", id: event.id });
      if (event.type === "edit") emit({ kind: "tool", name: event.do, detail: event.path });
      if (event.type === "result") emit({ kind: "text", text: event.text });
      if (event.type !== "usage") return;
      usage = usageOf(event);
      emit({ kind: "usage", tokens: (event.input ?? 0) + (event.output ?? 0) });
    },
  });
  const { timeoutMs, idleMs } = task;
  const failed = classifyExit({ exit, name: "the scripted agent", now: clock.now(), timeoutMs, idleMs });
  return outcomeOf({ failed, last, usage, session, now: clock.now(), milliseconds: exit.milliseconds });
}

/** Success is a result *and* exit 0; a failure that the script tells counts only where the process ended by itself. */
function outcomeOf(params: {
  readonly failed: Extract<AgentOutcome, { kind: "failed" }> | null;
  readonly last: RunnerEvent | null;
  readonly usage: AgentUsage;
  readonly session: string | null;
  readonly now: number;
  readonly milliseconds: number;
}): AgentOutcome {
  const { failed, last, usage, session, now } = params;
  if (failed === null && last?.type === "result") return { kind: "completed", text: last.text, session, usage };
  if (last?.type === "failure" && (failed === null || failed.cause === "crash")) {
    const cause = FAILURE_CAUSES.find((known) => known === last.cause) ?? "crash";
    const until = last.untilMs === null ? null : new Date(now + last.untilMs).toISOString();
    const instant = params.milliseconds < INSTANT_MS;
    return { kind: "failed", cause, message: last.message, hint: null, until, session, usage, instant };
  }
  if (failed !== null) return { ...failed, session, usage };
  return { ...unusable("The scripted agent ended without a result", session), cause: "crash", usage };
}

function unusable(message: string, session: string | null): Extract<AgentOutcome, { kind: "failed" }> {
  const hint = "docs/agents.md says what a script holds and how an answer is chosen.";
  return {
    kind: "failed",
    cause: "missing",
    message,
    hint,
    until: null,
    session,
    usage: UNKNOWN_USAGE,
    instant: false,
  };
}

function usageOf(event: Extract<RunnerEvent, { type: "usage" }>): AgentUsage {
  return { inputTokens: event.input, outputTokens: event.output, microUsd: event.microUsd };
}

function parseEvent(line: string): RunnerEvent | null {
  try {
    const value: unknown = JSON.parse(line);
    // Printed by our own runner, which says nothing else on this stream.
    return typeof value === "object" && value !== null && "type" in value ? (value as RunnerEvent) : null;
  } catch {
    return null;
  }
}

/** Beside this file in whatever form it was built: .ts in the sources, .js in the library, .cjs beside the command line's bundle. */
const RUNNER = join(import.meta.dirname, `script-runner${extname(import.meta.filename)}`);
const MAX_SCRIPT_BYTES = 4_000_000;
const INSTANT_MS = 2000;
