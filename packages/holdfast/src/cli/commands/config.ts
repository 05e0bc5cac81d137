/** The `config` command: shows the settings in force and their origins, checks the file, or prints its path. */
import { basename } from "node:path";
import type { ConfigProblem } from "@holdfast/formats/settings-file";
import { sha256 } from "@holdfast/core/json";
import { BUILT_IN_NAMES, loadPlugin } from "@holdfast/workflows/built-in";
import { CRUNCH_DIRECTORY } from "@holdfast/workflows/crunch/settings";
import type { EffectiveConfig, Origin, Setting } from "../../config/effective-config.ts";
import { findConfig, loadConfig } from "../../config/load-config.ts";
import type { OwnPrompt } from "../../config/workflow-settings.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import { itemDocument } from "../consent-text.ts";
import type { Exit } from "../exit.ts";
import { type Page, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { renderTable } from "../output/table.ts";
import { escapeLines, escapeText } from "../output/text.ts";

export const spec = {
  name: "config",
  summary: "show the settings in force and the origin of each",
  details: [
    "A flag takes precedence over the environment, then the file, then the default. `holdfast config check` reads the file and the prompt templates and lists their problems.",
  ],
  operands: [
    {
      name: "ACTION",
      about: "show (default) or check",
      required: false,
      completes: "nothing",
      choices: ["show", "check"],
    },
  ],
  consent: "reads",
  flags: {
    path: { type: "boolean", about: "print only the path of the config file" },
    crunch: { type: "boolean", about: "print the files that define crunch's teams, as templates for your own" },
    prompts: { type: "boolean", about: "print the prompt templates in force, and where to put your own" },
  },
  examples: [
    { line: "holdfast config", about: "list every setting and its origin" },
    { line: "holdfast config check", about: "check the file; exit status 2 if it is not valid" },
    { line: "holdfast config --crunch", about: "print the crunch workflow's agents, tasks and voting rules" },
    { line: "holdfast config --prompts", about: "print the prompts of each workflow" },
    { line: 'cat "$(holdfast config --path)"', about: "print the file itself" },
  ],
  json: '{"path": "..." or null, "settings": [{"key", "value", "origin"}]}; check: {"path", "ok", "problems": [{"line", "column", "message", "hint", "excerpt"}]}; --crunch: {"directory", "files": [{"path", "text"}]}; --prompts: {"directories": {"user", "repository"}, "prompts": [{"workflow", "name", "from", "path", "digest", "text"}]}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  if (input.on("path")) return showPath(shell);
  if (input.on("crunch")) return showCrunch(shell);
  if (input.on("prompts")) return showPrompts(shell);
  if (input.operand(0) === "check") return check(shell);
  const config = await shell.consent.stated();
  const waiting = (await shell.consent.items()).filter(({ trusted }) => !trusted).map(({ item }) => item);
  shell.print({
    json: () => ({ path: config.path, settings: config.entries, untrusted: waiting.map(itemDocument) }),
    text: (page) => settingsText(config, page),
  });
  if (waiting.length > 0)
    shell.notify(
      `Not in force, because they need your consent: ${waiting.map(({ key }) => escapeText(key)).join(", ")}. See: ${shell.talk.program} trust`,
    );
  if (config.path === null)
    shell.notify(`No config file: these are the defaults. ${shell.talk.program} setup writes one.`);
  return "done";
}

/** Only finds the file, so that it also works for a file that does not parse. */
async function showPath(shell: Shell): Promise<Exit> {
  const path = findConfig(shell.cwd);
  shell.print({ json: () => ({ path }), text: () => (path === null ? "" : `${path}\n`), verbatim: true });
  if (path !== null) return "done";
  shell.notify(`There is no config file; ${shell.talk.program} setup writes one.`);
  return "nothing";
}

/** Shows the crunch settings in force; what the repository does not set is built in. */
async function showCrunch(shell: Shell): Promise<Exit> {
  const { crunchTemplate } = await import("@holdfast/workflows/crunch/settings-files");
  const files = crunchTemplate(await shell.consent.crunchSettings());
  shell.print({
    json: () => ({ directory: CRUNCH_DIRECTORY, files }),
    text: () => files.map(({ path, text }) => `# ==> ${CRUNCH_DIRECTORY}/${path} <==\n${text}`).join("\n"),
    verbatim: true,
  });
  shell.notify(
    `To change one, save an edited copy at its path below the repository's root; the others keep their defaults.`,
  );
  return "done";
}

interface ShownPrompt {
  readonly workflow: string;
  readonly name: string;
  readonly from: OwnPrompt["from"] | "built-in";
  readonly path: string | null;
  readonly digest: string;
  readonly text: string;
}

/** Shows the template of every prompt. A repository's template without consent is not in force. */
async function showPrompts(shell: Shell): Promise<Exit> {
  const [{ PROMPT_DIRECTORY, readPrompts, userPromptDirectory }, { builtInTemplate }] = await Promise.all([
    import("../../config/workflow-settings.ts"),
    import("@holdfast/workflows/prompts"),
  ]);
  const waiting = new Set((await shell.consent.items()).flatMap(({ item, trusted }) => (trusted ? [] : [item.file])));
  const files = (await shell.consent.promptFiles()).filter(({ path }) => !waiting.has(path));
  const { impl } = (await shell.config()).settings.work;
  const prompts: ShownPrompt[] = [];
  for (const workflow of BUILT_IN_NAMES) {
    const own = await readPrompts(workflow, files, workflow === "impl" ? impl.prompts : {});
    for (const name of Object.keys((await loadPlugin(workflow))?.prompts.table ?? {})) {
      const builtIn = { from: "built-in", path: null, text: builtInTemplate(workflow, name) } as const;
      const { from, path, text } = own[name] ?? builtIn;
      prompts.push({ workflow, name, from, path, digest: sha256(text).slice(0, 12), text });
    }
  }
  const directories = { user: userPromptDirectory(shell.env), repository: PROMPT_DIRECTORY };
  shell.print({
    json: () => ({ directories, prompts }),
    text: () =>
      prompts
        .map(({ workflow, name, path, digest, text }) => {
          const origin = path === null ? "built in" : escapeText(path);
          return `# ==> ${workflow}/${name}.md (${origin}, ${digest}) <==\n${escapeLines(text)}`;
        })
        .join("\n"),
    verbatim: true,
  });
  shell.notify(
    `To change one, save an edited copy below ${escapeText(directories.user)} for all repositories, or below ${PROMPT_DIRECTORY} for this one, which needs consent.`,
  );
  return "done";
}

async function check(shell: Shell): Promise<Exit> {
  const loaded = await loadConfig({ cwd: shell.cwd, env: shell.env, storeFlag: undefined, allows: () => true });
  const path = loaded.ok ? loaded.config.path : loaded.path;
  const problems = loaded.ok ? [] : loaded.problems;
  if (loaded.ok) await checkPrompts(shell, loaded.config.settings.work.impl.prompts);
  shell.print({ json: () => ({ path, ok: loaded.ok, problems }), text: (page) => checkText({ path, problems }, page) });
  return loaded.ok ? "done" : "usage";
}

/** Throws CONFIG_INVALID for a template that a run would refuse, with or without consent to it. */
async function checkPrompts(shell: Shell, named: Readonly<Record<string, string | null>>): Promise<void> {
  const { readPrompts } = await import("../../config/workflow-settings.ts");
  const files = await shell.consent.promptFiles();
  for (const workflow of BUILT_IN_NAMES) await readPrompts(workflow, files, workflow === "impl" ? named : {});
}

function settingsText(config: EffectiveConfig, page: Page): string {
  const columns = [{ title: "KEY" }, { title: "VALUE", shrinkTo: 11 }, { title: "FROM", shrinkTo: 10, expendable: 1 }];
  const rows = config.entries.map((setting) => [
    { text: setting.key, style: "bold" } as const,
    { text: valueText(setting.value) },
    {
      text: originText(setting.origin, config.path),
      style: setting.origin.kind === "default" ? "dim" : "cyan",
    } as const,
  ]);
  return renderTable({ columns, rows }, page);
}

function checkText(
  checked: { readonly path: string | null; readonly problems: readonly ConfigProblem[] },
  page: Page,
): string {
  const { path, problems } = checked;
  if (path === null) return "There is no config file; the defaults are valid.\n";
  if (problems.length === 0) return `${escapeText(path)} is valid.\n`;
  const shown = problems.map((problem) => {
    const place = `${basename(path)}:${problem.line}:${problem.column}`;
    const excerpt = escapeLines(problem.excerpt).replaceAll("\n", "\n  ");
    const hint = problem.hint === null ? "" : `  ${paint(page, "cyan", escapeText(problem.hint))}\n`;
    return `${paint(page, "bold", escapeText(place))}: ${escapeText(problem.message)}\n  ${excerpt}\n${hint}\n`;
  });
  return `${shown.join("")}${countText(problems.length, "problem")}.\n`;
}

function valueText(value: Setting["value"]): string {
  return typeof value === "object" ? `${value.keep} per ${value.per}` : String(value);
}

function originText(origin: Origin, path: string | null): string {
  switch (origin.kind) {
    case "default":
      return "default";
    case "file":
      return `${basename(path ?? "")}${origin.line === null ? "" : `:${origin.line}`}`;
    case "environment":
      return origin.variable;
    case "flag":
      return origin.flag;
  }
}
