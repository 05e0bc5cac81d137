/**
 * Finds the repository files that an agent executes or loads: scripts that a `command:` names and the files of
 * PROJECT_FILES. They need consent by their content in the worktree in which the agent runs. That content may differ
 * from the checkout: a base branch that moved, a rebase, or the agent itself can change it.
 */
import { readdirSync, statSync } from "node:fs";
import { basename, join, relative, resolve, sep } from "node:path";
import { type AGENT_NAMES, AGENT_PROGRAMS, splitAgent } from "@holdfast/core/agent";
import { type ConsentItem, type FileText, fileItem, textOf } from "./consent.ts";

export interface AgentFilesParams {
  /** In the form that runs use: `claude:opus`, `command:./x.sh`. */
  readonly agents: readonly string[];
  /** The repository. */
  readonly root: string;
  /** The worktree in which an agent is about to run; absent: the repository itself, before a run. */
  readonly worktree?: string;
  /**
   * The arguments of the command that were files before the first call. An argument that became a file later is the
   * agent's output and needs no consent. Absent: every argument that is a file counts.
   */
  readonly argumentsAtStart?: ReadonlySet<string>;
}

export function agentFileItems(params: AgentFilesParams): readonly ConsentItem[] {
  const items = params.agents.flatMap((agent) => [...scriptItems(agent, params), ...projectItems(agent, params)]);
  const found = new Map(items.map((item) => [item.digest, item]));
  return [...found.values()].toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

/**
 * The scripts that an agent's command executes. A user who types the command consents to them as they are in the
 * checkout.
 */
export function scriptItems(agent: string, params: Omit<AgentFilesParams, "agents">): readonly ConsentItem[] {
  const { root, worktree = root, argumentsAtStart } = params;
  const { provider, model } = splitAgent(agent);
  if (model === null || AGENT_PROGRAMS.includes(provider)) return [];
  // Scripted agents read their script from the checkout; a command runs in the worktree.
  const isScripted = provider.startsWith("scripted");
  const base = isScripted ? root : worktree;
  const { executed, passed } = isScripted ? { executed: [model], passed: [] } : filesOf(model, base);
  const old = passed.filter((name) => argumentsAtStart?.has(name) !== false);
  return insideOf([...executed, ...old], base, root).flatMap(({ path, home }) => {
    const text = textOf(path);
    return text === undefined ? [] : [fileItem({ path, root: home, text, danger: "executes", uses: ["work"] })];
  });
}

/**
 * Whether a command starts something that its words do not name: the shell expands a word, the command changes the
 * folder, or the program runs what its own files name. Such targets can change without a new question to the user.
 */
export function startsUnknown(agent: string): boolean {
  const command = commandOf(agent);
  if (command === null) return false;
  if (/[$`\\*?[\]~]/.test(command)) return true;
  return simpleCommands(command).some((words) => {
    const at = words.findIndex((word) => !isBeforeProgram(word));
    const program = basename(words[at] ?? "");
    const isInline = words.slice(at + 1).some((word) => /^-\w*[cme]$/.test(word));
    return RUNNERS.test(program) || (INTERPRETERS.test(program) && isInline);
  });
}

const RUNNERS = /^(?:cd|pushd|npm|npx|yarn|pnpm|bunx|uvx|make|just|task)$/;

/** Scripts and programs that a command gets as arguments. The command's program may execute them. */
export function argumentFiles(agent: string, worktree: string): ReadonlySet<string> {
  const command = commandOf(agent);
  return new Set(command === null ? [] : filesOf(command, worktree).passed);
}

/** The shell command of a `command:` agent; null for known agent programs and for scripted agents. */
function commandOf(agent: string): string | null {
  const { provider, model } = splitAgent(agent);
  return AGENT_PROGRAMS.includes(provider) || provider.startsWith("scripted") ? null : model;
}

/** Files that the agent's program loads by itself. A command may start such a program under its own name. */
function projectItems(agent: string, params: Omit<AgentFilesParams, "agents">): readonly ConsentItem[] {
  const { provider, model } = splitAgent(agent);
  const isOwn = AGENT_PROGRAMS.includes(provider);
  const base = params.worktree ?? params.root;
  const makers = Object.entries(PROJECT_FILES).filter(([maker]) =>
    isOwn ? maker === provider : !provider.startsWith("scripted") && new RegExp(`\\b${maker}\\b`).test(model ?? ""),
  );
  const names = new Set(makers.flatMap(([, files]) => files));
  const wanted = [...names].filter((name) => params.worktree !== undefined || !LOCAL_FILES.has(name));
  return wanted.flatMap((name) =>
    (name.endsWith("/") ? filesBelow(join(base, name)) : [join(base, name)]).flatMap((path) => {
      const text = textOf(path);
      if (text === undefined) return [];
      const more = scriptsNamedBy(text, base);
      return [fileItem({ path, root: base, text, more, danger: "loads", uses: ["work"] })];
    }),
  );
}

/**
 * Repository files that a settings file names in quotes, alone or as part of a command. JSON, JSON with comments and
 * TOML use the same quotes. Permissions (`Bash(./x.sh)`) start nothing, and texts (`AGENTS.md`) are not executed, so
 * both are skipped.
 */
function scriptsNamedBy(text: string, base: string): readonly FileText[] {
  const values = [...text.matchAll(/"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'/g)].map(([, double, single]) =>
    double === undefined ? (single ?? "") : unescaped(double),
  );
  const named = values
    .filter((value) => !/^\w+\(.*\)$/.test(value))
    .flatMap((value) => {
      const { executed, passed } = filesOf(value, base);
      return [value, ...executed, ...passed];
    });
  const places = insideOf(
    named.filter((name) => !TEXT.test(name)),
    base,
    base,
  );
  return places.flatMap(({ path }) => {
    const content = textOf(path);
    return content === undefined ? [] : [{ name: relative(base, path), text: content }];
  });
}

const TEXT = /\.(?:md|mdx|txt|rst)$/i;

/** Decodes the escapes of a JSON or TOML string; returns the text unchanged if they are not valid. */
function unescaped(text: string): string {
  try {
    return String(JSON.parse(`"${text}"`));
  } catch {
    return text;
  }
}

interface CommandFiles {
  /** Programs, and scripts that are passed to an interpreter. */
  readonly executed: readonly string[];
  /** Arguments that are scripts by their name or executable by their mode. */
  readonly passed: readonly string[];
}

/** The words of a command that name files it may execute. What such a file starts in turn cannot be determined. */
function filesOf(command: string, base: string): CommandFiles {
  const isFile = (word: string): boolean => statSync(resolve(base, word), { throwIfNoEntry: false })?.isFile() === true;
  const executed = new Set<string>();
  const passed = new Set<string>();
  for (const words of simpleCommands(command)) {
    let next: "program" | "script" | "argument" = "program";
    let isTee = false;
    for (const word of words) {
      const parts = [word, ...word.split(/[=,]/)].filter((part) => part !== "");
      if (next === "program") {
        if (isBeforeProgram(word)) continue;
        executed.add(word);
        isTee = basename(word) === "tee";
        next = INTERPRETERS.test(basename(word)) ? "script" : "argument";
      } else if (next === "script") {
        for (const part of parts) if (isFile(part)) executed.add(part);
        if (!word.startsWith("-") && isFile(word)) next = "argument";
      } else if (!isTee) {
        for (const part of parts) if (isFile(part) && isExecutable(resolve(base, part))) passed.add(part);
      }
    }
  }
  return { executed: [...executed], passed: [...passed] };
}

/** Words that precede the program of a command. Numbers are durations for `timeout` and similar commands. */
const PREFIXES =
  /^(?:env|exec|eval|nohup|nice|time|timeout|command|builtin|sudo|doas|xargs|setsid|stdbuf|if|then|elif|else|while|until|do|!|\d+[smhd]?)$/;
const isBeforeProgram = (word: string): boolean => /^\w+=/.test(word) || word.startsWith("-") || PREFIXES.test(word);
const INTERPRETERS = /^(?:sh|bash|dash|zsh|ksh|fish|node|deno|bun|tsx|python[\d.]*|ruby|perl|php|pwsh|source|\.)$/;
const SCRIPT = /\.(?:sh|bash|js|mjs|cjs|ts|mts|py|rb|pl|php|ps1)$/;

function isExecutable(path: string): boolean {
  return SCRIPT.test(path) || ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o111) !== 0;
}

/**
 * The words of each simple command, without targets of `>`. A quoted word with shell operators is parsed as a command
 * too (`sh -c '…'`).
 */
function simpleCommands(command: string): readonly (readonly string[])[] {
  const plain = command.replaceAll(/(?:\$(?:\w+|\{\w+\}|\(pwd\))|`pwd`)(["']?)\//g, "$1");
  const found: string[][] = [[]];
  const inner: string[] = [];
  let isTarget = false;
  for (const [token, redirect, separator] of plain.matchAll(SHELL_TOKEN)) {
    if (redirect !== undefined) isTarget = redirect.includes(">");
    else if (separator !== undefined) found.push([]);
    else {
      const quoted = [...token.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'/gs)].map(
        ([, double, single]) => double ?? single ?? "",
      );
      inner.push(...quoted.filter((text) => /[\s;|&()<>`]/.test(text)));
      const word = token.replaceAll(/\\(.)|["']/gs, "$1");
      if (!isTarget && word !== "") found.at(-1)?.push(word);
      isTarget = false;
    }
  }
  return [...found, ...inner.flatMap((text) => (text.length < plain.length ? simpleCommands(text) : []))];
}

/** A redirection, a separator of commands, or a word with its quoted parts. */
const SHELL_TOKEN = /(\d*(?:>[>|&]?|<+)|&>>?)|([;|&(){}`\n]+)|(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s;|&(){}`<>])+/gs;

/** The paths inside the worktree or the repository, each with the root that contains it. */
function insideOf(paths: readonly string[], base: string, root: string) {
  const places = new Map(paths.map((path) => [resolve(base, path), null]));
  return [...places.keys()].flatMap((path) => {
    const home = [base, root].find((folder) => path.startsWith(folder.endsWith(sep) ? folder : folder + sep));
    return home === undefined ? [] : [{ path, home }];
  });
}

/** Sorted by name. Follows linked folders, as agents do, up to a depth that ends every cycle. */
function filesBelow(folder: string, depth = 0): readonly string[] {
  if (depth > 8) return [];
  try {
    return readdirSync(folder)
      .toSorted()
      .map((name) => join(folder, name))
      .flatMap((path) =>
        statSync(path, { throwIfNoEntry: false })?.isDirectory() === true ? filesBelow(path, depth + 1) : [path],
      );
  } catch {
    return [];
  }
}

type Maker = Exclude<(typeof AGENT_NAMES)[number], "acp" | "command" | "scripted" | "scripted-session">;

/**
 * Repository files that an agent loads by itself and that can start programs: hooks, MCP servers, plugins, login
 * helpers. An entry that ends with "/" is a folder. Without a terminal the agents load them without a question, so
 * Holdfast asks instead. Folders that agents or Holdfast write to during a run (`.claude/crunch/`,
 * `.opencode/node_modules/`) are not listed.
 */
export const PROJECT_FILES: Readonly<Record<Maker, readonly string[]>> = {
  claude: [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks/",
    ".claude/agents/",
    ".claude/commands/",
    ".claude/skills/",
    ".mcp.json",
  ],
  codex: [".codex/config.toml", ".codex/hooks.json", ".codex/hooks/", ".codex/rules/"],
  copilot: [
    ".github/hooks/",
    ".github/copilot/",
    ".github/extensions/",
    ".github/mcp.json",
    ".github/lsp.json",
    ".copilot/mcp-config.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".mcp.json",
    ".vscode/mcp.json",
  ],
  gemini: [".gemini/settings.json", ".gemini/hooks/", ".gemini/extensions/", ".gemini/agents/", ".gemini/.env", ".env"],
  opencode: [
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
    ".opencode/plugin/",
    ".opencode/plugins/",
    ".opencode/tool/",
    ".opencode/tools/",
  ],
  pi: [".pi/settings.json", ".pi/extensions/"],
  qwen: [
    ".qwen/settings.json",
    ".qwen/hooks/",
    ".qwen/extensions/",
    ".qwen/agents/",
    ".qwen/.env",
    ".env",
    ".mcp.json",
  ],
};

/**
 * Files that users keep in their checkout without committing them. Those never reach a run's worktree, so only the
 * worktree is searched for these files.
 */
const LOCAL_FILES: ReadonlySet<string> = new Set([".claude/settings.local.json", ".env", ".gemini/.env", ".qwen/.env"]);
