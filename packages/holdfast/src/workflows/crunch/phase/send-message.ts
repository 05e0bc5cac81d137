import { messageId } from "../../../core/crunch/message.ts";
import type { Message, MessagePriority } from "../../../core/crunch/message.ts";
import type { Phase } from "../../../core/crunch/phase.ts";
import type { CrunchContext } from "../work.ts";
import { isoNow, requireSetup, tell } from "../work.ts";

export interface Envelope {
  readonly from: string;
  readonly to: string;
  /** The message that it answers. */
  readonly answers: string | null;
  readonly phase: Phase;
  readonly priority: MessagePriority;
  /** The step that writes it down; it says which message of the visit this is. */
  readonly name: string;
}

type Body = Message extends infer M ? (M extends Message ? Pick<M, "type" | "payload"> : never) : never;

/** Writes a message down, once; the one that was written under this name before, whatever it would say now, is returned as it was. */
export async function sendMessage(context: CrunchContext, envelope: Envelope, body: Body): Promise<Message> {
  const { from, to, name, phase } = envelope;
  const { issue } = requireSetup(context);
  const at = isoNow(context);
  const attempt = context.state.phases.filter((stay) => stay.phase === phase).length;
  const message: Message = {
    id: messageId({ at, from, to, key: `${context.run.id}/${context.position.visit.number}/${name}` }),
    from,
    to,
    correlation: envelope.answers,
    timestamp: at,
    priority: envelope.priority,
    metadata: { issue: issue.number, phase, attempt, checkpoint: null },
    ...body,
  };
  const recorded = await tell(context, name, { kind: "message_sent", message });
  return recorded.message;
}
