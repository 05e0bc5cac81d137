import { HoldfastError } from "../../../core/error.ts";

/** USAGE: nothing was said that would tell. */
export function whichFormat(names: readonly string[]): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: "To which format?",
    hint: `Say so with --to: ${names.join(", ")}.`,
  });
}
