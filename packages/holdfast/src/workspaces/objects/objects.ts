import { statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { loosePath } from "./loose-object.ts";
import type { Repository } from "../repository.ts";

/** Those of the ids whose object is not there or whose file is empty or torn at its head. */
export async function findMissing(repository: Repository, ids: readonly string[]): Promise<string[]> {
  // What was written a moment ago lies there as a file of its own; a look at it saves a process.
  const unsure = ids.length > LOOK_UP_TO ? ids : ids.filter((id) => !isLooseAndFilled(repository, id));
  if (unsure.length === 0) return [];
  const input = Buffer.from(unsure.map((id) => `${id}\n`).join(""));
  const result = await repository.objects.result({
    args: ["cat-file", "--batch-check=%(objectname) %(objecttype)"],
    input,
  });
  const present = new Set(
    result.stdout
      .toString("latin1")
      .split("\n")
      .filter((line) => / (?:blob|tree|commit|tag)$/.test(line))
      .map((line) => line.slice(0, line.indexOf(" "))),
  );
  return unsure.filter((id) => !present.has(id));
}

/**
 * Is all of it there? Existence for everything; loose objects are also read to their end, because a loose object that
 * another git wrote just before a power cut can be there and be torn. Packs are synced by git before they get their name.
 */
export async function hasSnapshot(repository: Repository, files: SnapshotIds): Promise<boolean> {
  if (!(await hasCommit(repository, files))) return false;
  const args = ["rev-list", "--objects", "--no-object-names", files.tree];
  const walk = await repository.objects.result({ args });
  if (walk.code !== 0) return false;
  const lines = walk.stdout.toString("latin1").split("\n");
  return areWhole(repository, [files.commit, ...lines.filter((line) => line !== "")]);
}

export interface SnapshotIds {
  readonly tree: string;
  readonly commit: string;
}

/** Is the commit there, and of this tree? What the tree holds is not looked at. */
export async function hasCommit(repository: Repository, files: SnapshotIds): Promise<boolean> {
  if (!ID.test(files.tree) || !ID.test(files.commit)) return false;
  const args = ["rev-parse", "--verify", "--quiet", `${files.commit}^{tree}`];
  const tree = await repository.objects.result({ args });
  return tree.code === 0 && tree.stdout.toString("utf8").trim() === files.tree;
}

export async function areWhole(repository: Repository, ids: readonly string[]): Promise<boolean> {
  if ((await findMissing(repository, ids)).length > 0) return false;
  const loose = await listLoose(repository, ids);
  return readsToTheEnd(repository, loose);
}

/** Those of the commits that no branch, tag or remote-tracking ref reaches. */
export async function findUnpublished(
  repository: Repository,
  commits: readonly string[],
): Promise<ReadonlySet<string>> {
  const asked = commits.filter((commit) => ID.test(commit));
  if (asked.length === 0) return new Set();
  const input = Buffer.from(asked.map((commit) => `${commit}\n`).join(""));
  const args = ["rev-list", "--ignore-missing", "--stdin", "--not", "--branches", "--tags", "--remotes"];
  const walk = await repository.git.output({ args, input });
  const unreached = new Set(walk.toString("latin1").split("\n"));
  return new Set(asked.filter((commit) => unreached.has(commit)));
}

const LOOK_UP_TO = 2000;
const ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

function isLooseAndFilled(repository: Repository, id: string): boolean {
  return (statSync(loosePath(repository, id), { throwIfNoEntry: false })?.size ?? 0) > 0;
}

/** By listing folders, not by asking for each: a large tree has many times more objects than there are folders. */
async function listLoose(repository: Repository, ids: readonly string[]): Promise<readonly string[]> {
  const folders = [...new Set(ids.map((id) => id.slice(0, 2)))];
  const found = await Promise.all(
    folders.map(async (folder) => {
      const names = await readdir(join(repository.objectDirectory, folder)).catch(() => []);
      return names.map((name) => folder + name);
    }),
  );
  const loose = new Set(found.flat());
  return ids.filter((id) => loose.has(id));
}

/** Does git read all of them without a complaint? */
export async function readsToTheEnd(repository: Repository, ids: readonly string[]): Promise<boolean> {
  if (ids.length === 0) return true;
  const reading = repository.objects.start({ args: ["cat-file", "--batch=%(objecttype)"] });
  reading.stdin.end(ids.map((id) => `${id}\n`).join(""));
  reading.stdout.resume();
  const exit = await reading.exit;
  return exit.kind === "exited" && exit.code === 0 && exit.stderr === "";
}
