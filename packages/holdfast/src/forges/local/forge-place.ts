import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { HoldfastError } from "../../core/error.ts";
import type { Clock } from "../../ports/clock.ts";
import { createBareGit, type BareGit } from "./bare-git.ts";

/** A repository with the folder beside its objects in which issues and pull requests lie. */
export interface ForgePlace {
  readonly gitDir: string;
  readonly directory: string;
  readonly git: BareGit;
  readonly clock: Clock;
}

export function findForgePlace(params: {
  readonly repository: string;
  readonly directory: string | undefined;
  readonly clock: Clock;
}): ForgePlace {
  const path = resolve(params.repository);
  const gitDir = gitDirOf(path);
  if (gitDir === undefined) {
    throw new HoldfastError({
      code: "FORGE_FAILED",
      message: `there is no git repository at ${path}`,
      hint: "Bring it back (is its drive mounted?), or point the remote at where it is now: `git remote set-url`.",
      retry: "later",
      data: { path },
    });
  }
  return { gitDir, directory: forgeDirectory(params), git: createBareGit(gitDir), clock: params.clock };
}

/** Where issues and pull requests lie, whether or not they do now. */
export function forgeDirectory(params: {
  readonly repository: string;
  readonly directory: string | undefined;
}): string {
  if (params.directory !== undefined) return resolve(params.directory);
  const path = resolve(params.repository);
  return join(gitDirOf(path) ?? path, "holdfast-forge");
}

function gitDirOf(path: string): string | undefined {
  return [path, join(path, ".git")].find(isGitDir);
}

/** The path that a remote's URL stands for; null when it leads to another machine. Relative ones start at `from`. */
export function localPathOf(url: string, from: string): string | null {
  if (/^file:\/\//i.test(url)) {
    try {
      return fileURLToPath(url);
    } catch {
      return null;
    }
  }
  // As git decides: a colon before any slash is host:path, and scheme:// is a transport.
  if (url === "" || /^[^/]*:/.test(url)) return null;
  return resolve(from, url);
}

function isGitDir(path: string): boolean {
  return ["HEAD", "objects", "refs"].every(
    (name) => statSync(join(path, name), { throwIfNoEntry: false }) !== undefined,
  );
}
