import { HoldfastError } from "./error.ts";
import { nearest } from "./nearest.ts";

/**
 * Refuses options that nobody reads: `save({ value: … })` would else lose what the caller meant to keep. USAGE, with the
 * nearest name.
 */
export function checkOptions(call: string, given: object, known: readonly string[]): void {
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue;
    const [guess] = nearest(name, known);
    throw new HoldfastError({
      code: "USAGE",
      message: `${call} has no option "${name}"`,
      hint: guess === undefined ? `Its options: ${known.join(", ")}.` : `Did you mean ${guess}?`,
    });
  }
}

export function checkOneOf(call: string, name: string, value: unknown, known: readonly string[]): void {
  if (value === undefined || known.some((word) => word === value)) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${call} cannot use ${JSON.stringify(value) ?? String(value)} for ${name}`,
    hint: `Use one of ${known.join(", ")}.`,
  });
}
