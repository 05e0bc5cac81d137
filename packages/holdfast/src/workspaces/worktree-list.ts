import { randomBytes } from "node:crypto";
import { mkdir, readFile, readdir, realpath, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { gitFailure } from "./git-command.ts";
import { readGitLink, type Repository } from "./repository.ts";

/** A worktree with the files that git and Holdfast keep about it. */
export interface WorktreeRecord {
  readonly path: string;
  /** null for the main worktree's entry of a bare repository. */
  readonly gitDir: string;
  readonly run: string | null;
  readonly branch: string | null;
  readonly head: string | null;
  /** The folder is there and belongs to this entry: not deleted, not moved away, not replaced by another clone. */
  readonly exists: boolean;
  readonly locked: boolean;
  /** Its files were not all written yet when its maker was killed. */
  readonly unfinished: boolean;
}

export const OWNER_FILE = "holdfast-run";
export const MAKING_FILE = "holdfast-making";

export async function listWorktrees(repository: Repository): Promise<WorktreeRecord[]> {
  const [output, gitDirs] = await Promise.all([listPatiently(repository), findGitDirs(repository)]);
  const records = output
    .toString("utf8")
    .split("\0\0")
    .filter((record) => record !== "");
  const parsed = records.map((record) => new Map(record.split("\0").map(splitField)));
  const described = await Promise.all(parsed.map((fields, place) => describe(fields, place === 0)));
  return described.flatMap((record) => record ?? []);

  async function describe(fields: ReadonlyMap<string, string>, main: boolean): Promise<WorktreeRecord | undefined> {
    const path = fields.get("worktree");
    const gitDir = main ? repository.commonDir : gitDirs.get(path ?? "");
    if (path === undefined || gitDir === undefined || fields.has("bare")) return undefined;
    const [run, making, link] = await Promise.all([
      readFile(join(gitDir, OWNER_FILE), "utf8").catch(() => undefined),
      readFile(join(gitDir, MAKING_FILE)).catch(() => undefined),
      readGitLink(join(path, ".git")).then((target) => realpath(target).catch(() => undefined)),
    ]);
    const head = fields.get("HEAD") ?? repository.zero;
    return {
      path,
      gitDir,
      // Whole only with the end of its line: whoever was killed while writing it wrote down no owner.
      run: main || run === undefined || !run.endsWith("\n") ? null : run.trim(),
      branch: fields.get("branch") ?? null,
      head: head === repository.zero ? null : head,
      exists: link !== undefined && link === (await realpath(gitDir)),
      locked: fields.has("locked"),
      unfinished: making !== undefined,
    };
  }
}

/** Exact: the worktree of issue-42 is never taken for that of issue-4. */
export async function findWorktree(repository: Repository, run: string): Promise<WorktreeRecord | undefined> {
  const owned = (await listWorktrees(repository)).filter((record) => record.run === run);
  return owned.find((record) => record.exists) ?? owned[0];
}

/** Linked worktrees by their folder. git's own list does not say where it keeps a worktree's files. */
async function findGitDirs(repository: Repository): Promise<ReadonlyMap<string, string>> {
  const folder = join(repository.commonDir, "worktrees");
  const names = await readdir(folder).catch(() => []);
  const pairs = await Promise.all(
    names.map(async (name): Promise<readonly [string, string] | undefined> => {
      const gitDir = join(folder, name);
      const text = await readFile(join(gitDir, "gitdir"), "utf8").catch(() => undefined);
      return text === undefined ? undefined : [dirname(resolve(gitDir, text.replace(/\n$/, ""))), gitDir];
    }),
  );
  return new Map(pairs.flatMap((pair) => (pair === undefined ? [] : [pair])));
}

function splitField(field: string): [string, string] {
  const space = field.indexOf(" ");
  return space < 0 ? [field, ""] : [field.slice(0, space), field.slice(space + 1)];
}

async function listPatiently(repository: Repository): Promise<Buffer> {
  const args = ["worktree", "list", "--porcelain", "-z"];
  const listed = await repository.git.result({ args });
  if (listed.code === 0) return listed.stdout;
  if (!(await setHalfMadeAside(repository))) throw gitFailure(args, listed);
  return await repository.git.output({ args });
}

/**
 * A git that was killed in `worktree add` can leave an entry without its `commondir`, and then no git lists any worktree here any
 * more. Until it is done git marks it as initializing, so it holds nobody's work. Moved into our own folder, never deleted.
 */
export async function setHalfMadeAside(repository: Repository, only?: string): Promise<boolean> {
  const folder = join(repository.commonDir, "worktrees");
  let moved = false;
  for (const name of await readdir(folder).catch(() => [])) {
    const entry = join(folder, name);
    const [mark, common, link] = await Promise.all(
      ["locked", "commondir", "gitdir"].map((file) => readFile(join(entry, file), "utf8").catch(() => "")),
    );
    const dotGit = link?.trim() ?? "";
    if (mark?.trim() !== "initializing" || common !== "") continue;
    if (only !== undefined && dotGit !== join(only, ".git")) continue;
    const damaged = join(repository.home, "damaged");
    await mkdir(damaged, { recursive: true, mode: 0o700 });
    await rename(entry, join(damaged, `worktree-${name}-${randomBytes(4).toString("hex")}`));
    const beside = dotGit === "" ? [] : await readdir(dirname(dotGit)).catch(() => []);
    if (beside.join() === ".git") await rm(dotGit, { force: true });
    moved = true;
  }
  return moved;
}
