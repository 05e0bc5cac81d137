import { asRecord, type JsonRecord } from "../../core/record.ts";

/** An object of JSON, a line or a whole file; what is none, or half of one, says nothing. */
export function parseRecord(text: string): JsonRecord {
  try {
    return asRecord(JSON.parse(text));
  } catch {
    return {};
  }
}
