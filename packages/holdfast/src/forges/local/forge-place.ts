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
  const gitDir = [path, join(path, ".git")].find(isGitDir);
  if (gitDir === undefined) {
    throw new HoldfastError({
      code: "FORGE_FAILED",
      message: `there is no git repository at ${path}`,
      hint: `Make one with \`git init --bare ${path}\`, or point the remote at the right place.`,
      retry: "ask",
      data: { path },
    });
  }
  const directory = params.directory === undefined ? join(gitDir, "holdfast-forge") : resolve(params.directory);
  return { gitDir, directory, git: createBareGit(gitDir), clock: params.clock };
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
