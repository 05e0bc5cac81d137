import { lstat } from "node:fs/promises";
import { join } from "node:path";
import type { CheckoutState } from "../ports/workspace.ts";
import { blankFilters } from "./git/blank-filters.ts";
import { createGit } from "./git/git-command.ts";
import { pathBytes, quotePath, splitRecords } from "./raw-path.ts";
import type { Repository } from "./repository.ts";

/**
 * The state of the user's main checkout, to compare before and after an agent call: HEAD, branches and tags, and every file that git status lists, with
 * size and time. Reads only: no lock, no index refresh, no filter. null: there is no such checkout, or it cannot be read.
 */
export async function readMainCheckout(repository: Repository, runRoot: string): Promise<CheckoutState | null> {
  const { mainRoot } = repository;
  if (mainRoot === null || mainRoot === runRoot) return null;
  const git = createGit({ cwd: mainRoot });
  const env = await blankFilters(repository);
  const [head, branch, refs, status] = await Promise.all([
    git.result({ args: ["rev-parse", "--verify", "--quiet", "HEAD"] }),
    git.result({ args: ["symbolic-ref", "--quiet", "HEAD"] }),
    git.result({ args: ["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/", "refs/tags/"] }),
    git.result({ args: ["--no-optional-locks", ...STATUS], env }),
  ]);
  if (refs.code !== 0 || status.code !== 0) return null;
  const state = new Map<string, string>();
  const text = (output: Buffer): string => output.toString("utf8").trim();
  state.set("HEAD", `${text(branch.stdout) || "(detached)"} ${text(head.stdout)}`);
  for (const line of text(refs.stdout).split("\n")) {
    const [ref = "", commit = ""] = line.split(" ");
    if (ref !== "" && !OWN_BRANCH.test(ref)) state.set(ref, commit);
  }
  for (const record of splitRecords(status.stdout)) {
    const path = PATH.exec(record)?.[1];
    if (path === undefined || OWN_PATH.test(path)) continue;
    state.set(`file ${quotePath(path)}`, `${record} ${await stampOf(mainRoot, path)}`);
  }
  return { root: mainRoot, state };
}

const STATUS = ["status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all"];

/** Other runs work on branches of their own at the same time. */
const OWN_BRANCH = /^refs\/heads\/holdfast\//;

/** Loops are mirrored there for other tools. */
const OWN_PATH = /^\.aiwg\//;

/** What follows the fields of a changed, an unmerged or an untracked entry. */
const PATH = /^(?:1(?: \S+){7}|u(?: \S+){9}|\?) (.+)$/s;

/** A folder that git does not look into (another repository) changes its time with every file in it, and has none of ours. */
async function stampOf(root: string, path: string): Promise<string> {
  if (path.endsWith("/")) return "";
  const found = await lstat(Buffer.concat([Buffer.from(join(root, "/")), pathBytes(path)])).catch(() => null);
  return found === null ? "absent" : `${found.mode} ${found.size} ${found.mtimeMs} ${found.ino}`;
}
