import { findSecrets, maskSecrets, secretValues, type FoundSecret } from "../core/mask.ts";

/** The one way in which this process hides secrets: by their shape, and by the values of its own environment. */
export interface Masking {
  mask(text: string): string;
  find(text: string): readonly FoundSecret[];
}

/** The environment is read now. `more`: variables that a child gets besides. */
export function createMasking(more: Readonly<Record<string, string>> = {}): Masking {
  const known = secretValues({ ...process.env, ...more });
  return { mask: (text) => maskSecrets(text, known), find: (text) => findSecrets(text, known) };
}
