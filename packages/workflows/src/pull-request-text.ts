// The title and body of a pull request. Holdfast forms both: an agent's words in another form cost no round.

import { closingBody, stripMarkers } from "./forge.ts";
import type { Titles } from "./repository-facts.ts";
import { oneLine as shorten } from "./text.ts";

export interface TitleParams {
  /** An agent's proposal, or the title of the issue; null: there is none. */
  readonly proposed: string | null;
  /** The words of the title if the proposal has none. */
  readonly otherwise: string;
  /** null: the run has no issue, and the title no number. */
  readonly issue: number | null;
  /** The form that the repository's history shows, or the workflow's own. */
  readonly form: NonNullable<Titles["form"]>;
  /** Accepted tags; the first one is the default. */
  readonly tags: readonly string[];
}

/** GitHub accepts 256 characters, GitLab 255. */
const MAX_TITLE = 255;

/** Every proposal yields a title in the given form, on one line and of at most 255 characters. */
export function formTitle(params: TitleParams): string {
  const { issue, tags } = params;
  const form = params.form === "numbered" && issue === null ? "plain" : params.form;
  const proposed = readProposal(oneLine(params.proposed ?? ""), form, tags);
  const words = proposed.words || oneLine(params.otherwise) || "Implementation";
  const tag = proposed.tag ?? tags[0] ?? "feat";
  switch (form) {
    case "numbered":
      return fit(`[${tag}][#${issue}] `, words);
    case "tagged":
      return fit(`[${tag}] `, words);
    case "plain":
      return fit("", words);
    case "conventional":
      return fit(
        `${proposed.prefix ?? TYPE_OF.get(tag.toLowerCase()) ?? "feat"}: `,
        // The usual check for conventional commits refuses a capital after the colon. Names in capitals stay.
        proposed.prefix === null ? words.replace(/^\p{Lu}(?=\p{Ll}|\s)/u, (first) => first.toLowerCase()) : words,
      );
  }
}

const TYPES = ["feat", "fix", "docs", "style", "refactor", "perf", "test", "build", "ci", "chore", "revert"];
const TYPE_OF: ReadonlyMap<string, string> = new Map([
  ...TYPES.map((type) => [type, type] as const),
  ["bugfix", "fix"],
  ["bug", "fix"],
  ["feature", "feat"],
]);
const TAG_OF: ReadonlyMap<string, string> = new Map([["fix", "bugfix"]]);

interface Proposal {
  readonly tag: string | null;
  /** `type(scope)!` of a conventional proposal. */
  readonly prefix: string | null;
  readonly words: string;
}

/**
 * Ignores the issue number in a proposal, because the run knows its issue. Without the number, an unknown tag belongs to
 * the words, unless the repository's titles begin with tags.
 */
function readProposal(line: string, form: TitleParams["form"], tags: readonly string[]): Proposal {
  const known = (name: string): string | null =>
    tags.find((tag) => tag.toLowerCase() === name.trim().toLowerCase()) ?? null;
  const of = (tag: string | null, words: string | undefined): Proposal => ({ tag, prefix: null, words: words ?? "" });
  const full = /^\[([^\]]*)\]\s*\[#?\d+\]\s*(.*)$/.exec(line);
  if (full !== null) return of(known(full[1] ?? ""), full[2]);
  const numbered = /^\[#?\d+\]\s*(.*)$/.exec(line);
  if (numbered !== null) return of(null, numbered[1]);
  const [, tag, tagged] = /^\[([^[\]]{1,40})\]\s*(.*)$/.exec(line) ?? [];
  if (tag !== undefined && (form === "tagged" || known(tag) !== null))
    return of(known(tag) ?? (tag.trim() || null), tagged);
  const [, type = "", scope = "", words] = /^([a-z.]+)((?:\([^()]{1,60}\))?!?):\s+(.*)$/i.exec(line) ?? [];
  const isType = TYPES.includes(type.toLowerCase());
  if (form === "conventional" && isType)
    return { tag: null, prefix: `${type.toLowerCase()}${scope}`, words: words ?? "" };
  const named = known(TAG_OF.get(type) ?? type) ?? known(type);
  if (type !== "" && (named !== null || (form === "plain" && isType))) return of(named, words);
  return of(null, line);
}

/**
 * Returns one line without control characters, overrides of the text direction, and the Markdown or label that some agents put around a title.
 */
function oneLine(text: string): string {
  return text
    .replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, "")
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim()
    .replace(/^#{1,6}\s+/, "")
    .replace(/^(?:\*\*)?(?:PR )?title:?(?:\*\*)?:?\s+(?=\S)/i, "")
    .replace(/^(\*\*|["'`])(.+)\1$/, "$2")
    .toWellFormed()
    .trim();
}

function fit(start: string, words: string): string {
  const most = MAX_TITLE - start.length;
  if (words.length <= most) return `${start}${words}`;
  const kept = words.slice(0, most - 1).replace(/\p{Cs}$/u, "");
  return `${start}${kept.trimEnd()}…`;
}

export interface BodyParams {
  /** What the agent or the workflow says about the change. */
  readonly words: string;
  /** The repository's pull request template; null: there is none. */
  readonly template: string | null;
  /** What Holdfast checked, one sentence each. */
  readonly tested: readonly string[];
  /** null: the run has no issue to close. */
  readonly issue: number | null;
  /** The run that made it; null: do not say that an agent did. */
  readonly madeBy: string | null;
}

/** A body that follows the template, names what was tested, closes the issue and says that an agent made it. */
export function formBody(params: BodyParams): string {
  const words = stripMarkers(params.words);
  const tested = params.tested.map((line) => `- ${line}`).join("\n");
  const filled = params.template === null ? null : fillTemplate(stripMarkers(params.template), { words, tested });
  const plain = tested === "" ? words : `${words}\n\n## Tested\n\n${tested}`.trim();
  const text = filled ?? plain;
  const closing = params.issue === null ? text : closingBody(text, params.issue);
  if (params.madeBy === null) return closing;
  return `${closing}\n\n---\nAn agent made this pull request (Holdfast run \`${params.madeBy}\`).`.trim();
}

interface Section {
  /** The heading line; "" before the first heading. */
  readonly heading: string;
  readonly content: string;
}

/**
 * Puts words and test results into the template. Words with headings of the template go below those; other words go below
 * the heading for the description. Checklists stay unchecked: Holdfast cannot know whether they hold. Returns null for a
 * template without headings, which has no form to follow.
 */
function fillTemplate(
  template: string,
  { words, tested }: { readonly words: string; readonly tested: string },
): string | null {
  const sections = splitSections(template.replaceAll(/<!--[^]*?(?:-->|$)/g, ""));
  const headings = new Set(sections.map(({ heading }) => nameOf(heading)));
  headings.delete("");
  if (headings.size === 0) return null;
  const named = sections.map(({ heading }) => heading).filter((heading) => heading !== "");
  const description = named.find((heading) => DESCRIBES.test(heading)) ?? named[0];
  const tests = named.find((heading) => TESTS.test(heading) && heading !== description);
  const own = splitSections(words);
  const follows = own.some(({ heading }) => headings.has(nameOf(heading)));
  const filled = sections.map(({ heading, content }): Section => {
    const said = follows
      ? own.filter((one) => nameOf(one.heading) === nameOf(heading)).map((one) => one.content)
      : [heading === description ? words : ""];
    const given = [...said, heading === tests ? tested : ""].map((part) => part.trim()).filter((part) => part !== "");
    // What replaces a placeholder sentence takes its place. A checklist asks people and stays.
    const isKept = given.length === 0 || (hasChecklist(content) && !said.some(hasChecklist));
    return { heading, content: [...given, ...(isKept ? [content] : [])].join("\n\n") };
  });
  const others = follows ? own.filter(({ heading }) => heading !== "" && !headings.has(nameOf(heading))) : [];
  const last = tests === undefined ? [{ heading: "## Tested", content: tested }] : [];
  return [...filled, ...others, ...last.filter(({ content }) => content !== "")]
    .map(({ heading, content }) => [heading, content.trim()].filter((part) => part !== "").join("\n\n"))
    .filter((part) => part !== "")
    .join("\n\n");
}

const DESCRIBES = /descri|summary|what|change|overview|purpose/i;
const TESTS = /\btest|verif|how has this/i;

function hasChecklist(content: string): boolean {
  return /^\s*[-*]\s+\[[ xX]\]/m.test(content);
}

function nameOf(heading: string): string {
  return heading.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, "");
}

/** A heading inside a fenced block is code. */
function splitSections(text: string): readonly Section[] {
  const sections: { heading: string; content: string[] }[] = [{ heading: "", content: [] }];
  let fenced = false;
  for (const line of text.split(/\r?\n/)) {
    if (/^\s*(?:```|~~~)/.test(line)) fenced = !fenced;
    if (!fenced && /^#{1,6}\s+\S/.test(line)) sections.push({ heading: line.trim(), content: [] });
    else sections.at(-1)?.content.push(line);
  }
  return sections.map(({ heading, content }) => ({ heading, content: content.join("\n") }));
}

/** A shell command as code on one line. */
export function inCode(command: string): string {
  return `\`${shorten(command, 200).replaceAll("`", "'")}\``;
}
