// Talks to remotes with the user's git: fetch, remote branches, choice of the remote, and causes of failures.

import { readFile } from "node:fs/promises";
import { devNull } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Branch, PushRefusal, Remote } from "@holdfast/core/branch";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { gitError } from "@holdfast/platform/git-command";
import { type ProcessResult, runProcess } from "@holdfast/platform/subprocess";
import { type RepositoryContext, listRefs, readBranchTip } from "./branch-refs.ts";
import { findMissingObjects } from "./objects.ts";
import { openScratch } from "./private-index.ts";
import { readRefFiles, toRawPath } from "./ref-files.ts";
import { type Settings, readSettings } from "./settings.ts";

export const NO_REMOTE: PushRefusal = { cause: "missing_remote", message: "the repository has no remote" };

/**
 * Fetches from both remotes if there are two: the state of the fork and of upstream must be read together. First asks a
 * remote what it has, and fetches only if something of it is missing here. Never prunes: a tracking ref may be the last
 * name of a commit, and deleting it locks `packed-refs`.
 */
export async function fetchRemote(at: RepositoryContext, configured: string | null): Promise<Fetched> {
  const settings = settingsOf(at);
  const [base, push] = await Promise.all([
    findRemote(at, configured, "base", settings),
    findRemote(at, configured, "push", settings),
  ]);
  if (base === null || push === null) return { kind: "failed", refusal: NO_REMOTE };
  const lists = new Map<string, RemoteBranches>();
  for (const name of new Set([base.name, push.name])) {
    const listed = await listRemote(at, name, settings);
    if (listed.kind === "failed") return listed;
    lists.set(name, { remote: name, head: listed.head, names: new Set(listed.tips.keys()) });
    if (await hasTrackingRefs(at, name, listed.tips)) continue;
    // The refspec is explicit, because a bare clone has none and would update nothing.
    const heads = `+refs/heads/*:refs/remotes/${name}/*`;
    const args = [
      "fetch",
      "--quiet",
      "--no-tags",
      "--no-write-fetch-head",
      "--no-recurse-submodules",
      "--",
      name,
      heads,
    ];
    const fetched = await fetchBesideWorktrees(() => runUserGit(at, args, settings));
    if (!isDone(fetched)) return { kind: "failed", refusal: refusalOf(fetched) };
  }
  const on = (name: string): RemoteBranches => lists.get(name) ?? { remote: name, head: null, names: new Set() };
  return { kind: "fetched", branches: { base: on(base.name), push: on(push.name) } };
}

/**
 * Repeats a fetch that failed because another process was adding a worktree at the same time. A fetch reads the HEAD of every worktree, and
 * git writes zeros there before the commit.
 */
async function fetchBesideWorktrees(fetch: () => Promise<UserGitResult>): Promise<UserGitResult> {
  for (let wait = 100; ; wait *= 2) {
    const fetched = await fetch();
    if (isDone(fetched) || wait > MAX_WAIT_MS || !/bad object worktrees\/.+\/HEAD/.test(fetched.stderr)) return fetched;
    await sleep(wait);
  }
}

const MAX_WAIT_MS = 3200;

/** The branches of each remote, as last fetched. Both roles share one list if they use the same remote. */
export type FetchedBranches = Readonly<Record<RemoteRole, RemoteBranches>>;

interface RemoteBranches {
  readonly remote: string;
  /** The branch that HEAD names; null if it names none. */
  readonly head: string | null;
  readonly names: Set<string>;
}

type Fetched =
  | { readonly kind: "fetched"; readonly branches: FetchedBranches }
  | { readonly kind: "failed"; readonly refusal: PushRefusal };

interface RemoteList extends Pick<RemoteBranches, "head"> {
  /** The commits of the branches. */
  readonly tips: ReadonlyMap<string, string>;
}

async function listRemote(
  at: RepositoryContext,
  name: string,
  settings: Promise<Settings>,
): Promise<({ readonly kind: "listed" } & RemoteList) | Extract<Fetched, { kind: "failed" }>> {
  const listed = await runUserGit(at, ["ls-remote", "--symref", "--", name, "HEAD", "refs/heads/*"], settings);
  if (!isDone(listed)) return { kind: "failed", refusal: refusalOf(listed) };
  const text = listed.stdout.toString("utf8");
  const tips = [...parseHeads(text)].flatMap(([ref, id]) => {
    const branch = /^refs\/heads\/(.+)$/.exec(ref)?.[1];
    return branch === undefined ? [] : [[branch, id] as const];
  });
  return { kind: "listed", head: /^ref: refs\/heads\/(.+)\tHEAD$/m.exec(text)?.[1] ?? null, tips: new Map(tips) };
}

/** True if every branch of the remote is here with its commit. False where refs are not files: then git compares. */
async function hasTrackingRefs(at: RepositoryContext, name: string, tips: RemoteList["tips"]): Promise<boolean> {
  const { repository } = at.worktree;
  const refs = [...tips.keys()].map((branch) => `refs/remotes/${name}/${branch}`);
  const wanted = [...tips.values()];
  const here = readRefFiles(toRawPath(repository.commonDir), refs);
  return here.every((id, index) => id === wanted[index]) && (await findMissingObjects(repository, wanted)).length === 0;
}

function isDone({ kind, code }: UserGitResult): boolean {
  return kind === "exited" && code === 0;
}

export async function readRemoteBranch(
  at: RepositoryContext,
  configured: string | null,
  asked: { readonly branch: string; readonly own: string | null },
): Promise<string | null> {
  const remote = await findRemote(at, configured, remoteRole(asked.branch, asked.own));
  return remote === null ? null : readBranchTip(at.worktree.repository, `refs/remotes/${remote.name}/${asked.branch}`);
}

export async function lookUpRemote(
  at: RepositoryContext,
  configured: string | null,
  asked: { readonly branch: string; readonly own: string | null },
): ReturnType<Branch["lookUpRemote"]> {
  const settings = settingsOf(at);
  const remote = await findRemote(at, configured, remoteRole(asked.branch, asked.own), settings);
  if (remote === null) return { kind: "unknown", reason: NO_REMOTE.message, isTemporary: false };
  const ref = `refs/heads/${asked.branch}`;
  const result = await runUserGit(at, ["ls-remote", "--", remote.name, ref], settings);
  if (!isDone(result)) {
    const { cause, message } = refusalOf(result);
    return { kind: "unknown", reason: message, isTemporary: cause === "network" || cause === "remote" };
  }
  // Git matches the end of names: refs/heads/x also finds refs/heads/refs/heads/x.
  return { kind: "known", commit: parseHeads(result.stdout.toString("utf8")).get(ref) ?? null };
}

/**
 * The tips of all branches of the remote that receives pushes, as that remote reports them. Local refs are not
 * reliable, because an agent can write them. Empty if the remote does not respond, or if pushes go to several URLs.
 */
export async function listRemoteTips(at: RepositoryContext, configured: string | null): Promise<readonly string[]> {
  const settings = settingsOf(at);
  const remote = await findRemote(at, configured, "push", settings);
  if (remote === null) return [];
  const [url, ...more] = await listUrls(at, remote.name, "push", await settings);
  if (url === undefined || more.length > 0) return [];
  const [fetched] = await listUrls(at, remote.name, "base", await settings);
  const from = fetched === url ? remote.name : url;
  const asked = ["ls-remote", "--upload-pack=git-upload-pack", "--", from, "refs/heads/*"];
  const result = await runUserGit(at, asked, settings);
  if (isDone(result)) return [...new Set(parseHeads(result.stdout.toString("utf8")).values())];
  const { cause, message } = refusalOf(result);
  if (cause !== "network" && cause !== "remote") return [];
  throw new HoldfastError({
    code: "FORGE_FAILED",
    message: `Cannot ask ${remote.name} what it has (${cause}): ${message.trim()}`,
    hint: "Resume when the remote answers. Nothing was pushed.",
    retry: "later",
  });
}

/** Asks the remote, unless its branches were `fetched`. */
export async function findDefaultBranch(
  at: RepositoryContext,
  configured: string | null,
  fetched: FetchedBranches | null,
): Promise<string | null> {
  const settings = settingsOf(at);
  const remote = await findRemote(at, configured, "base", settings);
  if (remote === null) return chooseDefault({ head: null, branches: await listBranches(at, "refs/heads/") });
  if (fetched?.base.remote === remote.name)
    return chooseDefault({ head: fetched.base.head, branches: [...fetched.base.names] });
  const listed = await listRemote(at, remote.name, settings);
  if (listed.kind === "listed") return chooseDefault({ head: listed.head, branches: [...listed.tips.keys()] });
  const prefix = `refs/remotes/${remote.name}/`;
  const named = await at.git.find({ args: ["symbolic-ref", "--quiet", `${prefix}HEAD`] });
  const head = named?.slice(prefix.length) ?? null;
  return chooseDefault({ head, branches: await listBranches(at, prefix) });
}

/** A HEAD that names no existing branch is ignored: a new bare repository names master, whatever was pushed to it. */
export function chooseDefault(params: {
  readonly head: string | null;
  readonly branches: readonly string[];
}): string | null {
  const { head, branches } = params;
  if (head !== null && branches.includes(head)) return head;
  const usual = ["main", "master"].filter((name) => branches.includes(name));
  return usual.length === 1 ? (usual[0] ?? null) : null;
}

function refusalOf(result: UserGitResult): PushRefusal {
  const { stderr, failedHook, kind } = result;
  return classifyRemoteFailure({ report: undefined, failedHook, stderr, timedOut: kind === "timed_out" });
}

async function listBranches({ worktree }: RepositoryContext, prefix: string): Promise<readonly string[]> {
  return Array.from(await listRefs(worktree.repository, prefix), ([ref]) => ref.slice(prefix.length));
}

export function parseHeads(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\n").flatMap((line) => {
    const [id = "", ref = ""] = line.split("\t");
    return /^[0-9a-f]{40,64}$/.test(id) ? [[ref, id] as const] : [];
  });
  return new Map(lines);
}

/** "base" has the issues, the pull requests and the branch to merge into. "push" receives the run's own branch. */
type RemoteRole = "base" | "push";

export async function findRemote(
  at: RepositoryContext,
  configured: string | null,
  role: RemoteRole,
  reading: Promise<Settings> = settingsOf(at),
): Promise<Remote | null> {
  const settings = await reading;
  const valuesOf = (asked: string): readonly string[] =>
    settings.flatMap(([key, value]) => (key === asked ? [value] : []));
  const names = new Set(settings.flatMap(([key]) => /^remote\.(.+)\.[^.]+$/s.exec(key)?.[1] ?? []));
  const preferred = valuesOf("remote.pushdefault").at(-1) ?? "";
  const name = chooseRemote({ names: [...names].toSorted(), configured, preferred, role });
  if (name === null) return null;
  const [url = ""] = await listUrls(at, name, role, settings);
  const raw = valuesOf(`remote.${name}.url`).at(-1) ?? url;
  return { name, url: hideCredentials(url), written: hideCredentials(raw.split("\n")[0] ?? "") };
}

/** The URLs that git uses for a remote. It fetches from the first and pushes to all. */
async function listUrls(
  at: RepositoryContext,
  name: string,
  role: RemoteRole,
  settings: Settings,
): Promise<readonly string[]> {
  const valuesOf = (key: string): readonly string[] =>
    settings.flatMap(([each, value]) => (each === `remote.${name}.${key}` ? [value] : []));
  const [urls, pushUrls] = [valuesOf("url"), valuesOf("pushurl")];
  const written = role === "push" && pushUrls.length > 0 ? pushUrls : urls;
  // Only a url.* setting rewrites a URL, and what an empty value means depends on the version of git.
  const isPlain = !settings.some(([key]) => key.startsWith("url.")) && ![...urls, ...pushUrls].includes("");
  if (isPlain && written.length > 0) return written.flatMap((url) => url.split("\n"));
  const way = role === "push" ? ["--push"] : [];
  return (await at.git.line({ args: ["remote", "get-url", ...way, "--all", "--", name] })).split("\n");
}

function settingsOf({ worktree }: Pick<RepositoryContext, "worktree">): Promise<Settings> {
  return readSettings(worktree.repository, worktree.gitDir);
}

/** A branch of a run is on the remote that runs push to. Any other branch is on the base remote. */
export function remoteRole(branch: string, own: string | null): RemoteRole {
  return branch === own || branch.startsWith("holdfast/") ? "push" : "base";
}

/**
 * Uses the configured remote, then upstream, then origin, then the only one or git's own choice. Pushes go where git
 * would push: if there is an upstream, origin is the user's fork of it.
 */
export function chooseRemote(params: {
  readonly names: readonly string[];
  readonly configured: string | null;
  /** git's remote.pushDefault. */
  readonly preferred: string;
  readonly role: RemoteRole;
}): string | null {
  const { names, configured, preferred, role } = params;
  if (configured !== null) {
    if (names.includes(configured)) return configured;
    throw usageError(
      `remote ${configured} does not exist; ${names.length === 0 ? "there are no remotes" : `known remotes: ${names.join(", ")}`}`,
      `Add it with \`git remote add ${configured} <url>\`, or configure another one.`,
    );
  }
  const order = role === "push" ? [preferred, "origin", "upstream"] : ["upstream", "origin", preferred];
  const known = order.find((name) => names.includes(name));
  return known ?? names[0] ?? null;
}

/** The report of one ref from `git push --porcelain`. */
interface RefReport {
  /** git's one-letter flag: " ", "+", "*", "-", "=", "!". */
  readonly flag: string;
  readonly summary: string;
}

export function parsePushReport(stdout: string, ref: string): RefReport | undefined {
  for (const line of stdout.split("\n")) {
    const [flag = "", names = "", summary = ""] = line.split("\t");
    if (flag.length === 1 && names.endsWith(`:${ref}`)) return { flag, summary };
  }
  return undefined;
}

/**
 * Classifies why a push or fetch was refused. Git prints "failed to push some refs" and "Could not read from remote
 * repository" for almost every refusal. Therefore only the report of the ref, the failed hook and specific messages
 * count.
 */
export function classifyRemoteFailure(facts: {
  readonly report: RefReport | undefined;
  readonly failedHook: string | null;
  readonly stderr: string;
  readonly timedOut: boolean;
}): PushRefusal {
  const { report, stderr } = facts;
  const message = messageOf(stderr, report?.summary);
  if (report?.flag === "!") return { cause: causeOfRef(report.summary, stderr), message };
  if (facts.timedOut) return { cause: "network", message: `no answer in time; ${message}` };
  if (facts.failedHook !== null)
    return { cause: "local_hook", message: `the ${facts.failedHook} hook refused: ${message}` };
  return { cause: MESSAGES.find(([, pattern]) => pattern.test(stderr))?.[0] ?? "other", message };
}

function causeOfRef(summary: string, stderr: string): PushRefusal["cause"] {
  const reason = /\(([^()]*(?:\([^()]*\)[^()]*)*)\)$/.exec(summary)?.[1] ?? "";
  const byRemote = summary.startsWith("[remote rejected]");
  if (SECRET.test(stderr)) return "secret";
  if (/\bGH0(?:06|13)\b|protected branch|not allowed to (?:force )?push/i.test(`${reason}\n${stderr}`))
    return "protected";
  if (byRemote && /^(?:non-fast-forward|deletion prohibited)$/.test(reason)) return "protected";
  // A hook that queries a service prints an error when the service does not respond. That is not a verdict on the
  // commits.
  if (/hook declined/.test(reason)) return TEMPORARY.test(stderr) ? "remote" : "hook";
  if (/^stale info$|^remote ref updated since checkout$/.test(reason)) return "stale_lease";
  // Another push arrived meanwhile, or the ref is locked for a moment. The next attempt distinguishes the two.
  if (byRemote && /failed to update ref|cannot lock ref/.test(reason))
    return /but expected|reference already exists/.test(`${reason}\n${stderr}`) ? "stale_lease" : "remote";
  if (byRemote && reason === "fetch first") return "stale_lease";
  if (/^(?:non-fast-forward|fetch first|needs force)$/.test(reason)) return "non_fast_forward";
  if (/permission denied/i.test(reason)) return "auth";
  if (byRemote && (/^(?:failure|unpacker error|.*internal server error.*)$/i.test(reason) || TEMPORARY.test(reason)))
    return "remote";
  return "other";
}

/** Push protection of GitHub (GH013, GH009) and secret push protection of GitLab. */
const SECRET =
  /push protection|cannot contain secrets|\bGH009\b|secrets? (?:was |were )?detected|PUSH BLOCKED: Secret/i;

const TEMPORARY =
  /temporar(?:y|ily)|try again|timed? ?out|time-out|unavailable|internal (?:server |api )?error|bad gateway|\b50[0234]\b|too many requests|no space left|could not connect|connection (?:refused|reset)|not accessible/i;

/** The order matters: an ssh that was denied access also prints that the remote end hung up. */
const MESSAGES: readonly (readonly [PushRefusal["cause"], RegExp])[] = [
  [
    "auth",
    /permission denied \(|permission to .* denied|authentication failed|could not read (?:username|password)|invalid (?:username|credentials)|host key verification failed|returned error: 40[13]|access denied|too many authentication failures/i,
  ],
  [
    "missing_remote",
    /does not appear to be a git repository|repository .*not found|repository '.*' does not exist|no such remote|returned error: 404|not a git repository/i,
  ],
  [
    "network",
    /could not resolve (?:host|proxy)|name or service not known|temporary failure in name resolution|failed to connect|couldn't connect|connection (?:refused|timed out|reset|closed)|network is unreachable|no route to host|operation timed out|timeout|returned error: (?:429|5\d\d)|remote end hung up|unexpected disconnect|early eof|rpc failed|ssl|tls|gnutls/i,
  ],
];

/** Keeps the remote's messages and git's reason, and drops advice and lines that git always prints. */
function messageOf(stderr: string, summary: string | undefined): string {
  const lines = stderr
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !NOISE.test(line));
  const text = [...(summary === undefined ? [] : [summary]), ...lines].join("\n");
  return text === "" ? "git gave no reason" : text.slice(0, MAX_MESSAGE);
}

const MAX_MESSAGE = 4000;
const NOISE =
  /^(?:hint:|error: failed to push some refs|fatal: Could not read from remote repository|Please make sure you have the correct access|and the repository exists|Everything up-to-date)/;

/**
 * Runs git as the user does, for calls that contact a remote: hooks, credential helpers, ssh command and proxies apply.
 * It never prompts, because no user may be present. Only variables that point to another repository are removed from
 * its environment.
 */
export async function runUserGit(
  { worktree }: Pick<RepositoryContext, "worktree">,
  args: readonly string[],
  settings?: Promise<Settings>,
): Promise<UserGitResult> {
  await using scratch = await openScratch(worktree.home);
  const trace = join(scratch.folder, "trace");
  const rewritten = relativeRemotes(worktree, await (settings ?? settingsOf({ worktree })));
  const result = await runProcess({
    command: "git",
    args: ["--no-pager", "-c", "gc.auto=0", "-c", "maintenance.auto=false", ...args],
    cwd: worktree.root,
    env: { ...withConfig(environment(process.env), rewritten), GIT_TRACE2_EVENT: trace },
    timeoutMs: remoteTimeout(args),
  });
  if (result.kind === "not_started") throw gitError(args, result);
  const failedHook = findFailedHook(await readFile(trace, "utf8").catch(() => ""));
  return { ...result, stderr: hideCredentials(result.stderr), failedHook };
}

/**
 * Git resolves a relative remote URL against the current worktree, but the user wrote it for the main worktree. Returns
 * settings that rewrite the URL for this one call.
 */
function relativeRemotes(worktree: RepositoryContext["worktree"], settings: Settings): Settings {
  const { mainRoot } = worktree.repository;
  if (mainRoot === null || mainRoot === worktree.root) return [];
  const urls = settings.flatMap(([key, value]) => (/^remote\..*\.(?:url|pushurl)$/s.test(key) ? [value] : []));
  // As in git: a colon before any slash means host:path, and scheme:// is a transport.
  const isRelative = (url: string): boolean => url !== "" && !url.startsWith("/") && !/^[^/]*:/.test(url);
  return [...new Set(urls)].filter(isRelative).map((url) => [`url.${resolve(mainRoot, url)}.insteadOf`, url]);
}

export function withConfig(env: NodeJS.ProcessEnv, settings: Settings): NodeJS.ProcessEnv {
  if (settings.length === 0) return env;
  const before = Number(env["GIT_CONFIG_COUNT"] ?? 0) || 0;
  const added = settings.flatMap(([key, value], index) => [
    [`GIT_CONFIG_KEY_${before + index}`, key],
    [`GIT_CONFIG_VALUE_${before + index}`, value],
  ]);
  return { ...env, ...Object.fromEntries(added), GIT_CONFIG_COUNT: String(before + settings.length) };
}

interface UserGitResult extends ProcessResult {
  /** The hook of this repository that failed, according to git's trace; null if none did. */
  readonly failedHook: string | null;
}

/**
 * A remote must list its refs within 30 seconds: a server that accepts connections and never answers would block a command for long. What it
 * sends or receives afterwards may take ten minutes.
 */
export function remoteTimeout([command]: readonly string[]): number {
  return command === "ls-remote" ? 30_000 : 10 * 60_000;
}

/** The user's environment, without variables that point to another repository. */
export function environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => !ELSEWHERE.has(name) && !name.startsWith("GIT_TRACE"));
  return {
    ...Object.fromEntries(kept),
    // Holdfast parses the messages, so they must be in English. Hooks still get UTF-8.
    LC_ALL: "C.UTF-8",
    LANGUAGE: "",
    GIT_TERMINAL_PROMPT: "0",
    // With a graft, a push would also send commits that are not ancestors of the branch and were not searched for
    // secrets.
    GIT_GRAFT_FILE: devNull,
  };
}

const ELSEWHERE = new Set([
  "GIT_DIR",
  "GIT_COMMON_DIR",
  "GIT_WORK_TREE",
  "GIT_INDEX_FILE",
  "GIT_OBJECT_DIRECTORY",
  "GIT_ALTERNATE_OBJECT_DIRECTORIES",
  "GIT_NAMESPACE",
  "GIT_PREFIX",
  "GIT_QUARANTINE_PATH",
  "GIT_PUSH_OPTION_COUNT",
]);

export function findFailedHook(trace: string): string | null {
  const hooks = new Map<string, string>();
  for (const line of trace.split("\n")) {
    const event = parseEvent(line);
    if (event === undefined) continue;
    const child = `${String(event["sid"])}/${String(event["child_id"])}`;
    if (event["event"] === "child_start" && event["child_class"] === "hook")
      hooks.set(child, String(event["hook_name"]));
    if (event["event"] === "child_exit" && event["code"] !== 0 && hooks.has(child)) return hooks.get(child) ?? null;
  }
  return null;
}

function parseEvent(line: string): Partial<Record<string, unknown>> | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const event: Partial<Record<string, unknown>> = JSON.parse(line);
    return event;
  } catch {
    return undefined;
  }
}

/** Removes passwords and tokens from URLs in messages, because messages end up in journals and reports. */
export function hideCredentials(text: string): string {
  return text.replaceAll(/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@'"]*@/gi, (whole, scheme: string) =>
    scheme.toLowerCase() === "ssh://" && !/:[^/]*@/.test(whole.slice(scheme.length)) ? whole : `${scheme}***@`,
  );
}
