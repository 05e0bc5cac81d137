import { randomBytes } from "node:crypto";

/** Unguessable and unique: handle tokens, store ids, temporary names. */
export function randomId(): string {
  return randomBytes(16).toString("hex");
}

/** For a run that is to be seeded and was given none. Fits what every program takes for a seed. */
export function randomSeed(): number {
  return randomBytes(4).readUInt32LE() >>> 1;
}
