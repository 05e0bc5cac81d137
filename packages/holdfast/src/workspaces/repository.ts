import { access, readFile, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { HoldfastError } from "../core/error.ts";
import { createGit, gitFailure, type Git } from "./git/git-command.ts";
import { checkGitVersion } from "./git/git-version.ts";
import { fileKey } from "./indexes/private-index.ts";
import { ensureHome, ensurePrivateGitDir } from "./indexes/private-git-dir.ts";

export type ObjectFormat = "sha1" | "sha256";

/** One repository, seen from outside any worktree. */
export interface Repository {
  readonly commonDir: string;
  /** Of the worktree from which it was opened: whose HEAD is "the current" one. */
  readonly gitDir: string;
  /** The folder of the main worktree; of the one it was opened from where that cannot be told; null when bare. */
  readonly mainRoot: string | null;
  /** Our folder in the common directory. */
  readonly home: string;
  readonly bare: boolean;
  readonly objectFormat: ObjectFormat;
  readonly emptyTree: string;
  /** The id that stands for "none" in this object format. */
  readonly zero: string;
  readonly objectDirectory: string;
  /** Refs, worktrees, the user's index: the real git directory, defused. */
  readonly git: Git;
  /** Objects only: our private git directory, in which no config of the user is read. */
  readonly objects: Git;
  readonly privateGitDir: string;
}

/** One worktree and its own git directory. */
export interface Checkout {
  readonly root: string;
  readonly gitDir: string;
}

/** The repository at this path, and the worktree that holds it; undefined in a bare one or outside of any. */
export async function findRepository(
  path: string,
): Promise<{ readonly repository: Repository; readonly checkout: Checkout | undefined }> {
  const [version, discovered] = await Promise.allSettled([checkGitVersion(), discover(path)]);
  if (version.status === "rejected") throw version.reason;
  if (discovered.status === "rejected") throw discovered.reason;
  const found = discovered.value;
  const home = await ensureHome(found.commonDir);
  const privateGitDir = await ensurePrivateGitDir({ home, objectFormat: found.objectFormat });
  const objectDirectory = join(found.commonDir, "objects");
  const repository: Repository = {
    commonDir: found.commonDir,
    gitDir: found.gitDir,
    mainRoot: found.bare ? null : basename(found.commonDir) === ".git" ? dirname(found.commonDir) : found.root,
    home,
    bare: found.bare,
    objectFormat: found.objectFormat,
    emptyTree: EMPTY_TREES[found.objectFormat],
    zero: "0".repeat(EMPTY_TREES[found.objectFormat].length),
    objectDirectory,
    privateGitDir,
    git: createGit({ cwd: found.commonDir, gitDir: found.commonDir }),
    objects: createGit({ cwd: found.commonDir, gitDir: privateGitDir, objectDirectory }),
  };
  return { repository, checkout: found.root === null ? undefined : { root: found.root, gitDir: found.gitDir } };
}

/** The worktree that holds this path; undefined in a bare repository or outside of any. */
export async function findCheckout(path: string): Promise<(Checkout & { readonly commonDir: string }) | undefined> {
  const found = await discover(path);
  if (found.root === null) return undefined;
  return { root: found.root, gitDir: found.gitDir, commonDir: found.commonDir };
}

const EMPTY_TREES: Readonly<Record<ObjectFormat, string>> = {
  sha1: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
  sha256: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
};

interface Discovered {
  readonly root: string | null;
  readonly gitDir: string;
  readonly commonDir: string;
  readonly bare: boolean;
  readonly objectFormat: ObjectFormat;
}

async function discover(path: string): Promise<Discovered> {
  if (path.includes("\0")) {
    throw new HoldfastError({ code: "USAGE", message: `${JSON.stringify(path)} holds a NUL byte, which no path can` });
  }
  const cwd = await realpath(path).then(folderOf, (error: unknown) => {
    throw new HoldfastError({
      code: "NOT_A_REPOSITORY",
      message: `${path} does not exist`,
      hint: "Name a folder inside a git repository.",
      cause: error,
    });
  });
  // A bare repository is used only when it is named itself: one that lies in a cloned tree must not get to speak.
  const bareHere = await looksBare(cwd);
  const git = createGit(bareHere ? { cwd, gitDir: cwd } : { cwd });
  const args = ["rev-parse", "--path-format=absolute", "--is-bare-repository", "--show-object-format"];
  const result = await git.result({ args: [...args, "--git-common-dir", "--absolute-git-dir", "--show-toplevel"] });
  const lines = result.stdout.toString("utf8").split("\n").slice(0, -1);
  const [bareText, format, commonDir, gitDir, root] = lines;
  if (result.kind !== "exited" || (result.code !== 0 && lines.length < 4) || commonDir === undefined) {
    if (result.kind === "exited" && /not a git repository|cannot use bare/.test(result.stderr)) {
      throw new HoldfastError({
        code: "NOT_A_REPOSITORY",
        message: `${path} is not inside a git repository`,
        hint: "Run `git init`, or name a folder inside a repository.",
      });
    }
    throw gitFailure(args, result);
  }
  if (gitDir === undefined || lines.length > 5 || lines.some((line) => line.includes("\uFFFD"))) {
    throw new HoldfastError({
      code: "UNSUPPORTED",
      message: `the repository at ${path} lies under a name with line breaks or bytes that are not UTF-8`,
      hint: "Move the repository to a plainly named folder.",
    });
  }
  if (format !== "sha1" && format !== "sha256") {
    throw new HoldfastError({ code: "UNSUPPORTED", message: `unknown git object format ${String(format)}` });
  }
  const checkout = root === undefined || root === "" ? null : await ownRoot({ root, gitDir, cwd });
  return {
    root: checkout,
    gitDir,
    commonDir,
    bare: bareText === "true" || (await isBare(commonDir, gitDir)),
    objectFormat: format,
  };
}

const bareness = new Map<string, boolean>();

/** A linked worktree is not bare, but the repository that it belongs to may be. Asked again when its config was written. */
async function isBare(commonDir: string, gitDir: string): Promise<boolean> {
  if (commonDir === gitDir) return false;
  const configs = ["config", "config.worktree"].map((name) => fileKey(join(commonDir, name)));
  const key = [commonDir, ...(await Promise.all(configs))].join("\0");
  const git = createGit({ cwd: commonDir, gitDir: commonDir });
  const bare = bareness.get(key) ?? (await git.line({ args: ["rev-parse", "--is-bare-repository"] })) === "true";
  bareness.set(key, bare);
  return bare;
}

/** `core.worktree` in a hostile config can point anywhere: a root is believed only if its own `.git` leads back here. */
async function ownRoot(params: { root: string; gitDir: string; cwd: string }): Promise<string | null> {
  const { root, gitDir, cwd } = params;
  const inside = cwd === root || cwd.startsWith(root.endsWith("/") ? root : `${root}/`);
  if (!inside) return null;
  const link = await readGitLink(join(root, ".git"));
  const [actual, claimed] = await Promise.all([realpath(link).catch(() => link), realpath(gitDir)]);
  return actual === claimed ? root : null;
}

/** What a `.git` stands for: itself when it is a directory, else the directory that the file names. */
export async function readGitLink(dotGit: string): Promise<string> {
  const text = await readFile(dotGit, "utf8").catch(() => undefined);
  const target = text === undefined ? undefined : /^gitdir: (.*)\n?$/s.exec(text)?.[1]?.replace(/\n$/, "");
  return target === undefined ? dotGit : resolve(dirname(dotGit), target);
}

async function folderOf(path: string): Promise<string> {
  return (await stat(path)).isDirectory() ? path : dirname(path);
}

async function looksBare(path: string): Promise<boolean> {
  if (basename(path) === ".git") return false;
  const parts = ["HEAD", "objects", "refs"].map((name) => access(join(path, name)));
  return Promise.all(parts).then(
    () => true,
    () => false,
  );
}
