import { asRecord, asText } from "../../core/record.ts";
import { parseRecord } from "../frame/parse-record.ts";

/** What each answer took, by event, as a session's file tells it. Input holds what a cache gave. */
export function spentOf(text: string): ReadonlyMap<string, { readonly input: number; readonly output: number }> {
  const found = new Map<string, { readonly input: number; readonly output: number }>();
  for (const line of text.split("\n")) {
    if (!line.includes('"session.usage_record"')) continue;
    const event = parseRecord(line);
    const usage = asRecord(asRecord(event["data"])["usage"]);
    const { inputTokens: input, outputTokens: output } = usage;
    if (event["type"] === "session.usage_record" && typeof input === "number" && typeof output === "number")
      found.set(asText(event["id"]), { input, output });
  }
  return found;
}
