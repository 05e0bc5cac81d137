import type { ConversationPlane } from "../../core/checkpoint/checkpoint.ts";
import type { Agent } from "../../ports/agent.ts";

export type SessionPlan =
  /** As the agent has it. */
  | { readonly kind: "go_on" }
  /** After the agent's record has been made what it was. */
  | { readonly kind: "put_back"; readonly text: string }
  /** In a new session, from this message; `text` is put back first where the agent has lost it. */
  | { readonly kind: "fork"; readonly at: string; readonly text: string | null }
  /** In a fresh session that is told what was done. */
  | { readonly kind: "hand_over"; readonly why: string };

/**
 * How a call goes on with a session. As long as nobody went back, the agent's own record is as good as our copy or newer. Once the run went back, the
 * agent must not remember what the files do not have; and a fork must not write into the session of its parent.
 */
export function planSession(params: {
  readonly agent: Pick<Agent, "name" | "capabilities" | "sessions">;
  readonly kept: ConversationPlane | null;
  readonly session: string;
  /** The agent's own record; null: it has none. */
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
