import { HoldfastError } from "../core/error.ts";

export function requireNumber(number: number): void {
  if (Number.isSafeInteger(number) && number > 0 && number < 1e9) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${String(number)} is not the number of an issue or pull request`,
    hint: "Numbers start at 1.",
  });
}
