// The message log of a crunch run: sending, delivery, answers and withdrawal.

import { type TypeOf, list, object, text, variants } from "@holdfast/core/json";
import { canonicalJson } from "@holdfast/core/values";
import { MESSAGE_SHAPE, type Message, type MessageType } from "./messages.ts";

/**
 * pending: recorded, but possibly not delivered. awaiting: delivered, but not answered. A message has exactly one
 * status, so it can never be both pending and answered.
 */
const STATUS_SHAPE = variants("kind", {
  pending: object({}),
  awaiting: object({}),
  delivered: object({}),
  answered: object({ by: text }),
  withdrawn: object({ why: text }),
});
type MessageStatus = TypeOf<typeof STATUS_SHAPE>;

const RECORD_SHAPE = object({ message: MESSAGE_SHAPE, status: STATUS_SHAPE });
type MessageRecord = TypeOf<typeof RECORD_SHAPE>;

export const MESSAGES_SHAPE = object({
  records: list(RECORD_SHAPE),
  /** Complete messages that were rejected, with the reason. */
  refused: list(object({ message: MESSAGE_SHAPE, why: text })),
});
/**
 * Every message of a run in the order of recording. Messages are stored completely, so that those without an answer can
 * be sent again.
 */
export type MessageLog = TypeOf<typeof MESSAGES_SHAPE>;

export const emptyMessages: MessageLog = { records: [], refused: [] };

/**
 * Records a message. An answer also settles its request, once. A second answer, an answer to an unknown message and
 * another message with a used id are recorded as refused. The same message again changes nothing.
 */
export function sendMessage(log: MessageLog, message: Message): MessageLog {
  const taken = find(log, message.id);
  if (taken !== undefined) {
    return same(taken.message, message) ? log : refuse(log, message, `${message.id} is another message already`);
  }
  const asked = message.correlation;
  if (asked === null || !isAnswer(message)) return append(log, { message, status: { kind: "pending" } });
  const question = find(log, asked);
  const why = question === undefined ? `there is no message ${asked}` : whyNotAnswered(question, message);
  if (why !== null) return refuse(log, message, why);
  // An answer proves its own delivery.
  const settled = withStatus(log, asked, { kind: "answered", by: message.id });
  return append(settled, { message, status: needsAnswer(message) ? { kind: "pending" } : { kind: "delivered" } });
}

/** Marks a message as delivered. Has no effect if it is already delivered or answered. */
export function deliverMessage(log: MessageLog, id: string): MessageLog {
  const record = find(log, id);
  if (record?.status.kind !== "pending") return log;
  return withStatus(log, id, { kind: needsAnswer(record.message) ? "awaiting" : "delivered" });
}

/**
 * Withdraws a message that needs no answer any more, because its node failed or was handed over. An answered message
 * remains answered.
 */
export function withdrawMessage(log: MessageLog, params: { readonly id: string; readonly why: string }): MessageLog {
  const kind = find(log, params.id)?.status.kind;
  if (kind !== "pending" && kind !== "awaiting") return log;
  return withStatus(log, params.id, { kind: "withdrawn", why: params.why });
}

export function pendingMessages(log: MessageLog): readonly Message[] {
  return having(log, ["pending"]);
}

export function awaitingMessages(log: MessageLog): readonly Message[] {
  return having(log, ["awaiting"]);
}

export function findMessage(log: MessageLog, id: string): MessageRecord | undefined {
  return find(log, id);
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

function having(log: MessageLog, kinds: readonly MessageStatus["kind"][]): readonly Message[] {
  return log.records.filter((record) => kinds.includes(record.status.kind)).map((record) => record.message);
}

function find(log: MessageLog, id: string): MessageRecord | undefined {
  return log.records.find((record) => record.message.id === id);
}

function append(log: MessageLog, record: MessageRecord): MessageLog {
  return { ...log, records: [...log.records, record] };
}

function withStatus(log: MessageLog, id: string, status: MessageStatus): MessageLog {
  const records = log.records.map((record) => (record.message.id === id ? { ...record, status } : record));
  return { ...log, records };
}

function refuse(log: MessageLog, message: Message, why: string): MessageLog {
  const known = log.refused.some((one) => one.why === why && same(one.message, message));
  return known ? log : { ...log, refused: [...log.refused, { message, why }] };
}

function same(one: Message, other: Message): boolean {
  return canonicalJson(one) === canonicalJson(other);
}
