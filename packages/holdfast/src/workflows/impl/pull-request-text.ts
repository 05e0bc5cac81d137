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
  if (tag === undefined || number === undefined) return { kind: "invalid", why: `"${title}" is no title: ${rule}` };
  if (!tags.includes(tag))
    return { kind: "invalid", why: `"${tag}" is not a tag: ${rule}; tags are ${tags.join(", ")}` };
  if (number !== String(issue))
    return { kind: "invalid", why: `The title names issue #${number}, but this run is for issue #${issue}: ${rule}` };
  return { kind: "valid", title };
}

/** For an agent that wrote a marker and nothing else. */
export function titleOf(finalize: Finalize | null, issue: Issue, tags: readonly string[]): string {
  return finalize?.title ?? `[${tags[0] ?? "feat"}][#${issue.number}] ${issue.title.trim() || "Implementation"}`;
}

/** The body without the title line, closing this issue and no other. */
export function bodyOf(finalize: Finalize | null, issue: Issue): string {
  const body = finalize?.body.trim() ?? "";
  if (closes(body, issue.number)) return body;
  return `${body}${body === "" ? "" : "\n\n"}Closes #${issue.number}`;
}

/** "closes #420" does not close 42, and neither does "discloses #42". */
export function closes(body: string, issue: number): boolean {
  return new RegExp(`(?<![\\w-])closes\\s+#\\s*${issue}(?!\\d)`, "i").test(body);
}
