import { countText } from "./count-text.ts";
import { escapeText } from "./escape-text.ts";
import { wrap } from "./wrap.ts";

/** What a format could not carry, those of one reason together; nothing to say when it carried all. */
export function lossesText(
  to: string,
  losses: readonly { readonly path: string; readonly why: string }[],
  width: number,
): string {
  if (losses.length === 0) return "";
  const reasons = new Map<string, string[]>();
  for (const { path, why } of losses) reasons.set(why, [...(reasons.get(why) ?? []), path]);
  const lines = [...reasons].flatMap(([why, paths]) => {
    const [first = "", ...rest] = wrap(escapeText(`${paths.join(", ")}: ${why}`), Math.min(width, 100) - 4);
    return [`  ${first}`, ...rest.map((line) => `    ${line}`)];
  });
  return `Not carried by ${to} (${countText(losses.length, "loss", "losses")}):\n${lines.join("\n")}\n`;
}
