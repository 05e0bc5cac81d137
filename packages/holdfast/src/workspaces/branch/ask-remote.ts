import { HoldfastError } from "../../core/error.ts";
import type { Branch, Refusal } from "../../ports/branch.ts";
import { readRef, type AskingPlace } from "./branch-place.ts";
import { classifyRefusal } from "./classify-refusal.ts";
import { findRemote, roleOf, type RemoteRole } from "./choose-remote.ts";
import { runUserGit, type UserGitResult } from "./user-git.ts";

export const NO_REMOTE: Refusal = { cause: "missing_remote", message: "the repository has no remote" };

/**
 * Both remotes where there are two: what is on a fork and what is upstream must be known together. Never prunes: a tracking
 * ref may be the last name of somebody's commits, and deleting it locks `packed-refs`. So a remote is asked beside it which
 * branches it has.
 */
export async function fetchRemote(at: AskingPlace, configured: string | null): Promise<Fetched> {
  const [base, push] = await Promise.all([findRemote(at, configured, "base"), findRemote(at, configured, "push")]);
  if (base === null || push === null) return { kind: "failed", refusal: NO_REMOTE };
  const present = new Map<string, Set<string>>();
  for (const name of new Set([base.name, push.name])) {
    // The refspec is given: a bare clone has none of its own, and would update nothing.
    const heads = `+refs/heads/*:refs/remotes/${name}/*`;
    const args = ["fetch", "--quiet", "--no-write-fetch-head", "--no-recurse-submodules", "--", name, heads];
    const [fetched, listed] = await Promise.all([
      runUserGit(at, args),
      runUserGit(at, ["ls-remote", "--", name, "refs/heads/*"]),
    ]);
    const failed = [fetched, listed].find(({ kind, code }) => kind !== "exited" || code !== 0);
    if (failed !== undefined) return { kind: "failed", refusal: refusalOf(failed) };
    present.set(name, new Set(branchesIn(listed.stdout.toString("utf8"))));
  }
  const on = (name: string): Set<string> => present.get(name) ?? new Set();
  return { kind: "fetched", branches: { base: on(base.name), push: on(push.name) } };
}

/** Names of the branches that a remote has; one set where both are the same. */
export type Present = Readonly<Record<RemoteRole, Set<string>>>;

type Fetched =
  | { readonly kind: "fetched"; readonly branches: Present }
  | { readonly kind: "failed"; readonly refusal: Refusal };

export async function readRemoteBranch(
  at: AskingPlace,
  configured: string | null,
  asked: { readonly branch: string; readonly own: string | null },
): Promise<string | null> {
  const remote = await findRemote(at, configured, roleOf(asked.branch, asked.own));
  return remote === null ? null : readRef(at.git, `refs/remotes/${remote.name}/${asked.branch}`);
}

export async function lookUpRemote(
  at: AskingPlace,
  configured: string | null,
  asked: { readonly branch: string; readonly own: string | null },
): ReturnType<Branch["lookUpRemote"]> {
  const remote = await findRemote(at, configured, roleOf(asked.branch, asked.own));
  if (remote === null) return { kind: "unknown", reason: NO_REMOTE.message, isTemporary: false };
  const ref = `refs/heads/${asked.branch}`;
  const result = await runUserGit(at, ["ls-remote", "--", remote.name, ref]);
  if (result.kind !== "exited" || result.code !== 0) {
    const { cause, message } = refusalOf(result);
    return { kind: "unknown", reason: message, isTemporary: cause === "network" || cause === "remote" };
  }
  // git matches the end of names: refs/heads/x also finds refs/heads/refs/heads/x.
  return { kind: "known", commit: parseHeads(result.stdout.toString("utf8")).get(ref) ?? null };
}

/**
 * Commits at the tips of all branches of the remote that is pushed to, as that remote answers: an agent can write the refs of this repository. None where
 * the remote does not answer, or pushes go to several places.
 */
export async function publishedTips(at: AskingPlace, configured: string | null): Promise<readonly string[]> {
  const remote = await findRemote(at, configured, "push");
  if (remote === null) return [];
  const [url, ...more] = (
    await at.git.line({ args: ["remote", "get-url", "--push", "--all", "--", remote.name] })
  ).split("\n");
  if (url === undefined || more.length > 0) return [];
  const from = (await at.git.line({ args: ["remote", "get-url", "--", remote.name] })) === url ? remote.name : url;
  const asked = ["ls-remote", "--upload-pack=git-upload-pack", "--", from, "refs/heads/*"];
  const result = await runUserGit(at, asked);
  if (result.kind === "exited" && result.code === 0)
    return [...new Set(parseHeads(result.stdout.toString("utf8")).values())];
  const { cause, message } = refusalOf(result);
  if (cause !== "network" && cause !== "remote") return [];
  throw new HoldfastError({
    code: "FORGE_FAILED",
    message: `Cannot ask ${remote.name} what it has (${cause}): ${message.trim()}`,
    hint: "Resume when the remote answers. Nothing was pushed.",
    retry: "later",
  });
}

export async function findDefaultBranch(at: AskingPlace, configured: string | null): Promise<string | null> {
  const remote = await findRemote(at, configured, "base");
  if (remote === null) return chooseDefault({ head: null, branches: await listRefs(at, "refs/heads/") });
  const result = await runUserGit(at, ["ls-remote", "--symref", "--", remote.name, "HEAD", "refs/heads/*"]);
  if (result.kind === "exited" && result.code === 0) {
    const text = result.stdout.toString("utf8");
    const head = /^ref: refs\/heads\/(.+)\tHEAD$/m.exec(text)?.[1] ?? null;
    return chooseDefault({ head, branches: branchesIn(text) });
  }
  const prefix = `refs/remotes/${remote.name}/`;
  const named = await at.git.result({ args: ["symbolic-ref", "--quiet", `${prefix}HEAD`] });
  const head = named.code === 0 ? named.stdout.toString("utf8").trim().slice(prefix.length) : null;
  return chooseDefault({ head, branches: await listRefs(at, prefix) });
}

/** A HEAD that leads to no branch says nothing: a new bare repository names master, whatever was pushed to it. */
export function chooseDefault(params: {
  readonly head: string | null;
  readonly branches: readonly string[];
}): string | null {
  const { head, branches } = params;
  if (head !== null && branches.includes(head)) return head;
  const usual = ["main", "master"].filter((name) => branches.includes(name));
  return usual.length === 1 ? (usual[0] ?? null) : null;
}

function refusalOf(result: UserGitResult): Refusal {
  const { stderr, failedHook, kind } = result;
  return classifyRefusal({ report: undefined, failedHook, stderr, timedOut: kind === "timed_out" });
}

async function listRefs(at: AskingPlace, prefix: string): Promise<readonly string[]> {
  const listed = await at.git.line({ args: ["for-each-ref", "--format=%(refname)", prefix] });
  return listed.split("\n").flatMap((ref) => (ref.startsWith(prefix) ? [ref.slice(prefix.length)] : []));
}

function branchesIn(text: string): readonly string[] {
  return [...parseHeads(text).keys()].flatMap((ref) => /^refs\/heads\/(.+)$/.exec(ref)?.[1] ?? []);
}

function parseHeads(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\n").flatMap((line) => {
    const [id = "", ref = ""] = line.split("\t");
    return /^[0-9a-f]{40,64}$/.test(id) ? [[ref, id] as const] : [];
  });
  return new Map(lines);
}
