import { readdirSync, statSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { AGENT_PROGRAMS, splitAgent } from "../core/agent/agent-names.ts";
import { LOCAL_FILES, PROJECT_FILES } from "../core/agent/project-files.ts";
import { fileItem, textOf } from "./consent.ts";
import type { ConsentItem, FileText } from "./consent.ts";

/**
 * Files of a repository that an agent executes or loads: the scripts that a `command:` names, and the project files of PROJECT_FILES. They need
 * consent by their content. The content that counts is that of the worktree in which the agent runs, which may differ from the checkout: a base
 * branch that moved, a rebase, or the agent itself changes it.
 */

export interface AgentFilesParams {
  /** As runs name them: `claude:opus`, `command:./x.sh`. */
  readonly agents: readonly string[];
  /** The repository. */
  readonly root: string;
  /** The worktree in which an agent is about to run; absent: the repository itself, before a run. */
  readonly worktree?: string;
}

export function agentFileItems(params: AgentFilesParams): readonly ConsentItem[] {
  const items = params.agents.flatMap((agent) => [...scriptItems(agent, params), ...projectItems(agent, params)]);
  const found = new Map(items.map((item) => [item.digest, item]));
  return [...found.values()].toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

/** The scripts that an agent's command names. Typing the command is consent to them as they are in the checkout. */
export function scriptItems(agent: string, params: Omit<AgentFilesParams, "agents">): readonly ConsentItem[] {
  const { provider, model } = splitAgent(agent);
  if (model === null || AGENT_PROGRAMS.includes(provider)) return [];
  const { root, worktree = root } = params;
  // A script of answers is read from the checkout, a command runs in the worktree.
  const isScripted = provider.startsWith("scripted");
  const base = isScripted ? root : worktree;
  const paths = isScripted ? [model] : namedIn(model);
  return insideOf(paths, base, root).flatMap(({ path, home }) => {
    const text = textOf(path);
    return text === undefined ? [] : [fileItem({ path, root: home, text, danger: "executes", uses: ["work"] })];
  });
}

/** What the agent's program loads by itself. A command may start such a program under its own name. */
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

/** Scripts of the repository that a settings file starts: the values of the keys that hold commands. */
function scriptsNamedBy(text: string, base: string): readonly FileText[] {
  const values = [...text.matchAll(COMMAND_VALUE)].flatMap(([, value = ""]) => namedIn(value.replaceAll("\\", "")));
  return insideOf(values, base, base).flatMap(({ path }) => {
    const content = textOf(path);
    return content === undefined ? [] : [{ name: relative(base, path), text: content }];
  });
}

/** Of JSON and TOML: `"command": "x"`, `args = ["x", "y"]`. */
const COMMAND_VALUE =
  /\b(?:command|args|bash|notify|apiKeyHelper|extensions|plugins?)"?\s*[:=]\s*("(?:[^"\\]|\\.)*"|'[^']*'|\[[^\]]*\])/g;

/** Every word of a command that may be a path. What such a script starts in turn cannot be known. */
function namedIn(command: string): readonly string[] {
  const plain = command.replaceAll(/\$(?:\w+|\{\w+\})["']?\//g, "");
  // A name may hold what is a sign of the shell elsewhere, so that words between spaces count too.
  const words = plain.split(/\s+/).map((word) => word.replaceAll(/^["']|["']$/g, ""));
  const parts = plain.split(/[\s;|&()<>`"'{}=$,[\]]+/);
  return [...new Set([...words, ...parts])].filter((word) => word !== "");
}

/** Those below the worktree or the repository, with the one of both that holds them. */
function insideOf(paths: readonly string[], base: string, root: string) {
  const places = new Map(paths.map((path) => [resolve(base, path), null]));
  return [...places.keys()].flatMap((path) => {
    const home = [base, root].find((folder) => path.startsWith(folder.endsWith(sep) ? folder : folder + sep));
    return home === undefined ? [] : [{ path, home }];
  });
}

/** In order of their names. Linked folders are followed, as agents follow them, to a depth that ends every cycle. */
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
