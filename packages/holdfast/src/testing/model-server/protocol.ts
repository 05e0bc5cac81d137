import type { Conversation } from "./conversation.ts";
import type { ModelTool, ModelUsage } from "./model-script.ts";
import type { JsonRecord } from "../../core/record.ts";

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
