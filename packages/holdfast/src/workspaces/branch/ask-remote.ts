import type { Branch, Refusal } from "../../ports/branch.ts";
import { readRef, type AskingPlace } from "./branch-place.ts";
import { classifyRefusal } from "./classify-refusal.ts";
import { findRemote } from "./choose-remote.ts";
import { runUserGit, type UserGitResult } from "./user-git.ts";

export const NO_REMOTE: Refusal = { cause: "missing_remote", message: "the repository has no remote" };

/**
 * Never prunes: a tracking ref may be the last name of somebody's commits, and deleting it locks `packed-refs`. So the
 * remote is asked beside it which branches it has.
 */
export async function fetchRemote(at: AskingPlace, configured: string | null): Promise<Fetched> {
  const remote = await findRemote(at, configured);
  if (remote === null) return { kind: "failed", refusal: NO_REMOTE };
  // The refspec is given: a bare clone has none of its own, and would update nothing.
  const heads = `+refs/heads/*:refs/remotes/${remote.name}/*`;
  const args = ["fetch", "--quiet", "--no-write-fetch-head", "--no-recurse-submodules", "--", remote.name, heads];
  const [fetched, listed] = await Promise.all([
    runUserGit(at, args),
    runUserGit(at, ["ls-remote", "--", remote.name, "refs/heads/*"]),
  ]);
  const failed = [fetched, listed].find(({ kind, code }) => kind !== "exited" || code !== 0);
  if (failed !== undefined) return { kind: "failed", refusal: refusalOf(failed) };
  return { kind: "fetched", branches: branchesIn(listed.stdout.toString("utf8")) };
}

type Fetched =
  | { readonly kind: "fetched"; readonly branches: readonly string[] }
  | { readonly kind: "failed"; readonly refusal: Refusal };

export async function readRemoteBranch(
  at: AskingPlace,
  configured: string | null,
  branch: string,
): Promise<string | null> {
  const remote = await findRemote(at, configured);
  return remote === null ? null : readRef(at.git, `refs/remotes/${remote.name}/${branch}`);
}

export async function lookUpRemote(
  at: AskingPlace,
  configured: string | null,
  branch: string,
): ReturnType<Branch["lookUpRemote"]> {
  const remote = await findRemote(at, configured);
  if (remote === null) return { kind: "unknown", reason: NO_REMOTE.message };
  const ref = `refs/heads/${branch}`;
  const result = await runUserGit(at, ["ls-remote", "--", remote.name, ref]);
  if (result.kind !== "exited" || result.code !== 0) return { kind: "unknown", reason: refusalOf(result).message };
  // git matches the end of names: refs/heads/x also finds refs/heads/refs/heads/x.
  return { kind: "known", commit: parseHeads(result.stdout.toString("utf8")).get(ref) ?? null };
}

export async function findDefaultBranch(at: AskingPlace, configured: string | null): Promise<string | null> {
  const remote = await findRemote(at, configured);
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
