import { closingBody } from "../publish/closing-body.ts";
import type { Finalize, Issue } from "./state.ts";

/**
 * The title of the pull request, `[tag][#N] description`: from the agent's proposal where it has usable words, else from the issue's title. There is
 * no proposal that this cannot turn into a title, so a title never costs an agent call.
 */
export function titleOf(finalize: Finalize | null, issue: Issue, tags: readonly string[]): string {
  const proposed = readProposal(oneLine(finalize?.title ?? ""), tags);
  const words = proposed.words || oneLine(issue.title) || "Implementation";
  const start = `[${proposed.tag ?? tags[0] ?? "feat"}][#${issue.number}] `;
  return `${start}${cut(words, MAX_TITLE - start.length)}`;
}

/** The body without the title line, closing this issue. */
export function bodyOf(finalize: Finalize | null, issue: Issue): string {
  return closingBody(finalize?.body ?? "", issue.number);
}

/** GitHub accepts 256 characters, GitLab 255. */
const MAX_TITLE = 255;

/** The number in a proposal is ignored: the run knows its issue. An unknown tag is dropped where it is in a tag's place. */
function readProposal(line: string, tags: readonly string[]): { readonly tag: string | null; readonly words: string } {
  const known = (name: string | undefined): string | null =>
    tags.find((tag) => tag.toLowerCase() === name?.trim().toLowerCase()) ?? null;
  const full = /^\[([^\]]*)\]\s*\[#?\d+\]\s*(.*)$/.exec(line);
  if (full !== null) return { tag: known(full[1]), words: full[2] ?? "" };
  const numbered = /^\[#?\d+\]\s*(.*)$/.exec(line);
  if (numbered !== null) return { tag: null, words: numbered[1] ?? "" };
  const tagged = /^\[([^\]]*)\]\s*(.*)$/.exec(line);
  if (tagged !== null && known(tagged[1]) !== null) return { tag: known(tagged[1]), words: tagged[2] ?? "" };
  const conventional = /^([a-z.]+)(?:\([^)]*\))?!?:\s+(.*)$/i.exec(line);
  const type = conventional?.[1] === "fix" ? "bugfix" : conventional?.[1];
  if (known(type) !== null) return { tag: known(type), words: conventional?.[2] ?? "" };
  return { tag: null, words: line };
}

/** One line without control characters, and without the Markdown or the label that some agents put around a title. */
function oneLine(text: string): string {
  return text
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim()
    .replace(/^#{1,6}\s+/, "")
    .replace(/^(?:\*\*)?(?:PR )?title:?(?:\*\*)?:?\s+(?=\S)/i, "")
    .replace(/^(\*\*|["'`])(.+)\1$/, "$2")
    .toWellFormed()
    .trim();
}

function cut(words: string, most: number): string {
  if (words.length <= most) return words;
  const kept = words.slice(0, most - 1).replace(/\p{Cs}$/u, "");
  return `${kept.trimEnd()}…`;
}
