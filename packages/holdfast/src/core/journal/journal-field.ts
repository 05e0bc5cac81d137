import type { JsonObject } from "../json.ts";

/** Of an entry's body, for those who read a journal leniently: what is not there, or is something else, is empty. */
export function textOf(body: JsonObject, key: string): string {
  const value = body[key];
  return typeof value === "string" ? value : "";
}

export function numberOf(body: JsonObject, key: string): number {
  const value = body[key];
  return typeof value === "number" ? value : 0;
}
