// Sessions of an agent call: resume, put back, fork or replace a session, and the prompt that each of them gets.
import { snapshotParams } from "./adapters.ts";
import { ownResult } from "./agent-log.ts";
import type { Agent } from "./agent.ts";
import type { ConversationPlane, FilesPlane } from "./checkpoint.ts";
import { messagesIn, storedConversation } from "./conversation.ts";
import type { NewEntry, StepLost } from "./journal.ts";
import { type Amounts, type RecordTokens, fallbackOf } from "./position.ts";
import { reasonOf } from "./progress.ts";
import { type RunSession, emitNote } from "./run-session.ts";
import { type StageExecution, attemptOf } from "./step.ts";
import { assumeUnknown } from "./waiting.ts";
import { own } from "./state.ts";
import { type AgentCall, type Fence, createFence, fenceNonce } from "./workflow.ts";
import type { PreviewSnapshot, Workspace } from "./workspace.ts";

interface Caller {
  readonly call: AgentCall;
  readonly agent: Agent;
  readonly model: string | null;
  readonly workspace: Workspace;
}

/** What one attempt of the call starts with. */
export interface OpenedSession {
  readonly session: string | null;
  readonly forkAt: string | null;
  readonly prompt: string;
  /** For an agent that replays its sessions: what a session gets that shows the prompt. */
  readonly continuation?: string;
  /** Tokens in the session's record before the attempt. Later growth belongs to this attempt. null: unknown. */
  readonly counted: RecordTokens | null;
  /** A line for the agent's log. null: there is nothing to report. */
  readonly note: string | null;
}

/** Opens a session before each attempt. The decision is on record before the agent works, so a kill in between changes nothing. */
export async function openSession(execution: StageExecution, caller: Caller): Promise<OpenedSession> {
  const { runSession } = execution;
  const { call, agent, workspace } = caller;
  const session = sessionOf(execution, call);
  if (session === null) {
    await countLost(execution, caller, null);
    return await openFresh(execution, caller);
  }
  const cwd = workspace.root;
  const there = await readRecord(execution, agent, { session, cwd });
  const inRecord = there === null ? null : (agent.sessions?.tokensIn?.(there) ?? null);
  const counted = inRecord ?? (await agent.records?.tokens({ session, cwd })) ?? null;
  await countLost(execution, caller, counted);
  const plan = planSession({ agent, kept: storedConversation(runSession, call), session, there });
  const promptFor = async (record: string | null): Promise<Prompts> =>
    await promptsFor(execution, caller, { session, record });
  switch (plan.kind) {
    case "go_on":
      return { session, forkAt: null, ...(await promptFor(there)), counted, note: null };
    case "put_back": {
      const isBack = storedConversation(runSession, call)?.rewound !== undefined;
      const note = isBack
        ? `${agent.name} resumes session ${session} as of the checkpoint: its record is restored`
        : `${agent.name} had lost its record of session ${session}: it is put back from the checkpoint`;
      await putRecordBack(execution, agent, { session, cwd, text: plan.text });
      await emitNote(execution.runSession, note);
      const tokens = agent.sessions?.tokensIn?.(plan.text) ?? null;
      return { session, forkAt: null, ...(await promptFor(plan.text)), counted: tokens, note };
    }
    case "fork": {
      const note = `${agent.name} continues from message ${plan.at} of session ${session} in a new session, without the later messages`;
      if (plan.text !== null) await putRecordBack(execution, agent, { session, cwd, text: plan.text });
      await emitNote(execution.runSession, note);
      return {
        session,
        forkAt: plan.at,
        ...(await promptFor(upTo(plan.at, plan.text ?? there))),
        counted: null,
        note,
      };
    }
    case "hand_over": {
      const kept = storedConversation(runSession, call);
      const isOwn = kept?.agent === agent.name && kept.session === session;
      await dropSession(execution, caller, { why: plan.why, conversation: isOwn ? kept : null });
      return await openFresh(execution, caller);
    }
  }
}

/** The record up to the message at which it is forked. */
function upTo(message: string, record: string | null): string | null {
  if (record === null) return null;
  const end = record.indexOf("\n", record.lastIndexOf(message));
  return end === -1 ? record : record.slice(0, end);
}

type Prompts = Pick<OpenedSession, "prompt" | "continuation">;

/**
 * Returns the prompt for a session that exists. A session that was interrupted in this call and that surely has the
 * task gets a short continuation. Any other session gets the whole prompt. An agent that replays its sessions decides.
 */
async function promptsFor(
  execution: StageExecution,
  caller: Caller,
  { session, record }: { readonly session: string; readonly record: string | null },
): Promise<Prompts> {
  const { call, agent, workspace } = caller;
  const { name, prompt } = call;
  // A session that the stage names has not got this prompt yet.
  if (!Object.hasOwn(execution.runSession.attempt.sessions, name)) return { prompt };
  const isAsked =
    record === null
      ? await agent.records?.asked({ session, cwd: workspace.root }, prompt)
      : agent.sessions?.askedIn?.(record, prompt);
  if (isAsked === true) return { prompt: await composeContinuation(execution, caller) };
  return agent.replays === true ? { prompt, continuation: await composeContinuation(execution, caller) } : { prompt };
}

async function composeContinuation(execution: StageExecution, { call, workspace }: Caller): Promise<string> {
  const { runSession } = execution;
  const { name } = call;
  const fence = fenceOf(runSession, `${name}/continuation/${attemptOf(execution, name)}`);
  const files = filesText(await changedFiles(runSession, workspace));
  const text = [
    "# You were interrupted",
    "",
    "Your work on the task above was interrupted and continues in this session. Your files are as you left them. Your last tool call may be",
    "incomplete: a file may be partly written, and a command may have run although you did not see its output. Check both before you continue.",
    "",
    ...(files === "" ? [] : ["## Files that differ from the last commit", "", fence.data("changed files", files), ""]),
    "## What to do next",
    "",
    call.continuation ?? "Finish the task. Keep what is done, do not start again, and end as the task asks.",
  ].join("\n");
  return fence.prompt(`${text.trimEnd()}\n`);
}

/** The files in the worktree now, and how they differ from the last commit. */
async function changedFiles(
  { adapters }: RunSession,
  workspace: Workspace,
): Promise<{ readonly files: PreviewSnapshot; readonly diffStat: string | null }> {
  const files = await workspace.look(snapshotParams(adapters));
  const { head, tree } = files;
  const stat = async (from: string): Promise<string | null> =>
    (await adapters.workspaces?.diff({ from, to: tree, format: "stat" }))?.text ?? null;
  return { files, diffStat: head === null ? null : await stat(head).catch(() => null) };
}

/**
 * Counts a call that died with its process, from the agent's own record or else from what it reported. The processes
 * are gone, so nothing is added later. Usage that neither source shows is unknown, not zero. The reserved estimate
 * already counts as spent.
 */
async function countLost(
  execution: StageExecution,
  { call, agent, model }: Caller,
  now: RecordTokens | null,
): Promise<void> {
  const { runSession } = execution;
  const before = own(runSession.attempt.lost, call.name);
  if (before === undefined || before.estimate === null || before.settled === true) return;
  const attempt = attemptOf(execution, call.name);
  const reported = ownResult(execution, call.name, { agent: agent.name, model, attempt })?.tokens ?? 0;
  const recorded = before.counted === undefined || now === null ? null : tokensSince(before.counted, now);
  const tokens = Math.max(recorded ?? 0, reported);
  // A record that did not grow lacks the interrupted answer, for which the provider may have charged.
  const isUnknown = tokens === 0;
  const reserved = before.estimate;
  if (!isUnknown && tokens <= reserved.tokens) return;
  const unknown = { unpriced: 1, ...(isUnknown ? { uncounted: 1 } : {}) };
  const spent: Amounts = { ...reserved, tokens: Math.max(tokens, reserved.tokens), ...unknown };
  // If an estimate was reserved, it counts as spent and nothing more is assumed.
  const held = isUnknown && reserved.tokens === 0 && reserved.microUsd === 0 ? await assumeUnknown(runSession) : null;
  const body: StepLost = {
    stageAttempt: runSession.attempt.number,
    step: call.name,
    spent,
    ...(held === null ? {} : { held }),
  };
  await runSession.append({ kind: "step.lost", body });
  const text = isUnknown
    ? `The token usage of ${agent.name} in the interrupted step ${call.name} is unknown${heldText(held)}`
    : `${agent.name} used ${tokens} tokens in the interrupted step ${call.name}; they count as spent`;
  runSession.emit({ kind: "note", text });
}

function heldText(held: Amounts | null): string {
  if (held === null) return "";
  const parts = [
    ...(held.tokens === 0 ? [] : [`${held.tokens} tokens`]),
    ...(held.microUsd === 0 ? [] : [`$${(held.microUsd / 1e6).toFixed(2)}`]),
  ];
  return `; ${parts.join(" and ")} of the budget are held for it`;
}

function tokensSince(before: RecordTokens, now: RecordTokens): number {
  return Math.max(0, now.input - before.input) + Math.max(0, now.output - before.output);
}

/** A session that this call had when its process died takes precedence over the one that the stage names. */
export function sessionOf({ runSession }: StageExecution, { name, session }: AgentCall): string | null {
  const known = own(runSession.attempt.sessions, name);
  if (known !== undefined) return known;
  // The stage's session belongs to the call's own agent, so a fallback agent cannot use it.
  return fallbackOf(own(runSession.attempt.errors, name)) === undefined ? (session ?? null) : null;
}

/**
 * Drops a session. The next attempt starts a fresh one, whose prompt describes what this one did. The files are kept. A
 * checkpoint stores the known conversation, so that the agent's own record is no longer needed.
 */
export async function dropSession(
  execution: StageExecution,
  { call, agent }: Caller,
  params: {
    readonly why: string;
    readonly conversation: ConversationPlane | null;
    /** Entries for the same commit. */
    readonly prepare?: () => readonly NewEntry[];
  },
): Promise<void> {
  const { runSession } = execution;
  const { name } = call;
  const text = `${agent.name} cannot resume the session of ${name} (${params.why}): a new session gets a summary of the work; files are kept`;
  const session: NewEntry = {
    kind: "step.session",
    body: { stageAttempt: runSession.attempt.number, step: name, session: null },
  };
  const prepare = (): readonly NewEntry[] => {
    const entries = params.prepare?.() ?? [];
    const conversation = droppedConversation(agent.name, params.conversation);
    if (call.sideWorktree === undefined) runSession.observeConversation(conversation);
    else runSession.sideTalks.set(name, conversation);
    return [...entries, session, { kind: "note", body: { text } }];
  };
  // The conversation of a call in a side worktree is not part of any checkpoint.
  if (call.sideWorktree !== undefined) await runSession.append(...prepare());
  else await runSession.save({ trigger: "error_recovery", name: `session of ${name} lost`, prepare });
  runSession.emit({ kind: "note", text });
}

/** Records the session that the agent reported, so that the next attempt resumes it. */
export async function keepSession(execution: StageExecution, call: AgentCall, session: string): Promise<void> {
  const { runSession } = execution;
  const { name: step } = call;
  if (own(runSession.attempt.sessions, step) === session && storedConversation(runSession, call)?.rewound === undefined)
    return;
  // The caller awaits this only after the agent has ended. A write error that matters also fails the next write.
  await runSession
    .append({ kind: "step.session", body: { stageAttempt: runSession.attempt.number, step, session } })
    .catch(() => undefined);
}

function droppedConversation(agent: string, conversation: ConversationPlane | null): ConversationPlane {
  return {
    agent,
    session: null,
    transcript: conversation?.transcript ?? null,
    lastMessage: conversation?.lastMessage ?? null,
  };
}

export function fenceOf({ state, run }: Pick<RunSession, "state" | "run">, call: string): Fence {
  const { fence, stageAttempt } = state.position;
  return createFence(fenceNonce({ secret: fence ?? run.id, stageAttempt: stageAttempt.number, call }));
}

async function openFresh(execution: StageExecution, { call, agent, workspace }: Caller): Promise<OpenedSession> {
  const { runSession } = execution;
  const { name, prompt } = call;
  const isCounted = agent.sessions?.tokensIn !== undefined || agent.records !== undefined;
  const counted = isCounted ? { input: 0, output: 0 } : null;
  if (!Object.hasOwn(runSession.attempt.sessions, name))
    return { session: null, forkAt: null, prompt, counted, note: null };
  const conversation = storedConversation(runSession, call);
  const { files, diffStat } = await changedFiles(runSession, workspace);
  const isOurs = conversation?.agent === agent.name && conversation.session === null;
  // The previous session has seen the fence of this call, and its words are the text inside the fence. So the fence is new.
  const fence = fenceOf(runSession, `${name}/hand-over/${attemptOf(execution, name)}`);
  const given = handOver({ prompt, conversation: isOurs ? conversation : null, files, diffStat, fence });
  const note = `A fresh session of ${agent.name} takes over${given === prompt ? "; the one before it had done nothing" : ""}`;
  return { session: null, forkAt: null, prompt: given, counted, note };
}

/** null: the agent has no record, or it cannot be read. The agent then reports whether it can resume the session. */
async function readRecord(
  execution: StageExecution,
  agent: Agent,
  params: { readonly session: string; readonly cwd: string },
): Promise<string | null> {
  if (agent.sessions === null) return null;
  try {
    return (await agent.sessions.read(params))?.text ?? null;
  } catch (error) {
    execution.runSession.emit({
      kind: "note",
      text: `The record of session ${params.session} cannot be read: ${reasonOf(error)}`,
    });
    return null;
  }
}

/** If the write fails, the agent reports the session as lost, and a fresh one takes over. */
async function putRecordBack(
  execution: StageExecution,
  agent: Agent,
  params: { readonly session: string; readonly cwd: string; readonly text: string },
): Promise<void> {
  await agent.sessions?.write(params).catch((error: unknown) => {
    execution.runSession.emit({
      kind: "note",
      text: `The record of session ${params.session} cannot be put back: ${reasonOf(error)}`,
    });
  });
}

type SessionPlan =
  /** Resume the session as the agent has it. */
  | { readonly kind: "go_on" }
  /** Resume it after the agent's record was restored to this text. */
  | { readonly kind: "put_back"; readonly text: string }
  /** Continue in a new session from this message. If the agent lost the record, `text` is put back first. */
  | { readonly kind: "fork"; readonly at: string; readonly text: string | null }
  /** Start a fresh session with a prompt that describes what was done. */
  | { readonly kind: "hand_over"; readonly why: string };

/**
 * Plans how a call continues a session. Without a restore, the agent's own record equals the stored copy or is newer.
 * After a restore, the agent must not remember work that the files do not contain. A fork must not write into its
 * parent's session.
 */
export function planSession(params: {
  readonly agent: Pick<Agent, "name" | "capabilities" | "sessions">;
  readonly kept: ConversationPlane | null;
  readonly session: string;
  /** The agent's own record. null: it has none. */
  readonly there: string | null;
}): SessionPlan {
  const { agent, kept, session, there } = params;
  const own = kept !== null && kept.agent === agent.name && kept.session === session ? kept : null;
  const copy = agent.sessions === null ? null : (own?.transcript?.text ?? null);
  const rewound = kept?.rewound;
  if (rewound === undefined)
    return there === null && copy !== null ? { kind: "put_back", text: copy } : { kind: "go_on" };
  if (own === null) return { kind: "hand_over", why: "the checkpoint does not hold its session" };
  if (rewound === "restore" && there !== null && there === copy) return { kind: "go_on" };
  const at = own.lastMessage;
  if (agent.capabilities.forkAtMessage && at !== null) {
    if (there?.includes(at) === true) return { kind: "fork", at, text: null };
    if (rewound === "fork" && copy !== null) return { kind: "fork", at, text: copy };
  }
  if (rewound === "restore" && copy !== null) return { kind: "put_back", text: copy };
  const why =
    rewound === "fork" ? "its session belongs to the run that was forked" : "it cannot forget what came after";
  return { kind: "hand_over", why };
}

/**
 * Builds the prompt of a session that replaces one that cannot be resumed: what is known of the old one, then the task.
 * Its length is bounded. Without a record and without changed files the prompt is unchanged, because the old session
 * did nothing.
 */
function handOver(params: {
  readonly prompt: string;
  readonly conversation: ConversationPlane | null;
  /** The files in the worktree now. null: unknown. */
  readonly files: Pick<FilesPlane, "artifacts" | "artifactCount"> | null;
  readonly diffStat: string | null;
  readonly fence: Fence;
}): string {
  const { fence } = params;
  const messages = messagesIn(params.conversation?.transcript?.text ?? "", { maxCharacters: MAX_SAID });
  const files = filesText(params);
  if (messages.length === 0 && files === "") return params.prompt;
  const record = messages.map(({ who, text }) => `[${who}] ${text}`).join("\n");
  const text = [
    "# Taking over",
    "",
    "Another session worked on the task below before you, and cannot be resumed. Its files are in the worktree as it left them. Look at them",
    "first, keep what is good, and do not repeat what is done. Its last tool call may be incomplete: a file may be partly written, and a command",
    "may have run although that session did not see its output.",
    "",
    ...(files === "" ? [] : ["## Files that differ from the last commit", "", fence.data("changed files", files), ""]),
    ...(record === "" ? [] : ["## The end of what it said and did", "", fence.data("the session before", record), ""]),
    "# The task",
    "",
    params.prompt,
  ].join("\n");
  return fence.prompt(text);
}

const MAX_SAID = 12_000;
const MAX_FILES = 100;
const MAX_STAT = 8_000;

function filesText(params: Pick<Parameters<typeof handOver>[0], "files" | "diffStat">): string {
  const { files, diffStat } = params;
  if (files === null) return "";
  const changed = files.artifacts.filter(({ status }) => status !== "unchanged");
  if (changed.length === 0) return "";
  const stat = diffStat?.trimEnd() ?? "";
  if (stat !== "" && stat.length <= MAX_STAT) return stat;
  const more = Math.max(files.artifactCount, changed.length) - Math.min(changed.length, MAX_FILES);
  return [
    ...changed.slice(0, MAX_FILES).map(({ path, status }) => `${status} ${path.slice(0, 200)}`),
    ...(more > 0 ? [`and ${more} more`] : []),
  ].join("\n");
}
