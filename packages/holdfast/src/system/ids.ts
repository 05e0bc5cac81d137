import { randomBytes } from "node:crypto";

/** Unguessable and unique: handle tokens, store ids, temporary names. */
export function randomId(): string {
  return randomBytes(16).toString("hex");
}

/** For a run that is to be seeded and was given none. Fits what every program takes for a seed. */
export function randomSeed(): number {
  return randomBytes(4).readUInt32LE() >>> 1;
}

/** Short, for a person to read and to type: what tells two runs of the same work apart. */
export function randomName(): string {
  const alphabet = "abcdefghijkmnpqrstuvwxyz23456789";
  return [...randomBytes(5)].map((byte) => alphabet[byte % alphabet.length]).join("");
}
