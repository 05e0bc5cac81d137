import { isRecord, type JsonRecord } from "../../core/record.ts";

/** What one line of an agent's own record says about a turn; null: nothing. */
export type TurnLine =
  | { readonly kind: "prompt"; readonly text: string }
  /** The agent is at work, or something went wrong. */
  | { readonly kind: "open" }
  /** It has ended the turn with these words. */
  | { readonly kind: "answer"; readonly text: string };

/**
 * The last words of the last turn in a record of JSON lines: only where that turn began with this prompt, the agent itself has ended it, and no
 * line of it is torn. null: that is not sure.
 */
export function finishedTurn(
  record: string,
  prompt: string,
  read: (line: JsonRecord) => TurnLine | null,
): string | null {
  let isOwn = false;
  let answer: string | null = null;
  for (const line of record.split("\n")) {
    if (line.trim() === "") continue;
    const parsed = parseLine(line);
    if (parsed === null) return null;
    const said = read(parsed);
    if (said === null) continue;
    if (said.kind === "prompt") isOwn = said.text.trim() === prompt.trim();
    answer = said.kind === "answer" && said.text !== "" ? said.text : null;
  }
  return isOwn ? answer : null;
}

function parseLine(line: string): JsonRecord | null {
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}
