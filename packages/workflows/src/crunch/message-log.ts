// The message log of a crunch run: sending, delivery, answers and withdrawal, and the check of an incoming message. The
// types are aliases because TypeScript does not accept an interface as a JSON object.

import type { Json } from "@holdfast/core/json";
import { canonicalJson } from "@holdfast/core/values/canonical-json";
import { MESSAGE_SHAPE, type Message, type MessageType } from "./messages.ts";

/**
 * pending: recorded, but possibly not delivered. awaiting: delivered, but not answered. A message has exactly one
 * status, so it can never be both pending and answered.
 */
export type MessageStatus =
  | { readonly kind: "pending" }
  | { readonly kind: "awaiting" }
  | { readonly kind: "delivered" }
  | { readonly kind: "answered"; readonly by: string }
  | { readonly kind: "withdrawn"; readonly why: string };

export type MessageRecord = { readonly message: Message; readonly status: MessageStatus };

/** A complete message that was rejected, with the reason. */
export type RefusedMessage = { readonly message: Message; readonly why: string };

/**
 * Every message of a run in the order of recording. Messages are stored completely, so that those without an answer can
 * be sent again.
 */
export type MessageLog = {
  readonly records: readonly MessageRecord[];
  readonly refused: readonly RefusedMessage[];
};

export const emptyMessages: MessageLog = { records: [], refused: [] };

/**
 * Records a message. An answer also settles its request, once. A second answer, an answer to an unknown message and
 * another message with a used id are recorded as refused. The same message again changes nothing.
 */
export function sendMessage(book: MessageLog, message: Message): MessageLog {
  const taken = find(book, message.id);
  if (taken !== undefined) {
    return same(taken.message, message) ? book : refuse(book, message, `${message.id} is another message already`);
  }
  const asked = message.correlation;
  if (asked === null || !isAnswer(message)) return append(book, { message, status: { kind: "pending" } });
  const question = find(book, asked);
  const why = question === undefined ? `there is no message ${asked}` : whyNotAnswered(question, message);
  if (why !== null) return refuse(book, message, why);
  // An answer proves its own delivery.
  const settled = withStatus(book, asked, { kind: "answered", by: message.id });
  return append(settled, { message, status: needsAnswer(message) ? { kind: "pending" } : { kind: "delivered" } });
}

/** Marks a message as delivered. Has no effect if it is already delivered or answered. */
export function deliverMessage(book: MessageLog, id: string): MessageLog {
  const record = find(book, id);
  if (record?.status.kind !== "pending") return book;
  return withStatus(book, id, { kind: needsAnswer(record.message) ? "awaiting" : "delivered" });
}

/**
 * Withdraws a message that needs no answer any more, because its node failed or was handed over. An answered message
 * remains answered.
 */
export function withdrawMessage(book: MessageLog, params: { readonly id: string; readonly why: string }): MessageLog {
  const kind = find(book, params.id)?.status.kind;
  if (kind !== "pending" && kind !== "awaiting") return book;
  return withStatus(book, params.id, { kind: "withdrawn", why: params.why });
}

/** Messages to send again after a crash, oldest first: those possibly not delivered and those not answered. */
export function messagesToResend(book: MessageLog): readonly Message[] {
  return having(book, ["pending", "awaiting"]);
}

export function pendingMessages(book: MessageLog): readonly Message[] {
  return having(book, ["pending"]);
}

export function awaitingMessages(book: MessageLog): readonly Message[] {
  return having(book, ["awaiting"]);
}

/** The answer to a message; null if there is none yet. */
export function answerTo(book: MessageLog, id: string): Message | null {
  const status = find(book, id)?.status;
  return status?.kind === "answered" ? (find(book, status.by)?.message ?? null) : null;
}

export function findMessage(book: MessageLog, id: string): MessageRecord | undefined {
  return find(book, id);
}

const ANSWERS: Readonly<Record<MessageType, readonly MessageType[]>> = {
  REQUEST: ["RESPONSE", "HANDOFF", "ESCALATE", "VOTE"],
  ESCALATE: ["RESPONSE"],
  RESPONSE: [],
  HANDOFF: [],
  BROADCAST: [],
  VOTE: [],
};

function needsAnswer(message: Message): boolean {
  return ANSWERS[message.type].length > 0;
}

function isAnswer(message: Message): boolean {
  return Object.values(ANSWERS).some((types) => types.includes(message.type));
}

function whyNotAnswered(question: MessageRecord, answer: Message): string | null {
  const { message, status } = question;
  if (!ANSWERS[message.type].includes(answer.type)) return `a ${message.type} is not answered by a ${answer.type}`;
  if (status.kind === "answered") return `${message.id} was answered by ${status.by}`;
  if (status.kind === "withdrawn") return `${message.id} was withdrawn: ${status.why}`;
  if (message.to !== "*" && message.to !== answer.from)
    return `${message.id} went to ${message.to}, not ${answer.from}`;
  return null;
}

function having(book: MessageLog, kinds: readonly MessageStatus["kind"][]): readonly Message[] {
  return book.records.filter((record) => kinds.includes(record.status.kind)).map((record) => record.message);
}

function find(book: MessageLog, id: string): MessageRecord | undefined {
  return book.records.find((record) => record.message.id === id);
}

function append(book: MessageLog, record: MessageRecord): MessageLog {
  return { ...book, records: [...book.records, record] };
}

function withStatus(book: MessageLog, id: string, status: MessageStatus): MessageLog {
  const records = book.records.map((record) => (record.message.id === id ? { ...record, status } : record));
  return { ...book, records };
}

function refuse(book: MessageLog, message: Message, why: string): MessageLog {
  const known = book.refused.some((one) => one.why === why && same(one.message, message));
  return known ? book : { ...book, refused: [...book.refused, { message, why }] };
}

function same(one: Message, other: Message): boolean {
  return canonicalJson(one) === canonicalJson(other);
}

type MessageFault =
  | "NOT_JSON" // contains a value that JSON cannot represent
  | "TOO_LARGE"
  | "NOT_A_MESSAGE" // not an object, or an unknown type
  | "BAD_FIELD"
  | "BAD_ID"
  | "BAD_TIME";

type ParsedMessage =
  | { readonly kind: "message"; readonly message: Message }
  | {
      readonly kind: "refused";
      readonly code: MessageFault;
      /** JSON pointer to the invalid field. */
      readonly path: string;
      readonly why: string;
    };

/** Checks a message from any sender. Accepts only a complete message within the size limit. */
export function parseMessage(value: unknown): ParsedMessage {
  const size = sizeOf(value);
  if (size === null) return refused("NOT_JSON", "", "it holds what JSON cannot carry");
  if (size > MAX_CHARACTERS) return refused("TOO_LARGE", "", `it has ${size} characters, more than ${MAX_CHARACTERS}`);
  const misfit = MESSAGE_SHAPE(value);
  if (misfit !== null) {
    const code = misfit.path === "" || misfit.path === "/type" ? "NOT_A_MESSAGE" : "BAD_FIELD";
    return refused(code, misfit.path, `${misfit.expected} belongs there`);
  }
  // The shape check above makes this cast safe.
  const message = value as Message;
  if (!MESSAGE_ID.test(message.id)) return refused("BAD_ID", "/id", "MSG-, a time in milliseconds and 8 hex digits");
  if (Number.isNaN(Date.parse(message.timestamp))) return refused("BAD_TIME", "/timestamp", "a time belongs there");
  for (const name of ["from", "to"] as const) {
    if (message[name].trim() === "") return refused("BAD_FIELD", `/${name}`, "a name belongs there");
  }
  if (message.correlation === message.id) return refused("BAD_FIELD", "/correlation", "a message cannot answer itself");
  return { kind: "message", message };
}

const MESSAGE_ID = /^MSG-\d{1,16}-[0-9a-f]{8}$/;
/** A prompt with an issue and its knowledge is far below this; a pasted log is not. */
const MAX_CHARACTERS = 1_000_000;

function sizeOf(value: unknown): number | null {
  try {
    // `canonicalJson` rejects a value that is not JSON, whatever its type claims.
    return canonicalJson(value as Json).length;
  } catch {
    return null;
  }
}

function refused(code: MessageFault, path: string, why: string): ParsedMessage {
  return { kind: "refused", code, path, why };
}
