import type { Shell } from "../command.ts";

/** A view that is redrawn in place needs a terminal whose cursor can be moved. */
export function canRedraw(shell: Pick<Shell, "page" | "env">): boolean {
  return shell.page.terminal && shell.env["TERM"] !== "dumb";
}
