// The conversation of an agent call: what checkpoints store of it, and the messages that its transcript shows.

import type { Agent, AgentEvent, AgentTranscript } from "./agent.ts";
import type { ConversationPlane } from "./checkpoint.ts";
import { type JsonRecord, asRecord, asRecords, asText, isRecord, sha256, textOf } from "./json.ts";
import { reasonOf } from "./progress.ts";
import type { RunSession } from "./run-session.ts";

interface Message {
  readonly who: "agent" | "tool call" | "tool result" | "output";
  readonly text: string;
}

/**
 * Returns the end of what an agent said and did, oldest first. The transcript is JSON lines in any agent's format, or
 * plain output. The user's messages are left out. The result has at most `maxCharacters`, and long pieces are cut in
 * the middle.
 */
export function messagesIn(transcript: string, params: { readonly maxCharacters: number }): readonly Message[] {
  const messages: Message[] = [];
  let left = params.maxCharacters;
  for (let end = transcript.length; end > 0 && left > 0;) {
    const start = transcript.lastIndexOf("\n", end - 1) + 1;
    const pieces = piecesOf(transcript.slice(start, end).trim());
    end = start - 1;
    for (const piece of pieces.toReversed()) {
      const text = cutMiddle(piece.text, Math.min(left, piece.who === "agent" ? MAX_TEXT : MAX_TOOL));
      left -= text.length;
      if (text !== "") messages.push({ ...piece, text });
      if (left <= 0) break;
    }
  }
  return messages.toReversed();
}

const MAX_TEXT = 2_000;
const MAX_TOOL = 400;

function piecesOf(line: string): readonly Message[] {
  if (line === "") return [];
  const entry = parse(line);
  if (entry === null) return [{ who: "output", text: line }];
  // Agents wrap the message in one of these fields.
  const message = [entry["message"], entry["payload"], entry].find((part) => isRecord(part)) ?? entry;
  return messagePieces(asRecord(message), asText(entry["type"]));
}

function messagePieces(message: JsonRecord, entryType: string): readonly Message[] {
  const type = asText(message["type"]);
  if (/function_call_output|tool_call_output/.test(type)) return tool("tool result", message["output"]);
  if (/function_call|tool_call|shell_call/.test(type)) return [called(message)];
  const role = asText(message["role"]) || entryType;
  const content = message["content"] ?? message["parts"];
  const parts = asRecords(content).flatMap(partPieces);
  const calls = asRecords(message["toolCalls"] ?? message["tool_calls"]).map(called);
  const isAgent = /^(?:assistant|model|gemini|agent)$/.test(role);
  const text = isAgent ? textOf(content).trim() : "";
  return [...(text === "" ? [] : [{ who: "agent", text } as const]), ...parts, ...calls];
}

function partPieces(part: JsonRecord): readonly Message[] {
  const type = asText(part["type"]);
  if (type === "tool_use") return [called(part)];
  if (type === "tool_result") return tool("tool result", part["content"]);
  if (isRecord(part["functionCall"])) return [called(part["functionCall"])];
  if (isRecord(part["functionResponse"])) return tool("tool result", part["functionResponse"]["response"]);
  return [];
}

function called(call: JsonRecord): Message {
  const inner = isRecord(call["function"]) ? call["function"] : call;
  const given = inner["input"] ?? inner["arguments"] ?? inner["args"] ?? inner["action"] ?? null;
  const what = typeof given === "string" ? given : given === null ? "" : JSON.stringify(given);
  return { who: "tool call", text: `${asText(inner["name"]) || asText(inner["type"])} ${what}`.trim() };
}

function tool(who: Message["who"], content: unknown): readonly Message[] {
  const text = typeof content === "string" || Array.isArray(content) ? textOf(content) : JSON.stringify(content ?? "");
  return text.trim() === "" ? [] : [{ who, text: text.trim() }];
}

function cutMiddle(text: string, most: number): string {
  if (text.length <= most) return text;
  const half = Math.max(0, Math.floor((most - GAP.length) / 2));
  return `${text.slice(0, half).toWellFormed()}${GAP}${text.slice(text.length - half).toWellFormed()}`.slice(0, most);
}

const GAP = " […] ";

function parse(line: string): JsonRecord | null {
  if (!line.startsWith("{")) return null;
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : null;
  } catch {
    // A partial line of a killed call cannot be read.
    return {};
  }
}

/** The conversation of one call, as checkpoints store it: the agent's own record, or else the end of its output. */
export class Conversation {
  readonly #agent: Agent;
  readonly #cwd: string;
  readonly #report: (problem: string) => void;
  #session: string | null;
  #lastMessage: string | null = null;
  #lines: string[] = [];
  #length = 0;

  constructor(
    agent: Agent,
    params: {
      readonly cwd: string;
      readonly session: string | null;
      readonly report: (problem: string) => void;
    },
  ) {
    this.#agent = agent;
    this.#cwd = params.cwd;
    this.#report = params.report;
    this.#session = params.session;
  }

  observe(event: AgentEvent): void {
    if (event.kind === "session") this.#session = event.id;
    if (event.kind === "message") this.#lastMessage = event.id;
    if (event.kind !== "raw" || this.#agent.sessions !== null) return;
    this.#lines.push(event.line);
    this.#length += event.line.length + 1;
    // Old lines are dropped in bulk, so that each line is copied at most twice.
    if (this.#length > 2 * MAX_CHARACTERS) this.#printed();
  }

  /**
   * Returns the conversation. `session` comes from the call's outcome once there is one. If the record cannot be read,
   * the checkpoint lacks the transcript, and the call continues.
   */
  async plane(session: string | null = this.#session): Promise<ConversationPlane> {
    const { name, sessions } = this.#agent;
    const transcript =
      sessions === null
        ? this.#heard()
        : session === null
          ? null
          : await sessions.read({ session, cwd: this.#cwd }).catch((error: unknown) => {
              this.#report(`The conversation of ${name} is not in the checkpoint: ${reasonOf(error)}`);
              return null;
            });
    return {
      agent: name,
      session,
      transcript:
        transcript === null
          ? null
          : { digest: sha256(transcript.text), bytes: bytesOf(transcript.text), text: transcript.text },
      lastMessage: transcript?.lastMessage ?? this.#lastMessage,
    };
  }

  #heard(): AgentTranscript | null {
    const text = this.#printed();
    return text === "" ? null : { text: `${text}\n`, lastMessage: this.#lastMessage };
  }

  #printed(): string {
    const text = this.#lines.join("\n").slice(-MAX_CHARACTERS).toWellFormed();
    this.#lines = text === "" ? [] : [text];
    this.#length = text.length;
    return text;
  }
}

const MAX_CHARACTERS = 1_000_000;

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/**
 * Returns the conversation that a call continues. A checkpoint holds only the run's own, because parallel calls would
 * overwrite each other's. The conversation of a call in a side worktree exists only in this process. After a crash its
 * session resumes from the agent's own record, or a fresh session gets a description of the files.
 */
export function storedConversation(runSession: RunSession, call: TalkingCall): ConversationPlane | null {
  return call.sideWorktree === undefined ? runSession.conversation : (runSession.sideTalks.get(call.name) ?? null);
}

export function storeConversation(runSession: RunSession, call: TalkingCall, talk: ConversationPlane): void {
  const newer = newerTalk(storedConversation(runSession, call), talk);
  if (call.sideWorktree === undefined) runSession.observeConversation(newer);
  else runSession.sideTalks.set(call.name, newer);
}

interface TalkingCall {
  readonly name: string;
  readonly sideWorktree?: unknown;
}

/**
 * Chooses what the next checkpoint stores. A session without a record does not replace the stored transcript of the
 * previous session while that one must still be handed over.
 */
function newerTalk(before: ConversationPlane | null, now: ConversationPlane): ConversationPlane {
  const isWaiting = before !== null && before.agent === now.agent && before.session === null;
  return now.transcript === null && isWaiting ? before : now;
}
