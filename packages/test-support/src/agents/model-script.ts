import type { JsonRecord } from "@holdfast/core/json";

/**
 * What a scripted model says, and how it fails. Which step answers a request follows from the request alone: the rule whose pattern is in the
 * last text of the user, and in it the step after as many tool calls as the model has made since. So retries, side calls and a session that
 * is gone on with after a kill cannot shift it.
 */
export interface ModelScript {
  readonly rules: readonly ModelRule[];
  /** For what no rule fits, and for requests without tools (titles, summaries). By default the word "ok". */
  readonly otherwise?: ModelStep;
}

interface ModelRule {
  readonly match: RegExp;
  /** After the last one it is played again: a model that is asked on says the same. */
  readonly steps: readonly ModelStep[];
}

export interface ModelStep {
  /** Streamed line by line. */
  readonly text?: string;
  readonly tool?: ModelTool;
  /** By default 100 in and 20 out. */
  readonly usage?: Partial<ModelUsage>;
  /** Before the first byte. */
  readonly delayMs?: number;
  /** Between the events of a stream. */
  readonly eventDelayMs?: number;
  readonly fault?: ModelFault;
}

export interface ModelTool {
  readonly name: string;
  /** A string is the input of a freeform tool, which only the Responses protocol has. */
  readonly input: Readonly<Record<string, unknown>> | string;
}

/** Input is what no cache held. The other makers' "input" is the sum of the first three. */
export interface ModelUsage {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly output: number;
}

/** `times`: only the first so many requests for this step; without it, all of them. */
export type ModelFault = { readonly times?: number } & (
  | {
      readonly kind: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly message?: string;
      /** The maker's own word: error.type, error.code or error.status. */
      readonly type?: string;
      /** In place of the maker's shape. */
      readonly body?: unknown;
    }
  /** A proxy or a captive portal answers with a page of its own. */
  | { readonly kind: "html"; readonly status: number }
  /** The model declines to answer, in the way in which the maker's interface says so. */
  | { readonly kind: "refusal" }
  /** The stream begins, and the connection breaks in the middle. */
  | { readonly kind: "cut" }
  /** The stream begins, and nothing follows. */
  | { readonly kind: "silent" }
  /** Accepted, never answered. */
  | { readonly kind: "hang" }
);

export const NO_USAGE: ModelUsage = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 };

/** How one maker's interface reads a request and tells an answer. */
export interface Protocol {
  readonly name: "anthropic" | "responses" | "chat" | "gemini";
  read(body: JsonRecord, url: URL): Conversation;
  whole(reply: Reply): unknown;
  /** In order; cut and silent streams stop after the first half. */
  stream(reply: Reply): readonly StreamEvent[];
  error(params: { readonly status: number; readonly message: string; readonly type: string | undefined }): unknown;
}

export interface Reply {
  /** Another one for each answer. */
  readonly id: string;
  readonly model: string;
  readonly text: string;
  readonly tool: ModelTool | null;
  readonly usage: ModelUsage;
  /** The model declines: no text, and the maker's word for it as the reason of the end. */
  readonly refused: boolean;
}

export interface StreamEvent {
  readonly name?: string;
  readonly data: unknown;
  /** What is known about tokens once this has come. */
  readonly told?: ModelUsage;
}

/** Pieces of a text as a model would stream them. */
export function piecesOf(text: string): readonly string[] {
  return text === "" ? [] : text.split(/(?<=\n)/);
}

/** A freeform input has no place in a maker's interface that knows objects only. */
export function objectInput(tool: ModelTool): JsonRecord {
  return typeof tool.input === "string" ? { input: tool.input } : tool.input;
}

/** What a request of any maker comes to. */
interface Conversation {
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

interface ChosenStep {
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
