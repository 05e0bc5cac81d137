import type { MessageBook } from "../../../core/crunch/message-book.ts";

/**
 * What a person was asked, and said: all who work afterwards are told, else the answer would help nobody. What was asked about a conflict is told as its
 * resolution.
 */
export function personAnswers({
  records,
}: MessageBook): readonly { readonly question: string; readonly answer: string }[] {
  return records.flatMap(({ message, status }) => {
    if (message.type !== "ESCALATE" || status.kind !== "answered") return [];
    const { escalationType, decisionNeeded } = message.payload;
    if (escalationType !== "BLOCKED" && escalationType !== "HUMAN_REQUIRED") return [];
    const answer = records.find((one) => one.message.id === status.by)?.message;
    return answer?.type === "RESPONSE" ? [{ question: decisionNeeded, answer: answer.payload.result.summary }] : [];
  });
}
