import { countText } from "./count-text.ts";
import { escapeText } from "./escape-text.ts";

/** What a format could not carry; nothing to say when it carried all. */
export function lossesText(to: string, losses: readonly { readonly path: string; readonly why: string }[]): string {
  if (losses.length === 0) return "";
  const lines = losses.map(({ path, why }) => `  ${escapeText(path)}: ${escapeText(why)}`);
  return `Not carried by ${to} (${countText(losses.length, "loss", "losses")}):\n${lines.join("\n")}\n`;
}
