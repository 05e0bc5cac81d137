import { messageId } from "../../../core/crunch/message.ts";
import type { Message, MessagePriority } from "../../../core/crunch/message.ts";
import type { Phase } from "../../../core/crunch/phase.ts";
import type { CrunchContext } from "../work.ts";
import { requireSetup, timeOf } from "../work.ts";

export interface Envelope {
  readonly from: string;
  readonly to: string;
  /** The message that it answers. */
  readonly answers: string | null;
  readonly phase: Phase;
  readonly priority: MessagePriority;
  /** Which message of this visit it is. */
  readonly key: string;
}

type Body = Message extends infer M ? (M extends Message ? Pick<M, "type" | "payload"> : never) : never;

/** Writes a message down, once; the one that was written under this key before, whatever it would say now, is returned as it was. */
export async function sendMessage(context: CrunchContext, envelope: Envelope, body: Body): Promise<Message> {
  const { from, to, key, phase } = envelope;
  const { issue } = requireSetup(context);
  const at = await timeOf(context, `time:${key}`);
  const attempt = context.state.phases.filter((stay) => stay.phase === phase).length;
  const message: Message = {
    id: messageId({ at, from, to, key: `${context.run.id}/${context.position.visit.number}/${key}` }),
    from,
    to,
    correlation: envelope.answers,
    timestamp: at,
    priority: envelope.priority,
    metadata: { issue: issue.number, phase, attempt, checkpoint: null },
    ...body,
  };
  const recorded = await context.record(`message:${key}`, { kind: "message_sent" as const, message });
  return recorded.message;
}
