import type { AnyContext } from "../any-context.ts";

/**
 * Text as it may be published in the run's name: title, body or comment at the forge, or a commit message. Secrets are masked and reported. Mentions
 * have no effect, and only the run's own issue is closed: most of the text is an agent's, and what an agent writes may come from a public
 * issue.
 */
export async function publishable(
  context: AnyContext,
  params: { readonly what: string; readonly text: string; readonly kind: "markdown" | "plain" },
): Promise<string> {
  const masked = await context.mask(params.what, params.text);
  return defuse(masked, { own: context.inputs.issue?.number ?? null, kind: params.kind });
}

/** Doing it twice is doing it once. */
export function defuse(
  text: string,
  params: { readonly own: number | null; readonly kind: "markdown" | "plain" },
): string {
  const closed = text.replaceAll(CLOSING, (all: string) =>
    all.replaceAll(REFERENCE, (one) => withoutEffect(one, params.own)),
  );
  if (params.kind === "plain") return withoutMentions(closed);
  // A mention in code has no effect, and code must stay what it is.
  return closed
    .split(CODE)
    .map((piece, index) => (index % 2 === 1 ? piece : withoutMentions(piece)))
    .join("");
}

/** Invisible: people read the same text, forges see no reference. */
const BREAK = "\u200B";

/** Words of GitHub and GitLab, and all references that follow one. */
const CLOSING =
  /\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)\b:?[ \t]{1,4}(?:issues?[ \t]{1,4})?(?:(?:[\w.-]{1,60}(?:\/[\w.-]{1,60}){1,3})?#[ \t]?\d{1,9}|GH-\d{1,9}|https?:\/\/[^\s)\]>]{1,200}\/\d{1,9})(?:(?:,[ \t]{0,3}(?:and[ \t]{1,3})?|[ \t]{1,3}and[ \t]{1,3}|[ \t]{1,3})(?:(?:[\w.-]{1,60}(?:\/[\w.-]{1,60}){1,3})?#\d{1,9}|GH-\d{1,9}|https?:\/\/[^\s)\]>]{1,200}\/\d{1,9})){0,20}/gi;
const REFERENCE =
  /(?:[\w.-]{1,60}(?:\/[\w.-]{1,60}){1,3})?#[ \t]?\d{1,9}|GH-\d{1,9}|https?:\/\/[^\s)\]>]{1,200}\/\d{1,9}/gi;
const CODE = /(```[^]*?(?:```|$)|`[^`\n]{1,400}`)/;

function withoutEffect(reference: string, own: number | null): string {
  const short = /^#[ \t]?(\d+)$/.exec(reference);
  if (short !== null && Number(short[1]) === own) return reference;
  return reference.replace(/(#[ \t]?|GH-|\/)(?=\d+$)/i, `$1${BREAK}`);
}

/** An address is none: in `a@b` a letter stands before the sign. */
function withoutMentions(text: string): string {
  return text.replaceAll(/(?<![\w.+/-])@(?=[A-Za-z0-9])/g, `@${BREAK}`);
}
