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
    withoutClosing(message, own) !== message ||
    /(?<![A-Za-z0-9])@(?:everyone|all|here|channel)(?![\w/-])/i.test(message)
  );
}

/** Invisible: people read the same text, forges see no reference. */
const BREAK = "\u200B";

/** One reference to an issue, in this repository or in another one. */
const ONE = String.raw`(?:[\w.-]{1,100}(?:\/[\w.-]{1,100}){1,9})?#[ \t]?\d{1,9}|GH-\d{1,9}|https?:\/\/[^\s)\]>]{1,200}\/\d{1,9}`;
/** Words of GitHub and GitLab, and all references that follow one. */
const CLOSING = new RegExp(
  String.raw`\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)\b\s{0,20}:?\s{1,200}(?:issues?\s{1,20})?(?:${ONE})(?:\s{0,20}(?:,\s{0,20})?(?:and\s{1,20})?(?:${ONE}))*`,
  "gi",
);
const REFERENCE = new RegExp(ONE, "gi");
/** A fence that is not closed is taken for text: forges differ in where they end it. */
const CODE = /(```[^]*?```|`[^`\n]{1,400}`)/;

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
  return text.replaceAll(/(?<![A-Za-z0-9])@(?=[A-Za-z0-9])/g, `@${BREAK}`);
}
