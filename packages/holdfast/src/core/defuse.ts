/**
 * Text in which mentions have no effect and no issue but `own` is closed. Applying it twice gives the same text. `plain`: a text that a forge does not
 * render, so that code in it has no marks.
 */
export function defuse(
  text: string,
  params: { readonly own: number | null; readonly kind: "markdown" | "plain" },
): string {
  const closed = withoutClosing(text, params.own);
  if (params.kind === "plain") return withoutMentions(closed);
  // A mention in code has no effect, and code must stay what it is.
  return closed
    .split(CODE)
    .map((piece, index) => (index % 2 === 1 ? piece : withoutMentions(piece)))
    .join("");
}

/**
 * Whether a commit message closes another issue or notifies a group. Other mentions do not count: `@types/node` and `@param` are code, and
 * asking about each of them would teach users to answer without reading.
 */
export function hasOutsideEffect(message: string, own: number | null): boolean {
  return (
    withoutClosing(message, own) !== message || /(?<![\w.+/-])@(?:everyone|all|here|channel)\b(?![/-])/i.test(message)
  );
}

/** Invisible: people read the same text, forges see no reference. */
const BREAK = "\u200B";

/** Words of GitHub and GitLab, and all references that follow one. */
const CLOSING =
  /\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)\b:?[ \t]{1,4}(?:issues?[ \t]{1,4})?(?:(?:[\w.-]{1,60}(?:\/[\w.-]{1,60}){1,3})?#[ \t]?\d{1,9}|GH-\d{1,9}|https?:\/\/[^\s)\]>]{1,200}\/\d{1,9})(?:(?:,[ \t]{0,3}(?:and[ \t]{1,3})?|[ \t]{1,3}and[ \t]{1,3}|[ \t]{1,3})(?:(?:[\w.-]{1,60}(?:\/[\w.-]{1,60}){1,3})?#\d{1,9}|GH-\d{1,9}|https?:\/\/[^\s)\]>]{1,200}\/\d{1,9})){0,20}/gi;
const REFERENCE =
  /(?:[\w.-]{1,60}(?:\/[\w.-]{1,60}){1,3})?#[ \t]?\d{1,9}|GH-\d{1,9}|https?:\/\/[^\s)\]>]{1,200}\/\d{1,9}/gi;
const CODE = /(```[^]*?(?:```|$)|`[^`\n]{1,400}`)/;

function withoutClosing(text: string, own: number | null): string {
  return text.replaceAll(CLOSING, (all: string) => all.replaceAll(REFERENCE, (one) => withoutEffect(one, own)));
}

function withoutEffect(reference: string, own: number | null): string {
  const short = /^#[ \t]?(\d+)$/.exec(reference);
  if (short !== null && Number(short[1]) === own) return reference;
  return reference.replace(/(#[ \t]?|GH-|\/)(?=\d+$)/i, `$1${BREAK}`);
}

/** An address is none: in `a@b` a letter stands before the sign. */
function withoutMentions(text: string): string {
  return text.replaceAll(/(?<![\w.+/-])@(?=[A-Za-z0-9])/g, `@${BREAK}`);
}
