import { readFile } from "node:fs/promises";
import { devNull } from "node:os";
import { join, resolve } from "node:path";
import { gitFailure } from "../git/git-command.ts";
import { openScratch } from "../indexes/private-index.ts";
import { runProcess, type ProcessResult } from "../../system/subprocess.ts";
import type { AskingPlace } from "./branch-place.ts";
import { hideCredentials } from "./hide-credentials.ts";

/**
 * git as the user runs it, for what talks to a remote: their hooks, credential helpers, ssh command and proxies all apply. It never asks a
 * person: nobody may be there. Only what would lead it to another repository is taken out of its environment.
 */
export async function runUserGit({ place, git }: AskingPlace, args: readonly string[]): Promise<UserGitResult> {
  const scratch = await openScratch(place.home);
  try {
    const trace = join(scratch.folder, "trace");
    const rewritten = await relativeRemotes({ place, git });
    const result = await runProcess({
      command: "git",
      args: ["--no-pager", "-c", "gc.auto=0", "-c", "maintenance.auto=false", ...args],
      cwd: place.root,
      env: { ...withConfig(environment(process.env), rewritten), GIT_TRACE2_EVENT: trace },
      timeoutMs: TIMEOUT_MS,
    });
    if (result.kind === "not_started") throw gitFailure(args, result);
    const failedHook = findFailedHook(await readFile(trace, "utf8").catch(() => ""));
    return { ...result, stderr: hideCredentials(result.stderr), failedHook };
  } finally {
    await scratch.release();
  }
}

/**
 * git resolves a relative remote against the worktree in which it runs. The user wrote it in the main worktree, so there it starts, as a rule that
 * rewrites the URL for this one call.
 */
async function relativeRemotes({ place, git }: AskingPlace): Promise<readonly (readonly [string, string])[]> {
  const { mainRoot } = place.repository;
  if (mainRoot === null || mainRoot === place.root) return [];
  const listed = await git.result({
    args: ["config", "--null", "--get-regexp", String.raw`^remote\..*\.(url|pushurl)$`],
  });
  if (listed.kind !== "exited" || listed.code !== 0) return [];
  const urls = listed.stdout
    .toString("utf8")
    .split("\0")
    .map((setting) => setting.slice(setting.indexOf("\n") + 1));
  // As git decides: a colon before any slash is host:path, and scheme:// is a transport.
  const isRelative = (url: string): boolean => url !== "" && !url.startsWith("/") && !/^[^/]*:/.test(url);
  return [...new Set(urls)].filter(isRelative).map((url) => [`url.${resolve(mainRoot, url)}.insteadOf`, url]);
}

function withConfig(env: NodeJS.ProcessEnv, settings: readonly (readonly [string, string])[]): NodeJS.ProcessEnv {
  if (settings.length === 0) return env;
  const before = Number(env["GIT_CONFIG_COUNT"] ?? 0) || 0;
  const added = settings.flatMap(([key, value], index) => [
    [`GIT_CONFIG_KEY_${before + index}`, key],
    [`GIT_CONFIG_VALUE_${before + index}`, value],
  ]);
  return { ...env, ...Object.fromEntries(added), GIT_CONFIG_COUNT: String(before + settings.length) };
}

export interface UserGitResult extends ProcessResult {
  /** The hook of this repository that ended with a failure, as git itself tells in its trace. */
  readonly failedHook: string | null;
}

const TIMEOUT_MS = 10 * 60_000;

function environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => !ELSEWHERE.has(name) && !name.startsWith("GIT_TRACE"));
  return {
    ...Object.fromEntries(kept),
    // Messages are read by program; hooks still get UTF-8.
    LC_ALL: "C.UTF-8",
    LANGUAGE: "",
    GIT_TERMINAL_PROMPT: "0",
    // With a graft, a push would also send commits that are not ancestors of the branch, which were not searched for secrets.
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
