import { createFence, fenceNonce } from "../../core/agent/fence.ts";
import type { Fence } from "../../core/agent/fence.ts";
import type { ConversationPlane } from "../../core/checkpoint/checkpoint.ts";
import { fallbackOf } from "../../core/error-policy/call-errors.ts";
import type { NewEntry, StepLost } from "../../core/journal/journal.ts";
import type { Amounts } from "../../core/position/position.ts";
import type { RecordTokens } from "../../core/position/visit.ts";
import { own } from "../../core/state.ts";
import type { Agent } from "../../ports/agent.ts";
import type { Workspace } from "../../ports/workspace.ts";
import type { RunSession } from "../conduct/run-session.ts";
import { handOver } from "../conduct/hand-over.ts";
import { ownAnswer } from "./kept-answer.ts";
import { keptTalk } from "./kept-talk.ts";
import { lookParams } from "../parts.ts";
import { planSession } from "./plan-session.ts";
import { reasonOf } from "../reason-of.ts";
import { attemptOf } from "../stage/run-step.ts";
import { assumeUnknown } from "../conduct/spending.ts";
import type { AgentCall } from "../stage-context.ts";
import type { Stay } from "../stage/stay.ts";
import { tellNote } from "../conduct/tell-note.ts";

interface Caller {
  readonly call: AgentCall;
  readonly agent: Agent;
  readonly model: string | null;
  readonly workspace: Workspace;
}

/** What a try of the call begins with. */
export interface OpenedSession {
  readonly session: string | null;
  readonly forkAt: string | null;
  readonly prompt: string;
  /** What the session's record holds by now: what is there beyond it later is this try's. null: it is not known. */
  readonly counted: RecordTokens | null;
  /** For the agent's log, where there is something to say. */
  readonly told: string | null;
}

/** Before each try. What it decides is on record before the agent works, so a kill in between comes to the same. */
export async function openSession(stay: Stay, caller: Caller): Promise<OpenedSession> {
  const { writer } = stay;
  const { call, agent, workspace } = caller;
  const { prompt } = call;
  const session = sessionOf(stay, call);
  if (session === null) {
    await countLost(stay, caller, null);
    return await openFresh(stay, caller);
  }
  const cwd = workspace.root;
  const there = await readRecord(stay, agent, { session, cwd });
  const inRecord = there === null ? null : (agent.sessions?.tokensIn?.(there) ?? null);
  const counted = inRecord ?? (await agent.records?.tokens({ session, cwd })) ?? null;
  await countLost(stay, caller, counted);
  const plan = planSession({ agent, kept: keptTalk(writer, call), session, there });
  switch (plan.kind) {
    case "go_on":
      return { session, forkAt: null, prompt, counted, told: null };
    case "put_back": {
      const isBack = keptTalk(writer, call)?.rewound !== undefined;
      const told = isBack
        ? `${agent.name} goes on with session ${session} as it was in the checkpoint: its record is put back`
        : `${agent.name} had lost its record of session ${session}: it is put back from the checkpoint`;
      await putRecordBack(stay, agent, { session, cwd, text: plan.text });
      await tellNote(stay.writer, told);
      return { session, forkAt: null, prompt, counted: agent.sessions?.tokensIn?.(plan.text) ?? null, told };
    }
    case "fork": {
      const told = `${agent.name} goes on from message ${plan.at} of session ${session}, in a new session: what came after it is forgotten`;
      if (plan.text !== null) await putRecordBack(stay, agent, { session, cwd, text: plan.text });
      await tellNote(stay.writer, told);
      return { session, forkAt: plan.at, prompt, counted: null, told };
    }
    case "hand_over": {
      const kept = keptTalk(writer, call);
      const isOwn = kept?.agent === agent.name && kept.session === session;
      await giveUpSession(stay, caller, { why: plan.why, said: isOwn ? kept : null });
      return await openFresh(stay, caller);
    }
  }
}

/**
 * A call that died with its process is counted now: from the agent's own record, else from what it had reported while it worked. The processes are
 * gone, nothing is added any more. What neither tells is unknown, not zero; what was reserved for the call counts as spent already.
 */
async function countLost(stay: Stay, { call, agent, model }: Caller, now: RecordTokens | null): Promise<void> {
  const { writer } = stay;
  const before = own(writer.lost, call.name);
  if (before === undefined || before.estimate === null || before.settled === true) return;
  const attempt = attemptOf(stay, call.name);
  const reported = ownAnswer(stay, call.name, { agent: agent.name, model, attempt })?.tokens ?? 0;
  const recorded = before.counted === undefined || now === null ? null : tokensSince(before.counted, now);
  const tokens = Math.max(recorded ?? 0, reported);
  // A record that did not grow misses the answer that was cut off: the provider may have charged for it.
  const isUnknown = tokens === 0;
  const reserved = before.estimate;
  if (!isUnknown && tokens <= reserved.tokens) return;
  const unknown = { unpriced: 1, ...(isUnknown ? { uncounted: 1 } : {}) };
  const spent: Amounts = { ...reserved, tokens: Math.max(tokens, reserved.tokens), ...unknown };
  // What was reserved for the call counts as spent, and no more is assumed.
  const held = isUnknown && reserved.tokens === 0 && reserved.microUsd === 0 ? await assumeUnknown(writer) : null;
  const body: StepLost = { visit: writer.visit, step: call.name, spent, ...(held === null ? {} : { held }) };
  await writer.append({ kind: "step.lost", body });
  const text = isUnknown
    ? `What ${agent.name} had taken when ${call.name} was cut off is unknown${heldText(held)}`
    : `${agent.name} had taken ${tokens} tokens when ${call.name} was cut off; they are counted`;
  writer.tell({ kind: "note", text });
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

/** One that died in the middle of this very call goes on before any that the stage names. */
export function sessionOf({ writer }: Stay, { name, session }: AgentCall): string | null {
  const known = own(writer.sessions, name);
  if (known !== undefined) return known;
  // What the stage names is a session of the agent that it named.
  return fallbackOf(own(writer.errors, name)) === undefined ? (session ?? null) : null;
}

/**
 * The next try begins a fresh session, which is told what this one did; the files stay. With what is known of it in a checkpoint, so that nobody needs the
 * agent's own record any more.
 */
export async function giveUpSession(
  stay: Stay,
  { call, agent }: Caller,
  params: {
    readonly why: string;
    readonly said: ConversationPlane | null;
    /** What belongs to the same act. */
    readonly prepare?: () => readonly NewEntry[];
  },
): Promise<void> {
  const { writer } = stay;
  const { name } = call;
  const text = `${agent.name} cannot go on with the session of ${name} (${params.why}): a fresh one takes over and is told what was done; files are kept`;
  const session: NewEntry = { kind: "step.session", body: { visit: writer.visit, step: name, session: null } };
  const prepare = (): readonly NewEntry[] => {
    const entries = params.prepare?.() ?? [];
    const said = givenUp(agent.name, params.said);
    if (call.aside === undefined) writer.observeConversation(said);
    else writer.sideTalks.set(name, said);
    return [...entries, session, { kind: "note", body: { text } }];
  };
  // What is said aside is in no checkpoint.
  if (call.aside !== undefined) await writer.append(...prepare());
  else await writer.save({ trigger: "error_recovery", name: `session of ${name} given up`, prepare });
  writer.tell({ kind: "note", text });
}

/** Told by the agent: from now on it is this one that goes on. */
export async function keepSession(stay: Stay, call: AgentCall, session: string): Promise<void> {
  const { writer } = stay;
  const { name: step } = call;
  if (own(writer.sessions, step) === session && keptTalk(writer, call)?.rewound === undefined) return;
  // Nobody waits for it until the agent has ended. What is worse than a lost session shows itself at the next write.
  await writer.append({ kind: "step.session", body: { visit: writer.visit, step, session } }).catch(() => undefined);
}

function givenUp(agent: string, said: ConversationPlane | null): ConversationPlane {
  return { agent, session: null, transcript: said?.transcript ?? null, lastMessage: said?.lastMessage ?? null };
}

export function fenceOf({ state, run, visit }: Pick<RunSession, "state" | "run" | "visit">, call: string): Fence {
  return createFence(fenceNonce({ secret: state.position.fence ?? run.id, visit, call }));
}

async function openFresh(stay: Stay, { call, agent, workspace }: Caller): Promise<OpenedSession> {
  const { writer } = stay;
  const { name, prompt } = call;
  const isCounted = agent.sessions?.tokensIn !== undefined || agent.records !== undefined;
  const counted = isCounted ? { input: 0, output: 0 } : null;
  if (!Object.hasOwn(writer.sessions, name)) return { session: null, forkAt: null, prompt, counted, told: null };
  const { parts } = writer;
  const conversation = keptTalk(writer, call);
  const files = await workspace.look(lookParams(parts));
  const { head, commit } = files;
  const stat = async (from: string): Promise<string | null> =>
    (await parts.workspaces?.diff({ from, to: commit, format: "stat" }))?.text ?? null;
  const diffStat = head === null ? null : await stat(head).catch(() => null);
  const isOurs = conversation?.agent === agent.name && conversation.session === null;
  // The session before this one has seen the fence of the call, and its words are what is fenced here.
  const fence = fenceOf(writer, `${name}/hand-over/${attemptOf(stay, name)}`);
  const given = handOver({ prompt, conversation: isOurs ? conversation : null, files, diffStat, fence });
  const told = `A fresh session of ${agent.name} takes over${given === prompt ? "; the one before it had done nothing" : ""}`;
  return { session: null, forkAt: null, prompt: given, counted, told };
}

/** null: the agent has none, or it cannot be read; then the agent itself says whether it can go on. */
async function readRecord(
  stay: Stay,
  agent: Agent,
  params: { readonly session: string; readonly cwd: string },
): Promise<string | null> {
  if (agent.sessions === null) return null;
  try {
    return (await agent.sessions.read(params))?.text ?? null;
  } catch (error) {
    stay.writer.tell({
      kind: "note",
      text: `The record of session ${params.session} cannot be read: ${reasonOf(error)}`,
    });
    return null;
  }
}

/** Where it cannot be put back, the agent says that the session is lost, and a fresh one takes over. */
async function putRecordBack(
  stay: Stay,
  agent: Agent,
  params: { readonly session: string; readonly cwd: string; readonly text: string },
): Promise<void> {
  await agent.sessions?.write(params).catch((error: unknown) => {
    stay.writer.tell({
      kind: "note",
      text: `The record of session ${params.session} cannot be put back: ${reasonOf(error)}`,
    });
  });
}
