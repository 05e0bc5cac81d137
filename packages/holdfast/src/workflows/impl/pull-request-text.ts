import { closingBody } from "../publish/closing-body.ts";
import type { Finalize, Issue } from "./state.ts";

export type TitleVerdict =
  | { readonly kind: "valid"; readonly title: string }
  | { readonly kind: "invalid"; readonly why: string };

/** `[tag][#N] description`, with a known tag and the number of this run's issue. */
export function checkTitle(params: {
  readonly title: string;
  readonly issue: number;
  readonly tags: readonly string[];
}): TitleVerdict {
  const { issue, tags } = params;
  const title = params.title.trim();
  const rule = `a pull request's title must be \`[tag][#${issue}] Brief description\`, such as \`[${tags[0] ?? "feat"}][#${issue}] Add a login page\``;
  const match = /^\[([^\]]+)\]\s*\[#(\d+)\]\s+\S/.exec(title);
  const [, tag, number] = match ?? [];
  if (tag === undefined || number === undefined)
    return { kind: "invalid", why: `"${excerpt(title)}" is no title: ${rule}` };
  if (!tags.includes(tag))
    return { kind: "invalid", why: `"${excerpt(tag)}" is not a tag: ${rule}; tags are ${tags.join(", ")}` };
  if (number !== String(issue))
    return { kind: "invalid", why: `The title names issue #${number}, but this run is for issue #${issue}: ${rule}` };
  if (title.length > MAX_TITLE)
    return { kind: "invalid", why: `The title has ${title.length} characters, and ${MAX_TITLE} are allowed: ${rule}` };
  if (/\p{Cc}/u.test(title)) return { kind: "invalid", why: `The title holds control characters: ${rule}` };
  return { kind: "valid", title };
}

/** What forges take. */
const MAX_TITLE = 256;

function excerpt(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}

/** For an agent that wrote a marker and nothing else. */
export function titleOf(finalize: Finalize | null, issue: Issue, tags: readonly string[]): string {
  return finalize?.title ?? `[${tags[0] ?? "feat"}][#${issue.number}] ${ownTitle(issue)}`;
}

function ownTitle(issue: Issue): string {
  const words = issue.title.replaceAll(/\p{Cc}+/gu, " ").trim();
  return words.slice(0, 200) || "Implementation";
}

/** The body without the title line, closing this issue. */
export function bodyOf(finalize: Finalize | null, issue: Issue): string {
  return closingBody(finalize?.body ?? "", issue.number);
}
