// Scripts for the model server: rules, steps and faults, and which step answers a request.

import type { JsonRecord } from "@holdfast/core/json";

/**
 * What a scripted model answers, and how it fails. The request alone decides which step answers it. The rule is the one whose pattern is in
 * the user's last text, and the step is the number of tool calls since then. So retries, side calls and a session resumed after a kill
 * cannot shift it.
 */
export interface ModelScript {
  readonly rules: readonly ModelRule[];
  /** Answers requests without a matching rule, and requests without tools (titles, summaries). Default: the word "ok". */
  readonly otherwise?: ModelStep;
}

interface ModelRule {
  readonly match: RegExp;
  /** The last step repeats: a model that is asked again answers the same. */
  readonly steps: readonly ModelStep[];
}

export interface ModelStep {
  /** Streamed line by line. */
  readonly text?: string;
  readonly tool?: ModelTool;
  /** Default: 100 input and 20 output tokens. */
  readonly usage?: Partial<ModelUsage>;
  /** Delay before the first byte, in milliseconds. */
  readonly delayMs?: number;
  /** Delay between the events of a stream, in milliseconds. */
  readonly eventDelayMs?: number;
  readonly fault?: ModelFault;
}

export interface ModelTool {
  readonly name: string;
  /** A string is the input of a freeform tool, which only the Responses protocol has. */
  readonly input: Readonly<Record<string, unknown>> | string;
}

/** `input` counts tokens that were not cached. In the other providers' APIs, "input" is the sum of the first three. */
export interface ModelUsage {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly output: number;
}

/** `times`: applies only to this many first requests for the step; absent: to all of them. */
export type ModelFault = { readonly times?: number } & (
  | {
      readonly kind: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly message?: string;
      /** The provider's own value of error.type, error.code or error.status. */
      readonly type?: string;
      /** Replaces the provider's error body. */
      readonly body?: unknown;
    }
  /** A proxy or a captive portal answers with its own page. */
  | { readonly kind: "html"; readonly status: number }
  /** The model refuses to answer, in the form of the provider's API. */
  | { readonly kind: "refusal" }
  /** The stream begins, and the connection breaks in the middle. */
  | { readonly kind: "cut" }
  /** The stream begins, and nothing follows. */
  | { readonly kind: "silent" }
  /** The request is accepted and never answered. */
  | { readonly kind: "hang" }
);

export const NO_USAGE: ModelUsage = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 };

/** How one provider's API reads a request and writes an answer. */
export interface Protocol {
  readonly name: "anthropic" | "responses" | "chat" | "gemini";
  read(body: JsonRecord, url: URL): Conversation;
  whole(reply: Reply): unknown;
  /** In order; cut and silent streams stop after the first half. */
  stream(reply: Reply): readonly StreamEvent[];
  error(params: { readonly status: number; readonly message: string; readonly type: string | undefined }): unknown;
}

export interface Reply {
  /** Unique for each answer. */
  readonly id: string;
  readonly model: string;
  readonly text: string;
  readonly tool: ModelTool | null;
  readonly usage: ModelUsage;
  /** The model refuses: no text, and the provider's value as the finish reason. */
  readonly refused: boolean;
}

export interface StreamEvent {
  readonly name?: string;
  readonly data: unknown;
  /** Token usage after this event. */
  readonly usage?: ModelUsage;
}

/** Splits a text into pieces as a model would stream it. */
export function piecesOf(text: string): readonly string[] {
  return text === "" ? [] : text.split(/(?<=\n)/);
}

/** An API that supports objects only gets a freeform input as an object. */
export function objectInput(tool: ModelTool): JsonRecord {
  return typeof tool.input === "string" ? { input: tool.input } : tool.input;
}

/** A request in a form that is independent of the provider. */
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
  /** Null: no rule matches. */
  readonly place: { readonly rule: number; readonly step: number } | null;
  /** The user's last text, without what the agent program adds to it. */
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

/** Removes the context that agent programs add to the user's text. */
function withoutAdditions(text: string): string {
  return text.replaceAll(ADDITION, "").trim();
}

const ADDITION =
  /<(system-reminder|session_context|environment_context|user_instructions|INSTRUCTIONS|permissions instructions|skills_instructions|local-command-caveat)>[\s\S]*?<\/\1>/g;
