/** Gathers the facts that preflight.ts judges before a run starts. Creates nothing; it may fetch. */
import { constants } from "node:fs";
import { access, lstat, readdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { AGENT_VERSIONS, judgeVersion } from "@holdfast/agents/agent-versions";
import { type Adapters, findAnyWorktree } from "@holdfast/core/adapters";
import { type AgentProbe, splitAgent } from "@holdfast/core/agent";
import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import { readIssueWithComments } from "@holdfast/core/forge";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Work } from "@holdfast/core/run";
import type { WorktreeInfo } from "@holdfast/core/workspace";
import { parseRemoteUrl } from "@holdfast/forges/detect-forge";
import { HoldfastError, errorCode } from "@holdfast/platform/error";
import { findProgram } from "@holdfast/platform/subprocess";
import type {
  AgentFacts,
  BaseFacts,
  CommandFacts,
  FolderFacts,
  RepositoryFacts,
  StartFacts,
} from "./preflight-facts.ts";

/** What does not depend on the work: it is gathered once, also if a task becomes an issue in between. */
export interface SharedFacts {
  readonly remote: Pick<RepositoryFacts, "checkout" | "remote" | "host" | "unreachable" | "base"> | null;
  readonly forgeError: HoldfastError | null;
  readonly agents: readonly AgentFacts[];
  readonly unnamedAgent: StartFacts["unnamedAgent"];
  readonly commands: readonly CommandFacts[];
}

export interface SharedRequest {
  readonly cwd: string;
  /** The run works on files. */
  readonly files: boolean;
  /** Start from what is checked out here, unless `base` names a branch. */
  readonly here: boolean;
  readonly base: string | null;
  /** Agents that the run calls, as `provider:model`. */
  readonly agents: readonly string[];
  /** The workflow calls agents, and none is named. */
  readonly isAgentUnnamed: boolean;
  readonly options: JsonObject;
}

export async function observeShared(adapters: Adapters, request: SharedRequest): Promise<SharedFacts> {
  const [remote, forgeError, agents, unnamedAgent] = await Promise.all([
    request.files ? observeRemote(adapters, request) : null,
    observeForge(adapters),
    observeNamedAgents(adapters, request.agents),
    request.isAgentUnnamed ? observeUnnamedAgent() : null,
  ]);
  const commands = await observeCommands(adapters, request, remote?.base ?? null);
  return { remote, forgeError, agents, unnamedAgent, commands };
}

/** Branch and folder that a run would get, among the worktrees that exist. */
export interface RunPlace {
  readonly branch: string;
  readonly worktree: string;
  readonly trees: readonly WorktreeInfo[];
}

/** What depends on the work: the issue, the branch and the place of the worktree. */
export async function observeStart(
  adapters: Adapters,
  shared: SharedFacts,
  request: {
    readonly run: string;
    readonly work: Work;
    readonly forgeUse: StartFacts["forgeUse"];
    readonly isForgeDeclined: boolean;
    readonly forWorkers: boolean;
    readonly again: boolean;
    readonly needsFiles: boolean;
    readonly roles: StartFacts["roles"];
    readonly place: (issue: IssueSnapshot | null) => Promise<RunPlace | null>;
    /** Whether another process has announced that it starts the run. */
    readonly isAnnounced: (run: string) => boolean;
  },
): Promise<{ readonly facts: StartFacts; readonly issue: IssueSnapshot | null; readonly place: RunPlace | null }> {
  const { run, work, forgeUse, isForgeDeclined, forWorkers, again, needsFiles, roles } = request;
  const { forge } = adapters;
  const asked = shared.forgeError === null ? await askIssue(adapters, work) : { issue: null, error: null };
  const { issue, error } = asked;
  const place = await request.place(issue === "absent" ? null : issue);
  const found = issue === "absent" || issue === null ? null : issue;
  const facts: StartFacts = {
    run,
    work,
    forgeUse,
    isForgeDeclined,
    forWorkers,
    again,
    needsFiles,
    repository:
      shared.remote === null || place === null
        ? null
        : { ...shared.remote, ...(await observePlace(adapters, run, place, request.isAnnounced)) },
    forge: forge === null ? null : { name: forge.name, location: forge.location },
    forgeError: shared.forgeError ?? error,
    issue: issue === "absent" ? "absent" : (found?.state ?? null),
    agents: shared.agents,
    unnamedAgent: shared.unnamedAgent,
    commands: shared.commands,
    roles,
    folders: await observeFolders(adapters, place?.worktree ?? null),
  };
  return { facts, issue: found, place };
}

async function askIssue(
  { forge }: Adapters,
  work: Work,
): Promise<{ readonly issue: IssueSnapshot | "absent" | null; readonly error: HoldfastError | null }> {
  if (work.kind !== "issue" || forge === null) return { issue: null, error: null };
  try {
    const issue = await readIssueWithComments(forge, work.number);
    return { issue: issue !== null && issue.number === work.number ? issue : "absent", error: null };
  } catch (error) {
    return { issue: null, error: forgeErrorOf(error) };
  }
}

async function observeForge({ forge }: Adapters): Promise<HoldfastError | null> {
  try {
    await forge?.checkAccess?.();
    return null;
  } catch (error) {
    return forgeErrorOf(error);
  }
}

function forgeErrorOf(error: unknown): HoldfastError {
  if (error instanceof HoldfastError && (error.code === "FORGE_DENIED" || error.code === "FORGE_FAILED")) return error;
  throw error;
}

async function observeRemote(adapters: Adapters, request: SharedRequest): Promise<SharedFacts["remote"]> {
  const { workspaces } = adapters;
  if (workspaces === null) return null;
  const [found, folder] = await Promise.all([workspaces.describeCheckout(), findAnyWorktree(workspaces)]);
  const checkout = found === null ? null : { ...found, changed: found.changed.filter((path) => !READ_HERE.test(path)) };
  const none = { checkout, remote: null, host: null, unreachable: null };
  const tip = checkout === null ? await workspaces.branchTip("HEAD") : checkout.head;
  const head: BaseFacts = tip === null ? { kind: "none" } : { kind: "head" };
  const base = folder === null ? null : await observeBase(adapters, folder, { ...request, tip });
  return base === null ? { ...none, base: head } : { checkout, ...base, base: base.base ?? head };
}

/** Holdfast's own settings, which a run reads in the user's worktree. */
const READ_HERE = /^(?:holdfast\.config\.yaml$|\.holdfast\/)/;

/**
 * The branch of the remote that a run starts from, regardless of what is checked out here; a local branch if there is no
 * remote. `base` null: HEAD.
 */
export async function observeBase(
  { branches, workspaces }: Pick<Adapters, "branches" | "workspaces">,
  folder: string,
  request: {
    readonly base: string | null;
    readonly here?: boolean;
    /** The commit that is checked out here. */
    readonly tip?: string | null;
  },
): Promise<Pick<RepositoryFacts, "remote" | "host" | "unreachable"> & { readonly base: BaseFacts | null }> {
  const { base: named, here = false, tip = null } = request;
  const branch = await branches.asking(folder);
  const remote = await branch.remote();
  if (remote === null) {
    const none = { remote: null, host: null, unreachable: null };
    if (named === null) return { ...none, base: null };
    const commit = (await workspaces?.branchTip(`refs/heads/${named}`)) ?? null;
    return {
      ...none,
      base: commit === null ? missing(named) : { kind: "found", branch: named, commit, hasHead: true },
    };
  }
  const { name, url } = remote;
  const at = { remote: { name, url }, host: parseRemoteUrl(url)?.host ?? null };
  if (here && named === null) return { ...at, unreachable: null, base: null };
  const fetched = await branch.fetch();
  const unreachable = fetched.kind === "failed" ? fetched.refusal : null;
  const wanted = named ?? (await branch.defaultBranch());
  const commit = wanted === null ? null : await branch.remoteBranch(wanted);
  if (wanted === null || commit === null) return { ...at, unreachable, base: named === null ? null : missing(named) };
  const hasHead = tip === null || tip === commit || (await branch.isAncestor({ ancestor: tip, of: commit }));
  return { ...at, unreachable, base: { kind: "found", branch: wanted, commit, hasHead } };
}

function missing(branch: string): BaseFacts {
  return { kind: "missing", branch };
}

/** A branch or folder of the run itself, also of a start that was killed or that happens now, is not taken. */
async function observePlace(
  adapters: Adapters,
  run: string,
  { branch: name, worktree, trees }: RunPlace,
  isAnnounced: (run: string) => boolean,
): Promise<Pick<RepositoryFacts, "branch" | "occupied">> {
  const { workspaces, store } = adapters;
  const free = { branch: { name, taken: null, blockedBy: null }, occupied: null };
  if (trees.some((tree) => tree.run === run && !tree.sideWorktree)) return free;
  if ((await store.getRun(run)) !== undefined) return free;
  const holder = trees.find(({ branch }) => branch === `refs/heads/${name}`);
  const tip = holder === undefined ? await workspaces?.branchTip(`refs/heads/${name}`) : null;
  const isTaken = holder !== undefined || (tip ?? null) !== null;
  const entries = await readdir(worktree).catch(() => []);
  if ((isTaken || entries.length > 0) && (await isStartedElsewhere(adapters, run, isAnnounced))) return free;
  return {
    branch: {
      name,
      taken: isTaken ? { worktree: holder?.path ?? null } : null,
      blockedBy: await findBlockingBranch(workspaces, name),
    },
    occupied: entries.length > 0 ? worktree : null,
  };
}

/** Git stores a branch as a file, so that `holdfast` and `holdfast/issue-1` exclude each other. */
async function findBlockingBranch(workspaces: Adapters["workspaces"], name: string): Promise<string | null> {
  const segments = name.split("/");
  for (let length = 1; length < segments.length; length += 1) {
    const above = segments.slice(0, length).join("/");
    if (((await workspaces?.branchTip(`refs/heads/${above}`)) ?? null) !== null) return above;
  }
  return null;
}

/** Whether another process starts this run at this moment, or has just started it. The lease decides between the two. */
async function isStartedElsewhere(
  { workspaces, store }: Adapters,
  run: string,
  isAnnounced: (run: string) => boolean,
): Promise<boolean> {
  if (isAnnounced(run) || (await store.getRun(run)) !== undefined) return true;
  const trees = (await workspaces?.list()) ?? [];
  return trees.some((tree) => tree.run === run && !tree.sideWorktree);
}

async function observeNamedAgents(adapters: Adapters, agents: readonly string[]): Promise<readonly AgentFacts[]> {
  const named = new Map<string, { readonly name: string; readonly fallback: boolean }>();
  for (const name of agents) named.set(splitAgent(name).provider, { name, fallback: false });
  for (const name of adapters.errorPolicy.fallback.agents) {
    const { provider } = splitAgent(name);
    if (!named.has(provider)) named.set(provider, { name, fallback: true });
  }
  return await Promise.all(
    [...named].map(async ([provider, { name, fallback }]) => {
      const probe = await adapters.agent(provider).probe();
      const needs = Object.hasOwn(AGENT_VERSIONS, provider) ? (AGENT_VERSIONS[provider]?.minimum ?? null) : null;
      const version = needs === null ? null : { needs, verdict: judgeVersion(provider, probe.version) };
      return { name, provider, probe, version, fallback };
    }),
  );
}

/** The agents that could be used; the hint installs the first one. */
async function observeUnnamedAgent(): Promise<StartFacts["unnamedAgent"]> {
  // Loaded on demand: a named agent needs no other one.
  const { observeAgents } = await import("./check-agents.ts");
  return unnamedAgentOf(await observeAgents());
}

export function unnamedAgentOf(
  agents: readonly { readonly name: string; readonly probe: AgentProbe }[],
): NonNullable<StartFacts["unnamedAgent"]> {
  const ready = agents.flatMap(({ name, probe }) => (probe.installed && probe.problem === null ? [name] : []));
  // One that is installed needs less than another one.
  const [nearest] = agents.toSorted((one, other) => Number(other.probe.installed) - Number(one.probe.installed));
  const hint = nearest === undefined ? "" : `Set one up, such as ${nearest.name}. ${nearest.probe.hint ?? ""}`;
  return { ready, hint: hint.trim() };
}

async function observeFolders(adapters: Adapters, worktree: string | null): Promise<readonly FolderFacts[]> {
  const { workspaces, storeDirectory } = adapters;
  const written = [worktree, workspaces?.commonDir ?? null, storeDirectory].flatMap((path) => path ?? []);
  const existing = await Promise.all(written.map(nearestFolder));
  return await Promise.all(
    [...new Set(existing)].map(async (path) => ({
      path,
      problem: await writeProblem(path),
      freeBytes: (await adapters.freeBytes?.(path).catch(() => null)) ?? null,
    })),
  );
}

/** The path itself, or the folder above it in which it would be created. A link to nothing and a name that is too long count as there. */
async function nearestFolder(path: string): Promise<string> {
  let tooLong: string | null = null;
  for (let at = path; ; at = dirname(at)) {
    try {
      if (at === dirname(at) || (await lstat(at)) !== undefined) return tooLong ?? at;
    } catch (error) {
      if (errorCode(error) === "ENAMETOOLONG") tooLong = at;
    }
  }
}

async function writeProblem(path: string): Promise<string | null> {
  try {
    if (!(await stat(path)).isDirectory()) return "it is not a directory";
    await access(path, constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    return error instanceof Error && "code" in error
      ? (WRITE_PROBLEMS[String(error.code)] ?? error.message)
      : String(error);
  }
}

const WRITE_PROBLEMS: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the file system is read-only",
  ENOENT: "it is a link to nothing",
  ELOOP: "it is a link to itself",
  ENAMETOOLONG: "the name is too long for the file system",
};

/** The command lines in the options of a workflow: the gate, and the checks of a loop. */
export function commandsOf(options: JsonObject): { readonly gate: string | null; readonly checks: readonly string[] } {
  const { gate, until } = options;
  return {
    gate: commandOf(gate),
    checks: Array.isArray(until) ? until.flatMap((check: Json) => commandOf(check) ?? []) : [],
  };
}

function commandOf(value: Json | undefined): string | null {
  if (typeof value === "string") return value;
  const command = isJsonObject(value) ? value["command"] : undefined;
  return typeof command === "string" ? command : null;
}

/** Commands whose program is missing. What cannot be known without running the line is not reported. */
async function observeCommands(
  adapters: Adapters,
  { agents, options, cwd }: SharedRequest,
  base: BaseFacts | null,
): Promise<readonly CommandFacts[]> {
  const { gate, checks } = commandsOf(options);
  const lines = [
    ...agents.flatMap((agent) => {
      const { provider, model } = splitAgent(agent);
      return provider === "command" && model !== null ? [{ role: "The agent", line: model, isAgent: true }] : [];
    }),
    ...(gate === null ? [] : [{ role: "The gate", line: gate, isAgent: false }]),
    ...checks.map((line) => ({ role: "The check", line, isAgent: false })),
  ];
  const missing = await Promise.all(
    lines.map(async ({ role, line, isAgent }): Promise<CommandFacts | null> => {
      const program = firstProgram(line);
      if (program === null) return null;
      const common = { role, line, program, isAgent };
      if (!program.includes("/") || program.startsWith("/")) {
        const problem = await programProblem(program, cwd);
        return problem === null ? null : { ...common, problem, where: "system", here: null };
      }
      if (base === null) return null;
      const mode = await modeInBase(adapters, base, program);
      if (mode === "executable") return null;
      if (mode === "plain") return { ...common, problem: "not_executable", where: "base", here: null };
      const here = resolve(cwd, program);
      return { ...common, problem: "missing", where: "base", here: (await isFile(here)) ? here : null };
    }),
  );
  const unique = new Map(missing.flatMap((one) => (one === null ? [] : [[`${one.role} ${one.line}`, one] as const])));
  return [...unique.values()];
}

/** Why a program of this machine cannot run; null: it can. A name without a slash is searched on PATH. */
export async function programProblem(program: string, cwd: string): Promise<CommandFacts["problem"] | null> {
  if (!program.includes("/")) return findProgram(program) === undefined ? "missing" : null;
  const path = resolve(cwd, program);
  if (!(await isFile(path))) return "missing";
  const canRun = await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
  return canRun ? null : "not_executable";
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() === true;
}

async function modeInBase(
  { workspaces }: Adapters,
  base: BaseFacts,
  path: string,
): Promise<"plain" | "executable" | null> {
  const commit = base.kind === "found" ? base.commit : "HEAD";
  const inside = join("/", path).slice(1);
  return (await workspaces?.fileMode({ commit, path: inside })) ?? null;
}

/**
 * The program that a shell line starts first, if it is one plain word. null: a word of the shell itself, or one that the
 * shell expands.
 */
export function firstProgram(line: string): string | null {
  const words = line.trim().split(/\s+/);
  // A value may itself be a command, or have spaces: only plain ones are skipped.
  const word = words.find((each) => !/^[A-Za-z_]\w*=[\w.,:/@%+-]*$/.test(each)) ?? "";
  return /^[\w.@/+-]+$/.test(word) && !SHELL_WORDS.has(word) ? word : null;
}

const SHELL_WORDS: ReadonlySet<string> = new Set(
  ". : alias bg break case cd command continue do done echo elif else esac eval exec exit export false fg fi for getopts hash if in jobs kill local printf pwd read readonly return set shift source test then time times trap true type ulimit umask unalias unset until wait while".split(
    " ",
  ),
);
