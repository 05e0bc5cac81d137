// What a repository says about itself at the base commit: the form of its titles, its pull request template, its
// instruction files and its test command. All of it is text of the repository: it is quoted, and nothing of it runs.

import { type TypeOf, anyOf, list, nullable, object, parseJsonAs, text } from "@holdfast/core/json";
import type { Branch } from "@holdfast/core/branch";

const TITLES_SHAPE = object({
  /** null: no form is common enough. */
  form: nullable(anyOf(["conventional", "tagged", "numbered", "plain"])),
  /** Tags or types that the subjects use, most frequent first. */
  tags: list(text),
  examples: list(text),
});
/** The form of the subjects: `feat(scope): …`, `[tag] …`, `[tag][#N] …` or without a prefix. */
export type Titles = TypeOf<typeof TITLES_SHAPE>;

const FILE_SHAPE = object({ path: text, text });
export const FACTS_SHAPE = object({
  titles: TITLES_SHAPE,
  template: nullable(FILE_SHAPE),
  /** Paths of files with instructions for contributors and agents. */
  instructions: list(text),
  testCommand: nullable(text),
});
export type RepositoryFacts = TypeOf<typeof FACTS_SHAPE>;

/** For runs that began before these facts were read. */
export const NO_FACTS: RepositoryFacts = {
  titles: { form: null, tags: [], examples: [] },
  template: null,
  instructions: [],
  testCommand: null,
};

const SUBJECTS = 50;
const FILE_BYTES = 16_384;

/** Reads the facts from git objects: what an agent changes in the worktree later changes none of them. */
export async function readRepositoryFacts(
  branch: Pick<Branch, "subjects" | "textsAt">,
  params: { readonly commit: string; readonly forge: string },
): Promise<RepositoryFacts> {
  const { commit, forge } = params;
  // Reverts are not counted, so more subjects are read than are counted.
  const subjects = await branch.subjects({ from: commit, most: 2 * SUBJECTS });
  const files = await branch.textsAt({
    commit,
    folders: [".", ".github", "docs", ".gitlab/merge_request_templates", ".github/PULL_REQUEST_TEMPLATE"],
    maxBytes: FILE_BYTES,
    wanted: (path) => path.length < 200 && WANTED.some((pattern) => pattern.test(path)),
  });
  return {
    titles: findTitles(subjects),
    template: findTemplate(files, forge),
    instructions: files.map(({ path }) => path).filter((path) => INSTRUCTIONS.test(path)),
    testCommand: findTestCommand(files),
  };
}

const TYPES = "feat|fix|docs|style|refactor|perf|test|build|ci|chore|revert";
const CONVENTIONAL = new RegExp(`^(${TYPES})(?:\\([^()]{1,60}\\))?!?:\\s+\\S`, "i");
const NUMBERED = /^\[([^[\]]{1,40})\]\s*\[#\d+\]\s*\S/;
const TAGGED = /^\[([^[\]]{1,40})\]\s*\S/;
const REVERTED = /^(?:revert\b|reapply "|merge (?:branch|pull request|remote-tracking|tag|commit)\b)/i;

/** The number that a forge appends when it squashes is not part of the form. */
const SQUASHED = /\s+\([#!]\d+\)$/;
const LEAST_SUBJECTS = 5;
const SHARE = 0.6;
const SHOWN_EXAMPLES = 3;
const SHOWN_TAGS = 20;
const SUBJECT_CHARACTERS = 120;

type Form = NonNullable<Titles["form"]>;

/** The form of at least 60 % of the newest 50 subjects, without merges and reverts. Fewer than five show no form. */
export function findTitles(subjects: readonly string[]): Titles {
  const counted = subjects
    .filter((subject) => !REVERTED.test(subject))
    .slice(0, SUBJECTS)
    .map((subject) => ({ subject, ...formOf(subject) }));
  const named = (form: Form) => counted.filter((one) => one.form === form);
  const form =
    counted.length < LEAST_SUBJECTS ? undefined : FORMS.find((one) => named(one).length >= SHARE * counted.length);
  if (form === undefined) return NO_FACTS.titles;
  const times = new Map<string, number>();
  for (const { tag } of named(form)) if (tag !== null) times.set(tag, (times.get(tag) ?? 0) + 1);
  const tags = [...times].toSorted(([, a], [, b]) => b - a).map(([tag]) => tag);
  const examples = named(form)
    .map(({ subject }) => subject.replace(SQUASHED, ""))
    .filter((subject) => subject.length <= SUBJECT_CHARACTERS);
  return { form, tags: tags.slice(0, SHOWN_TAGS), examples: examples.slice(0, SHOWN_EXAMPLES) };
}

const FORMS = ["conventional", "tagged", "numbered", "plain"] as const satisfies readonly Form[];

function formOf(subject: string): { readonly form: Form; readonly tag: string | null } {
  for (const [form, pattern] of [
    ["numbered", NUMBERED],
    ["tagged", TAGGED],
    ["conventional", CONVENTIONAL],
  ] as const) {
    const tag = pattern.exec(subject)?.[1];
    if (tag !== undefined) return { form, tag: form === "conventional" ? tag.toLowerCase() : tag };
  }
  return { form: "plain", tag: null };
}

type File = TypeOf<typeof FILE_SHAPE>;

const GITHUB_TEMPLATE = /^(?:\.github\/|docs\/)?pull_request_template(?:\.md|\.txt)?$/i;
const GITHUB_CHOICE = /^\.github\/PULL_REQUEST_TEMPLATE\/[^/]+\.md$/i;
const GITLAB_TEMPLATE = /^\.gitlab\/merge_request_templates\/[^/]+\.md$/i;
const INSTRUCTIONS = /^(?:(?:AGENTS|CLAUDE|CONTRIBUTING)\.md|(?:\.github|docs)\/CONTRIBUTING\.md)$/i;
const BUILD = /^(?:package\.json|pnpm-lock\.yaml|yarn\.lock|Makefile|go\.mod|Cargo\.toml|pyproject\.toml|pytest\.ini)$/;
const WANTED = [GITHUB_TEMPLATE, GITHUB_CHOICE, GITLAB_TEMPLATE, INSTRUCTIONS, BUILD];

/**
 * The template that the forge itself would fill in. Of several to choose from, only one named "default" is taken: no
 * file says which of the others fits.
 */
export function findTemplate(files: readonly File[], forge: string): File | null {
  const matching = (pattern: RegExp) => files.filter(({ path, text }) => pattern.test(path) && text.trim() !== "");
  const chosen = (found: readonly File[]) =>
    found.find(({ path }) => /\/default\.md$/i.test(path)) ?? (found.length === 1 ? found[0] : undefined);
  // In the order in which GitHub looks.
  const github = [".github/", "", "docs/"]
    .flatMap((folder) => matching(GITHUB_TEMPLATE).filter(({ path }) => path.replace(/[^/]*$/, "") === folder))
    .at(0);
  const atGithub = github ?? chosen(matching(GITHUB_CHOICE));
  const atGitlab = chosen(matching(GITLAB_TEMPLATE));
  return (forge === "gitlab" ? (atGitlab ?? atGithub) : (atGithub ?? atGitlab)) ?? null;
}

/** The usual test command of the repository's build tool, for an agent to run. Holdfast never runs it by itself. */
export function findTestCommand(files: readonly File[]): string | null {
  const textOf = (path: string) => files.find((file) => file.path === path)?.text;
  const script = packageScript(textOf("package.json"));
  if (script !== null && !script.includes("no test specified")) {
    if (textOf("pnpm-lock.yaml") !== undefined) return "pnpm test";
    return textOf("yarn.lock") === undefined ? "npm test" : "yarn test";
  }
  if (/^test\s*:/m.test(textOf("Makefile") ?? "")) return "make test";
  if (textOf("go.mod") !== undefined) return "go test ./...";
  if (textOf("Cargo.toml") !== undefined) return "cargo test";
  const python = textOf("pytest.ini") !== undefined || /^\[tool\.pytest/m.test(textOf("pyproject.toml") ?? "");
  return python ? "python -m pytest" : null;
}

function packageScript(text: string | undefined): string | null {
  return text === undefined ? null : (parseJsonAs(PACKAGE, text)?.scripts.test ?? null);
}

const PACKAGE = object({ scripts: object({ test: text }) });
