// The scripted agent, which performs the actions of a script in a real process, for demos and tests.

import { extname, join, resolve } from "node:path";
import { type Agent, type AgentOutcome, type AgentTask, type AgentUsage, FAILURE_CAUSES } from "@holdfast/core/agent";
import { sha256 } from "@holdfast/core/json";
import type { Clock } from "@holdfast/platform/clock";
import { readRegularFile } from "@holdfast/platform/files";
import { agentEnvironment, ignoreListenerErrors, runAgentProcess } from "./agent-process.ts";
import { INSTANT_MS, UNKNOWN_USAGE, classifyExit } from "./failure-cause.ts";
import type { Answer, Edit, Script } from "./parse-script.ts";

/**
 * `scripted:<path>`: performs the script's answer for this role, iteration and attempt in a real process. For demos and
 * tests. As `scripted-session` it has sessions, so that an interrupted call can be resumed.
 */
export function createScriptedAgent(params: {
  readonly clock: Clock;
  /** The base directory of relative script paths. */
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
      const env = agentEnvironment({ agent: "scripted", task, named: params.env });
      return runCall({ task, env, session, actions: prepared, clock: params.clock });
    },
    preview(task) {
      const env = Object.keys(agentEnvironment({ agent: "scripted", task, named: params.env }));
      return { argv: [process.execPath, resolve(params.directory, task.model ?? "")], env: env.toSorted() };
    },
    probe: () => Promise.resolve({ installed: true, version: process.version, problem: null, hint: null }),
  };
}

/** Returns the actions, or an error message. */
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
  const answer = findScriptedAnswer(script, {
    role,
    iteration,
    attempt,
    resumed: task.session !== null,
    yolo: task.yolo,
  });
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
  return planScriptedAnswer({ answer, attempt, session, files });
}

/**
 * Finds the completion marker as an agent would: "… the completion marker … is the line:", followed by the line. The
 * first match counts, because older output may follow it.
 */
function markerIn(prompt: string): string | null {
  return /completion marker[^\n]*:[ \t]*\r?\n([^\r\n]+)/i.exec(prompt)?.[1]?.trim() ?? null;
}

async function readScript(path: string): Promise<Script | string> {
  try {
    const file = readRegularFile({ path, maxBytes: MAX_SCRIPT_BYTES });
    if (file.kind === "absent") return `The script ${path} does not exist`;
    if (file.kind === "refused") return `The script cannot be read: ${file.why}`;
    // Loading the YAML parser and the schema takes longer than most commands.
    const { parseScript } = await import("./parse-script.ts");
    const parsed = parseScript(file.bytes.toString("utf8"));
    return parsed.ok ? parsed.script : parsed.problems.map((problem) => `${path}:${problem}`).join("\n");
  } catch (error) {
    return `The script ${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}

async function runCall(params: {
  readonly task: AgentTask;
  readonly env: Readonly<Record<string, string>>;
  readonly session: string | null;
  readonly actions: readonly RunnerAction[];
  readonly clock: Clock;
}): Promise<AgentOutcome> {
  const { task, env, session, clock } = params;
  const emit = ignoreListenerErrors(task.onEvent);
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
      usage = parseUsage(event);
      // A script reports its usage once, right before its end.
      emit({ kind: "usage", tokens: (event.input ?? 0) + (event.output ?? 0), total: usage, isLast: true });
    },
  });
  const { timeoutMs, idleMs } = task;
  const failed = classifyExit({ exit, name: "the scripted agent", now: clock.now(), timeoutMs, idleMs });
  return outcomeOf({ failed, last, usage, session, now: clock.now(), milliseconds: exit.milliseconds });
}

/** Success needs a result and exit code 0. A failure from the script counts only if the process exited by itself. */
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
  const hint = "The format of a script and how an answer is chosen: docs/agents.md";
  const usage = UNKNOWN_USAGE;
  return { kind: "failed", cause: "missing", message, hint, until: null, session, usage, instant: false };
}

function parseUsage(event: Extract<RunnerEvent, { type: "usage" }>): AgentUsage {
  return { inputTokens: event.input, outputTokens: event.output, microUsd: event.microUsd };
}

function parseEvent(line: string): RunnerEvent | null {
  try {
    const value: unknown = JSON.parse(line);
    // Printed by our own runner, which prints only such events on this stream.
    return typeof value === "object" && value !== null && "type" in value ? (value as RunnerEvent) : null;
  } catch {
    return null;
  }
}

/**
 * The program lies next to this file with the same extension: .ts in the sources, .js in the library, .cjs in the CLI
 * bundle.
 */
const RUNNER = join(import.meta.dirname, `script-runner${extname(import.meta.filename)}`);
const MAX_SCRIPT_BYTES = 4_000_000;

/** Identifies the call. Nothing else selects an answer, so kills, retries and resumes cannot change it. */
export interface ScriptedCall {
  readonly role: string;
  readonly iteration: number;
  readonly attempt: number;
  readonly resumed: boolean;
  readonly yolo: boolean;
}

/** An action of the runner. Actions are performed in order. */
export type RunnerAction =
  | Edit
  | { readonly do: "say"; readonly event: RunnerEvent }
  | {
      readonly do: "spawn";
      readonly ignoreTerm: boolean;
      readonly afterMs: number;
      readonly path: string | null;
      readonly text: string;
    }
  | { readonly do: "hang" }
  | { readonly do: "exit"; readonly code: number };

/** A line of the runner's output. */
type RunnerEvent =
  | { readonly type: "session"; readonly id: string }
  | { readonly type: "edit"; readonly do: string; readonly path: string }
  | {
      readonly type: "usage";
      readonly input: number | null;
      readonly output: number | null;
      readonly microUsd: number | null;
    }
  | { readonly type: "result"; readonly text: string }
  | { readonly type: "failure"; readonly cause: string; readonly message: string; readonly untilMs: number | null };

interface AnswerFiles {
  /** The completion marker for this issue and iteration; null if the workflow gave none. */
  readonly completion: string | null;
  readonly finalize: string;
  readonly commitReport: string;
}

/** Returns the first answer that matches. */
export function findScriptedAnswer(script: Script, call: ScriptedCall): Answer | undefined {
  return script.answers.find(({ when }) => {
    if (when === undefined) return true;
    return (
      fits(when.role, call.role) &&
      fits(when.iteration, call.iteration) &&
      fits(when.attempt, call.attempt) &&
      fits(when.resumed, call.resumed) &&
      fits(when.yolo, call.yolo)
    );
  });
}

export function planScriptedAnswer(params: {
  readonly answer: Answer;
  readonly attempt: number;
  readonly session: string | null;
  readonly files: AnswerFiles;
}): readonly RunnerAction[] {
  const { answer } = params;
  const failure = failureOf(answer, params.attempt);
  const opening: RunnerAction[] = [
    ...(params.session === null ? [] : [emitEvent({ type: "session", id: params.session })]),
    ...(answer.delayMs === undefined ? [] : [{ do: "wait" as const, ms: answer.delayMs }]),
  ];
  if (failure !== null && answer.fail?.afterEdits !== true) return [...opening, ...usageActions(answer), ...failure];
  return [
    ...opening,
    ...(answer.edits ?? []).flatMap((edit) =>
      edit.do === "wait" ? [edit] : [edit, emitEvent({ type: "edit", do: edit.do, path: edit.path })],
    ),
    ...reportsOf(answer, params.files),
    ...usageActions(answer),
    ...spawnOf(answer),
    ...(answer.hang === true ? [{ do: "hang" as const }] : []),
    ...(failure ?? [emitEvent({ type: "result", text: replyOf(answer) }), { do: "exit", code: answer.exit ?? 0 }]),
  ];
}

function fits<T>(wanted: T | readonly T[] | undefined, actual: T): boolean {
  if (wanted === undefined) return true;
  return Array.isArray(wanted) ? wanted.includes(actual) : wanted === actual;
}

function emitEvent(event: RunnerEvent): RunnerAction {
  return { do: "say", event };
}

/** `times` is compared with the attempt number, because a counter in the agent would be lost with its process. */
function failureOf(answer: Answer, attempt: number): readonly RunnerAction[] | null {
  const { fail } = answer;
  if (fail === undefined || (fail.times !== undefined && attempt > fail.times)) return null;
  const message = fail.message ?? `The script makes this call fail: ${fail.cause}`;
  return [
    emitEvent({ type: "failure", cause: fail.cause, message, untilMs: fail.untilMs ?? null }),
    { do: "exit", code: answer.exit ?? 1 },
  ];
}

function usageActions({ usage }: Answer): readonly RunnerAction[] {
  if (usage === undefined) return [];
  const { input = null, output = null, microUsd = null } = usage;
  return [emitEvent({ type: "usage", input, output, microUsd })];
}

function spawnOf({ spawn }: Answer): readonly RunnerAction[] {
  if (spawn === undefined) return [];
  const { ignoreTerm = false, afterMs = 0, path = null, text = "" } = spawn;
  return [{ do: "spawn", ignoreTerm, afterMs, path, text }];
}

function reportsOf(answer: Answer, files: AnswerFiles): readonly RunnerAction[] {
  const reports: RunnerAction[] = [];
  if (answer.commitReport !== undefined)
    reports.push({ do: "write", path: files.commitReport, text: answer.commitReport });
  if (answer.finalize === undefined) return reports;
  const { title, body = "" } = answer.finalize;
  const sections = [title, body.trim(), files.completion ?? ""].filter((section) => section !== "");
  return [...reports, { do: "write", path: files.finalize, text: `${sections.join("\n\n")}\n` }];
}

function replyOf(answer: Answer): string {
  const scores =
    answer.scores === undefined ? null : `\`\`\`json\n${JSON.stringify({ scores: answer.scores })}\n\`\`\``;
  return [answer.reply ?? null, scores].filter((part) => part !== null).join("\n\n");
}
