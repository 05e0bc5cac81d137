import { realpath } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { clearForeign, clearLeftovers } from "../git/git-leftovers.ts";
import { readGitLink, type Repository } from "../repository.ts";
import { readEntries } from "./worktree-entry.ts";

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

export async function listWorktrees(repository: Repository): Promise<WorktreeRecord[]> {
  const output = await listPatiently(repository);
  const entries = new Map((await readEntries(repository)).map((entry) => [entry.folder, entry]));
  const records = output
    .toString("utf8")
    .split("\0\0")
    .filter((record) => record !== "");
  const parsed = records.map((record) => new Map(record.split("\0").map(splitField)));
  const described = await Promise.all(parsed.map((fields, place) => describe(fields, place === 0)));
  return described.flatMap((record) => record ?? []);

  async function describe(fields: ReadonlyMap<string, string>, main: boolean): Promise<WorktreeRecord | undefined> {
    const path = fields.get("worktree");
    const entry = main || path === undefined ? undefined : entries.get(path);
    const gitDir = main ? repository.commonDir : entry?.gitDir;
    if (path === undefined || gitDir === undefined || fields.has("bare")) return undefined;
    const link = await realpath(await readGitLink(join(path, ".git"))).catch(() => undefined);
    const head = fields.get("HEAD") ?? repository.zero;
    return {
      path,
      gitDir,
      run: entry?.run ?? null,
      branch: fields.get("branch") ?? null,
      head: head === repository.zero ? null : head,
      exists: link !== undefined && link === (await realpath(gitDir)),
      locked: fields.has("locked"),
      unfinished: entry?.making === true,
    };
  }
}

/** Exact: the worktree of issue-42 is never taken for that of issue-4. */
export async function findWorktree(repository: Repository, run: string): Promise<WorktreeRecord | undefined> {
  const owned = (await listWorktrees(repository)).filter((record) => record.run === run);
  return owned.find((record) => record.exists) ?? owned[0];
}

function splitField(field: string): [string, string] {
  const space = field.indexOf(" ");
  return space < 0 ? [field, ""] : [field.slice(0, space), field.slice(space + 1)];
}

/** git lists no worktree at all while one of them has no `commondir` yet: for a moment, or for good when its maker was killed. */
async function listPatiently(repository: Repository): Promise<Buffer> {
  const args = ["worktree", "list", "--porcelain", "-z"];
  for (let attempt = 1; attempt < ATTEMPTS; attempt++) {
    const listed = await repository.git.result({ args });
    if (listed.code === 0) return listed.stdout;
    if (attempt === 1) await clearLeftovers(repository);
    else await sleep(PAUSE_MS);
  }
  await clearForeign(repository);
  return await repository.git.output({ args });
}

const ATTEMPTS = 6;
const PAUSE_MS = 100;
