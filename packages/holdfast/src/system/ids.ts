import { randomBytes } from "node:crypto";

/** Unguessable and unique: handle tokens, store ids, temporary names. */
export function randomId(): string {
  return randomBytes(16).toString("hex");
}
