import type { ModelScript, ModelStep } from "./model-script.ts";

/** What a request of any maker comes to. */
export interface Conversation {
  readonly model: string;
  readonly stream: boolean;
  readonly hasTools: boolean;
  readonly turns: readonly Turn[];
}

export interface Turn {
  readonly role: "user" | "model";
  readonly text: string;
  readonly toolCalls: number;
}

export interface ChosenStep {
  readonly step: ModelStep;
  /** null: no rule fits. */
  readonly place: { readonly rule: number; readonly step: number } | null;
  /** The last text of the user, without what the agent's program adds to it. */
  readonly text: string;
}

export function chooseStep(script: ModelScript, conversation: Conversation): ChosenStep {
  let text = "";
  let calls = 0;
  for (const turn of conversation.turns) {
    const said = turn.role === "user" ? withoutAdditions(turn.text) : "";
    if (said !== "") [text, calls] = [said, 0];
    calls += turn.toolCalls;
  }
  const rule = conversation.hasTools ? script.rules.findIndex(({ match }) => match.test(text)) : -1;
  const steps = script.rules[rule]?.steps ?? [];
  const index = Math.min(calls, steps.length - 1);
  const step = steps[index];
  if (step === undefined) return { step: script.otherwise ?? { text: "ok" }, place: null, text };
  return { step, place: { rule, step: index }, text };
}

/** Programs put context of their own beside the user's words. */
function withoutAdditions(text: string): string {
  return text.replaceAll(ADDITION, "").trim();
}

const ADDITION =
  /<(system-reminder|session_context|environment_context|user_instructions|INSTRUCTIONS|permissions instructions|skills_instructions|local-command-caveat)>[\s\S]*?<\/\1>/g;
