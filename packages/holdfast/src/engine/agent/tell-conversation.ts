import type { ConversationPlane } from "../../core/checkpoint/checkpoint.ts";
import type { Agent } from "../../ports/agent.ts";
import { planSession } from "./plan-session.ts";
import type { RestoreLog } from "../restore/restore-log.ts";

/**
 * What becomes of the conversation: the session itself is gone back to by the next call, so what can be said now is how. What cannot be gone
 * back to is said aloud, because an agent that remembers less works differently.
 */
export function tellConversation(
  log: RestoreLog,
  kept: ConversationPlane | null,
  agent: Pick<Agent, "name" | "capabilities" | "sessions"> | null,
): void {
  if (kept === null) {
    log.tell("conversation", "skipped", "there is none in it");
    return;
  }
  const { session, lastMessage } = kept;
  if (session === null) {
    log.tell("conversation", "handed_over", handedOver(kept.agent, "the checkpoint holds no session"));
    return;
  }
  if (agent === null) {
    log.tell("conversation", "done", `the next call goes back to session ${session} as far as ${kept.agent} can`);
    return;
  }
  const plan = planSession({ agent, kept: { ...kept, rewound: "restore" }, session, there: lastMessage ?? "" });
  switch (plan.kind) {
    case "go_on":
    case "put_back":
      log.tell("conversation", "done", `the next call puts session ${session} of ${kept.agent} back as it was then`);
      return;
    case "fork":
      log.tell("conversation", "done", `the next call goes on from message ${plan.at}, in a new session`);
      return;
    case "hand_over":
      log.tell("conversation", "handed_over", handedOver(kept.agent, plan.why));
  }
}

function handedOver(agent: string, why: string): string {
  return `${agent} cannot go back (${why}): the next call is a fresh session that is told what was done`;
}
