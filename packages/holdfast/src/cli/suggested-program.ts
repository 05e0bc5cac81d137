import type { Input } from "./command.ts";
import type { GLOBAL_FLAGS } from "./global-flags.ts";

export const PROGRAM = "holdfast";

/** A suggestion that forgets --store would look into another store. */
export function suggestedProgram(globals: Pick<Input<typeof GLOBAL_FLAGS>, "text">): string {
  const flags = (["store", "cwd"] as const).flatMap((name) => {
    const value = globals.text(name);
    return value === undefined ? [] : [` --${name} ${quoteWord(value)}`];
  });
  return PROGRAM + flags.join("");
}

/** For hints that were written where nobody knows the flags. Only command lines are changed, not the product's name. */
export function repeatFlags(hint: string, program: string, commands: readonly string[]): string {
  const lines = new RegExp(`\\b${PROGRAM} (?=(?:${commands.join("|")})\\b)`, "g");
  return program === PROGRAM ? hint : hint.replace(lines, () => `${program} `);
}

/** One word for a POSIX shell, as plain as it can be. */
function quoteWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
