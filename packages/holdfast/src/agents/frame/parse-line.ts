import { asRecord, type JsonRecord } from "../../core/record.ts";

/** A line of JSON; what is none, or half of one, says nothing. */
export function parseLine(line: string): JsonRecord {
  try {
    return asRecord(JSON.parse(line));
  } catch {
    return {};
  }
}
