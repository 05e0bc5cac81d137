/** JSON of unknown shape, read without a cast: what is not there or of another kind is empty. */
export type JsonRecord = Readonly<Record<string, unknown>>;

export function asRecord(value: unknown): JsonRecord {
  return isRecord(value) ? value : {};
}

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function asRecords(value: unknown): readonly JsonRecord[] {
  return Array.isArray(value) ? value.filter((item) => isRecord(item)) : [];
}

export function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A string, or the texts of content parts. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return asRecords(content)
    .map((part) => asText(part["text"]))
    .filter((text) => text !== "")
    .join("\n");
}
