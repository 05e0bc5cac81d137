import type { ConversationPlane } from "../../core/checkpoint/checkpoint.ts";
import type { RunSession } from "../conduct/run-session.ts";

/**
 * Whose conversation a call goes on with. A checkpoint holds one, the run's own: several calls at once would each overwrite the other's. What is said aside is
 * held for as long as this process carries the call; after a crash its session goes on by the agent's own record, or a fresh one is told of the files.
 */
export function keptTalk(writer: RunSession, call: TalkingCall): ConversationPlane | null {
  return call.aside === undefined ? writer.conversation : (writer.sideTalks.get(call.name) ?? null);
}

export function keepTalk(writer: RunSession, call: TalkingCall, talk: ConversationPlane): void {
  const newer = newerTalk(keptTalk(writer, call), talk);
  if (call.aside === undefined) writer.observeConversation(newer);
  else writer.sideTalks.set(call.name, newer);
}

interface TalkingCall {
  readonly name: string;
  readonly aside?: unknown;
}

/**
 * What the next checkpoint holds of the conversation. A session that left no record does not take the place of what the one before it left, as long as that is
 * to be handed over.
 */
function newerTalk(before: ConversationPlane | null, now: ConversationPlane): ConversationPlane {
  const isWaiting = before !== null && before.agent === now.agent && before.session === null;
  return now.transcript === null && isWaiting ? before : now;
}
