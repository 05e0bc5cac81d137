// Finds a git repository and sets up Holdfast's private git directory over its objects.

import {
  access,
  copyFile,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { HoldfastError, wrapSystemErrors, usageError } from "@holdfast/platform/error";
import { isInside } from "@holdfast/platform/files";
import { type Git, checkGitVersion, createGit, gitError } from "@holdfast/platform/git-command";
import { createFileFacts, fileKey } from "./facts.ts";
import { EXACT_NAMES, type NameRules, probeNames } from "./folded-names.ts";
import { readSettings } from "./settings.ts";

export type ObjectFormat = "sha1" | "sha256";

/** One repository, independent of any worktree. */
export interface Repository {
  readonly commonDir: string;
  /** Git directory of the worktree from which it was opened, which defines the current HEAD. */
  readonly gitDir: string;
  /** The root of the main worktree, or of the worktree it was opened from if the main one is unknown; null if bare. */
  readonly mainRoot: string | null;
  /** Our directory inside the common directory. */
  readonly home: string;
  readonly bare: boolean;
  readonly objectFormat: ObjectFormat;
  readonly emptyTree: string;
  /** The all-zero id, which means "none" in this object format. */
  readonly zero: string;
  readonly objectDirectory: string;
  /** Git on the real git directory, for refs, worktrees and the user's index. Configured programs are disabled. */
  readonly git: Git;
  /** Git on our private git directory, for objects only. It reads no configuration of the user. */
  readonly objects: Git;
  readonly privateGitDir: string;
  /** How the file system of the common directory compares names. */
  readonly names: NameRules;
}

/** One worktree and its own git directory. */
export interface Checkout {
  readonly root: string;
  readonly gitDir: string;
}

/** Git on a worktree, as the user's own git sees it. `indexFile` replaces the worktree's index. */
export function worktreeGit({ root, gitDir }: Checkout, indexFile?: string): Git {
  return createGit({ cwd: root, gitDir, workTree: root, ...(indexFile === undefined ? {} : { indexFile }) });
}

/** Git on our private git directory, with any folder as its worktree and an index of our own. */
export function privateGit(
  { privateGitDir, objectDirectory }: Pick<Repository, "privateGitDir" | "objectDirectory">,
  folder: string,
  indexFile: string = join(folder, "index"),
  settings: readonly string[] = [],
): Git {
  return createGit({ cwd: folder, gitDir: privateGitDir, workTree: folder, objectDirectory, indexFile, settings });
}

/**
 * The repository at this path and the worktree that contains the path. The worktree is undefined in a bare repository
 * or outside any.
 */
export async function findRepository(
  path: string,
  { readOnly = false }: { readonly readOnly?: boolean } = {},
): Promise<{ readonly repository: Repository; readonly checkout: Checkout | undefined }> {
  const search = await searchFrom(path);
  // An old git can read, but it would not sync what it writes.
  const checking = readOnly ? undefined : checkGitVersion();
  const [version, discovered] = await Promise.allSettled([checking, discover(search)]);
  if (version.status === "rejected") throw version.reason;
  if (discovered.status === "rejected") throw discovered.reason;
  const found = discovered.value;
  const home = await ensurePrivateDirectory(found.commonDir);
  const names = await probeNames(home);
  const privateGitDir = await ensurePrivateGitDir({ home, objectFormat: found.objectFormat, names });
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
    names,
    git: createGit({ cwd: found.commonDir, gitDir: found.commonDir }),
    objects: createGit({ cwd: found.commonDir, gitDir: privateGitDir, objectDirectory }),
  };
  return { repository, checkout: found.root === null ? undefined : { root: found.root, gitDir: found.gitDir } };
}

/** Where the worktrees of runs are, unless the settings name a directory: beside the main worktree, or in a bare repository. */
export function worktreesFolder({ mainRoot, commonDir }: Pick<Repository, "mainRoot" | "commonDir">): string {
  return mainRoot === null ? join(commonDir, "trees") : `${mainRoot}-worktrees`;
}

/** The common directory of the repository at this path, for callers that only need the store in it. Writes nothing. Throws NOT_A_REPOSITORY. */
export function findCommonDir(path: string): Promise<string> {
  return wrapSystemErrors(path, async () => (await discover(await searchFrom(path))).commonDir);
}

/** The worktree that contains this path; undefined in a bare repository or outside any. */
export async function findCheckout(path: string): Promise<(Checkout & { readonly commonDir: string }) | undefined> {
  const found = await discover(await searchFrom(path));
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

interface RepositorySearch {
  readonly path: string;
  /** The folder in which git starts. */
  readonly cwd: string;
  /** The folder at or above `cwd` whose `.git` git finds first. */
  readonly above: string;
  readonly bareHere: boolean;
}

/** Throws NOT_A_REPOSITORY without running git if neither this folder nor one above it has an entry `.git`. */
async function searchFrom(path: string): Promise<RepositorySearch> {
  if (path.includes("\0")) {
    throw usageError(`${JSON.stringify(path)} contains a NUL byte, which no path can`);
  }
  const cwd = await realpath(path).then(folderOf, (error: unknown) => {
    throw new HoldfastError({
      code: "NOT_A_REPOSITORY",
      message: `${path} does not exist`,
      hint: "Name a folder inside a git repository.",
      cause: error,
    });
  });
  // A bare repository is used only if its own path is given: one inside a cloned tree must not take effect.
  const bareHere = await hasBareLayout(cwd);
  const above = bareHere ? cwd : await findGitEntry(cwd);
  if (above === null) throw notARepository(path);
  return { path, cwd, above, bareHere };
}

/** The nearest folder with an entry `.git`, or one that cannot be read: then git decides. */
async function findGitEntry(folder: string): Promise<string | null> {
  const isAbsent = await lstat(join(folder, ".git")).then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === "ENOENT",
  );
  if (!isAbsent) return folder;
  return dirname(folder) === folder ? null : findGitEntry(dirname(folder));
}

function notARepository(path: string): HoldfastError {
  return new HoldfastError({
    code: "NOT_A_REPOSITORY",
    message: `${path} is not inside a git repository`,
    hint: "Run `git init`, or name a folder inside a repository.",
  });
}

function discover(search: RepositorySearch): Promise<Discovered> {
  const { cwd, above, bareHere } = search;
  const find = async (): Promise<Discovered> =>
    (await readOrdinary(search)) ?? movedWorktrees.get(above) ?? (await askGit(search));
  return recall([cwd, above, bareHere].join("\0"), find);
}

const movedWorktrees = new Map<string, Discovered>();

/** From now on this process finds the repository of a worktree whose link is stale, without a write to the link. */
export function useMovedWorktree({ commonDir, bare, objectFormat }: Repository, { root, gitDir }: Checkout): void {
  movedWorktrees.set(root, { root, gitDir, commonDir, bare, objectFormat });
}

/**
 * Git's answer for an ordinary clone or one of its linked worktrees, read from the files: all of this user, on the same
 * file system, with a configuration that moves nothing. null: git has to be asked.
 */
async function readOrdinary({ cwd, above, bareHere }: RepositorySearch): Promise<Discovered | null> {
  const dotGit = join(above, ".git");
  if (bareHere || /[\n\uFFFD]/.test(cwd) || isInside(cwd, dotGit) || (await hasBareBetween(cwd, above))) return null;
  try {
    const link = await lstat(dotGit);
    if (!link.isDirectory() && !link.isFile()) return null;
    const gitDir = link.isFile() ? await readGitLink(dotGit) : dotGit;
    const commonDir = link.isFile() ? dirname(dirname(gitDir)) : gitDir;
    if (link.isFile() && !(await isLinkedTo({ dotGit, gitDir, commonDir }))) return null;
    const own = [link, ...(await Promise.all([above, gitDir, commonDir].map((path) => stat(path))))];
    const all = [...own, ...(await Promise.all([cwd, join(commonDir, "objects")].map((path) => stat(path))))];
    if (own.some(({ uid }) => uid !== process.geteuid?.()) || all.some(({ dev }) => dev !== link.dev)) return null;
    await stat(join(commonDir, "refs"));
    const [config, head] = await Promise.all([readText(join(commonDir, "config")), readText(join(gitDir, "HEAD"))]);
    const isElsewhere = await access(join(commonDir, "commondir")).then(
      () => true,
      () => false,
    );
    if (isElsewhere || !isOrdinaryConfig(config) || !/^(?:ref: refs\/\S|[0-9a-f]{40}\n?$)/.test(head)) return null;
    return { root: above, gitDir, commonDir, bare: false, objectFormat: "sha1" };
  } catch {
    return null;
  }
}

/** True if the `.git` file of a worktree and its entry in the repository name each other, as `git worktree add` writes them. */
async function isLinkedTo(at: { dotGit: string; gitDir: string; commonDir: string }): Promise<boolean> {
  const { dotGit, gitDir, commonDir } = at;
  if (basename(commonDir) !== ".git" || basename(dirname(gitDir)) !== "worktrees") return false;
  const [common, back] = await Promise.all([readText(join(gitDir, "commondir")), readText(join(gitDir, "gitdir"))]);
  return common === "../..\n" && back === `${dotGit}\n` && (await realpath(gitDir)) === gitDir;
}

function readText(path: string): Promise<string> {
  return readFile(path, "utf8");
}

/** False if a setting could make git use another worktree, object format or way to store refs. */
function isOrdinaryConfig(config: string): boolean {
  const rest = config.replace(/^\s*repositoryformatversion = 0$/m, "").replace(/^\s*bare = false$/m, "");
  return rest.length < config.length && !/repositoryformatversion|bare|worktree|extensions|include/i.test(rest);
}

/** Git refuses a folder below a bare repository that is not named itself. */
async function hasBareBetween(cwd: string, above: string): Promise<boolean> {
  for (let folder = cwd; folder !== above; folder = dirname(folder)) if (await hasBareLayout(folder)) return true;
  return false;
}

/** What decides where a repository is, besides the folders on the way to it. */
const recall = createFileFacts<Discovered>(({ root, gitDir, commonDir }) => {
  if (root === null) return null;
  const link = join(root, ".git");
  // The time of a directory changes with every file in it.
  const links = link === gitDir ? [] : [link, join(gitDir, "commondir"), join(gitDir, "gitdir")];
  return [...links, ...[commonDir, gitDir].flatMap((folder) => CONFIGS.map((name) => join(folder, name)))];
});

const CONFIGS = ["config", "config.worktree"];

async function askGit({ path, cwd, bareHere }: RepositorySearch): Promise<Discovered> {
  const git = createGit(bareHere ? { cwd, gitDir: cwd } : { cwd });
  const args = ["rev-parse", "--path-format=absolute", "--is-bare-repository", "--show-object-format"];
  const result = await git.result({ args: [...args, "--git-common-dir", "--absolute-git-dir", "--show-toplevel"] });
  const lines = result.stdout.toString("utf8").split("\n").slice(0, -1);
  const [bareText, format, commonDir, gitDir, root] = lines;
  if (result.kind !== "exited" || (result.code !== 0 && lines.length < 4) || commonDir === undefined) {
    if (result.kind === "exited" && /not a git repository|cannot use bare/.test(result.stderr))
      throw notARepository(path);
    throw gitError(args, result);
  }
  if (gitDir === undefined || lines.length > 5 || lines.some((line) => line.includes("\uFFFD"))) {
    throw new HoldfastError({
      code: "UNSUPPORTED",
      message: `the repository at ${path} has a path with line breaks or bytes that are not UTF-8`,
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
    bare: await isBare(commonDir, gitDir, bareText === "true"),
    objectFormat: format,
  };
}

const bareness = new Map<string, boolean>();

/**
 * A linked worktree is not bare, but its repository may be. The answer for a repository is remembered until its
 * configuration changes.
 */
async function isBare(commonDir: string, gitDir: string, isBareHere: boolean): Promise<boolean> {
  const configs = CONFIGS.map((name) => fileKey(join(commonDir, name)));
  const key = [commonDir, ...(await Promise.all(configs))].join("\0");
  const ask = async (): Promise<boolean> =>
    (await createGit({ cwd: commonDir, gitDir: commonDir }).line({ args: ["rev-parse", "--is-bare-repository"] })) ===
    "true";
  const bare = isBareHere || (commonDir === gitDir ? false : (bareness.get(key) ?? (await ask())));
  bareness.set(key, bare);
  return bare;
}

/**
 * `core.worktree` in a hostile config can point anywhere. A root is accepted only if its own `.git` leads back here.
 */
async function ownRoot(params: { root: string; gitDir: string; cwd: string }): Promise<string | null> {
  const { root, gitDir, cwd } = params;
  if (!isInside(cwd, root)) return null;
  const link = await readGitLink(join(root, ".git"));
  const [actual, claimed] = await Promise.all([realpath(link).catch(() => link), realpath(gitDir)]);
  return actual === claimed ? root : null;
}

/** Resolves a `.git`: a directory is itself, a file names the directory. */
export async function readGitLink(dotGit: string): Promise<string> {
  const text = await readFile(dotGit, "utf8").catch(() => undefined);
  const target = text === undefined ? undefined : /^gitdir: (.*)\n?$/s.exec(text)?.[1]?.replace(/\n$/, "");
  return target === undefined ? dotGit : resolve(dirname(dotGit), target);
}

async function folderOf(path: string): Promise<string> {
  return (await stat(path)).isDirectory() ? path : dirname(path);
}

async function hasBareLayout(path: string): Promise<boolean> {
  if (basename(path) === ".git") return false;
  const parts = ["HEAD", "objects", "refs"].map((name) => access(join(path, name)));
  return Promise.all(parts).then(
    () => true,
    () => false,
  );
}

/**
 * Our own git directory over the user's object database. Commands that read files or trees run here, so the
 * repository's configuration is not read. `info/attributes` outranks every .gitattributes and disables all conversion:
 * line ends, filters such as LFS, ident and encodings. So a snapshot contains exactly the bytes on disk.
 */
export async function ensurePrivateGitDir(params: {
  readonly home: string;
  readonly objectFormat: ObjectFormat;
  readonly names?: NameRules;
}): Promise<string> {
  const path = join(params.home, "git");
  const files = contents(params.objectFormat, params.names ?? EXACT_NAMES);
  if (await isExactly(path, files)) return path;
  // It is absent, from another version, or planted by the author of this repository. It is never used but created
  // again.
  const fresh = await mkdtemp(join(params.home, "git-"));
  for (const folder of ["info", "refs", "objects"]) await mkdir(join(fresh, folder));
  for (const [name, text] of files) await writeFile(join(fresh, name), text, { mode: 0o600 });
  // Another process may have created a valid one at the same time and be using it. Only an invalid one is replaced.
  for (let attempt = 1; ; attempt++) {
    try {
      await rename(fresh, path);
      return path;
    } catch (error) {
      const good = await isExactly(path, files);
      if (good || attempt > 1) await rm(fresh, { recursive: true, force: true });
      if (good) return path;
      if (attempt > 1) throw error;
      await rm(path, { recursive: true, force: true });
    }
  }
}

export const PRIVATE_DIRECTORY = "holdfast-workspace";

/** The directory for our files inside a git directory: private indexes, staged files. Refuses a planted link. */
export async function ensurePrivateDirectory(gitDir: string): Promise<string> {
  const home = join(gitDir, PRIVATE_DIRECTORY);
  await mkdir(home, { mode: 0o700 }).catch(async (error: unknown) => {
    const found = await lstat(home).catch(() => undefined);
    if (found?.isDirectory() === true) return;
    const isAbsent = found === undefined;
    const why = error instanceof Error ? error.message : String(error);
    throw new HoldfastError({
      code: "IO_FAILED",
      message: isAbsent ? `${home} cannot be created: ${why}` : `${home} cannot be used as a directory`,
      hint: isAbsent
        ? `Check who owns ${gitDir}, its permissions, and whether its file system is mounted read-only.`
        : "Remove it and run the command again.",
      cause: error,
    });
  });
  return home;
}

const SHARED_INDEX = "sharedindex";

function contents(format: ObjectFormat, names: NameRules): readonly (readonly [name: string, text: string])[] {
  const extensions = format === "sha1" ? "" : `[extensions]\n\tobjectFormat = ${format}\n`;
  return [
    ["HEAD", "ref: refs/heads/none\n"],
    [
      "config",
      [
        `[core]\n\trepositoryFormatVersion = ${format === "sha1" ? 0 : 1}\n\tbare = false`,
        // Makes git check the disk before it trusts a skip-worktree bit.
        "\tsparseCheckout = true",
        // A changed file then costs a small write instead of a rewrite of a large index. The shared part is in this
        // directory.
        "\tsplitIndex = true\n[splitIndex]\n\tsharedIndexExpire = 1.day.ago",
        ...(names.ignoresCase ? ["[core]\n\tignoreCase = true"] : []),
        ...(names.ignoresForm ? ["[core]\n\tprecomposeUnicode = true"] : []),
        extensions,
      ].join("\n"),
    ],
    ["info/attributes", "* -text !eol -ident -filter !working-tree-encoding !diff !merge -export-subst\n"],
  ];
}

async function isExactly(path: string, files: readonly (readonly [name: string, text: string])[]): Promise<boolean> {
  try {
    const [top, info] = await Promise.all([readdir(path), readdir(join(path, "info"))]);
    const fixed = top.filter((name) => !name.startsWith(SHARED_INDEX)).sort();
    if (fixed.join() !== "HEAD,config,info,objects,refs" || info.join() !== "attributes") return false;
    const texts = await Promise.all(files.map(([name]) => readFile(join(path, name), "utf8")));
    return texts.every((text, index) => text === files[index]?.[1]);
  } catch {
    return false;
  }
}

interface ScratchRepository extends AsyncDisposable {
  readonly root: string;
}

/**
 * An empty repository in a temporary directory that can read all objects of another one. Its branches, refs and
 * worktrees do not affect the original. It has no remote, so nothing can be pushed from it. It uses the same ignore
 * rules.
 */
export async function createScratchRepository(commonDir: string): Promise<ScratchRepository> {
  const args = ["rev-parse", "--show-object-format"];
  const format = await createGit({ cwd: commonDir, gitDir: commonDir }).line({ args });
  const root = await realpath(await mkdtemp(join(tmpdir(), "holdfast-replay-")));
  try {
    const git = createGit({ cwd: root });
    await git.output({ args: ["init", "--quiet", `--object-format=${format}`, "."] });
    const info = join(root, ".git", "objects", "info");
    await mkdir(info, { recursive: true });
    await writeFile(join(info, "alternates"), `${join(commonDir, "objects")}\n`);
    await mkdir(join(root, ".git", "info"), { recursive: true });
    // Many repositories have no exclude file.
    await copyFile(join(commonDir, "info", "exclude"), join(root, ".git", "info", "exclude")).catch(() => undefined);
  } catch (error) {
    await rm(root, { recursive: true, force: true });
    throw error;
  }
  return { root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) };
}

/**
 * Settings, as environment variables, that disable every configured content filter. Used when git itself writes files,
 * which is only for a new worktree. Files under such a filter (LFS) arrive there as they are stored.
 */
export async function disableFilters(repository: Repository): Promise<Readonly<Record<string, string>>> {
  // Git itself fails if it cannot read its settings.
  const listed = await readSettings(repository, repository.commonDir).catch(() => []);
  const names = new Set(listed.flatMap(([key]) => /^filter\.(.*)\.[^.]+$/s.exec(key)?.[1] ?? []));
  const settings = [...names].flatMap((name) => [
    [`filter.${name}.clean`, ""],
    [`filter.${name}.smudge`, ""],
    [`filter.${name}.process`, ""],
    [`filter.${name}.required`, "false"],
  ]);
  // Environment variables instead of -c, because a name may contain an equals sign.
  const env: Record<string, string> = { GIT_CONFIG_COUNT: String(settings.length) };
  for (const [index, [key = "", value = ""]] of settings.entries()) {
    env[`GIT_CONFIG_KEY_${index}`] = key;
    env[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  return env;
}
