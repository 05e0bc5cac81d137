import type { Checkpoint } from "@holdfast/core/checkpoint";
import { worktreeOf } from "../writers/worktree.ts";
import { git, readBlobs } from "./repository.ts";

/**
 * Checks with git alone that the files of these checkpoints are in the repository, byte for byte, and held by the ref
 * that each names. Reads every object: an object that exists by name but is torn counts as lost. `lostHead` is a commit
 * that was lost before anything was saved with it.
 */
export function judgeFiles(
  repository: string,
  found: readonly Checkpoint[],
  {
    contentOf = ({ sequence }) => sequence,
    lostHead = null,
  }: { readonly contentOf?: (checkpoint: Checkpoint) => number; readonly lostHead?: string | null } = {},
): readonly string[] {
  const problems: string[] = [];
  for (const checkpoint of found) {
    const { sequence, planes } = checkpoint;
    if (planes.files === null) continue;
    const { ref, snapshot, tree, head, index } = planes.files;
    try {
      const held = git(repository, ["rev-parse", ref, `${snapshot}^{tree}`])
        .toString()
        .trim()
        .split("\n");
      if (held[0] !== snapshot) problems.push(`LOST: ${ref} is ${held[0]}, not the snapshot of checkpoint ${sequence}`);
      if (held[1] !== tree) problems.push(`TORN: the snapshot of checkpoint ${sequence} has another tree`);
      // A killed git leaves the lock of a name, and then the ref has another digit at its end.
      const indexes = git(repository, ["for-each-ref", "--format=%(objectname)", `${ref}-index*`]).toString();
      if (index !== null && !indexes.split("\n").includes(index))
        problems.push(`LOST: no ref ${ref}-index holds the index of checkpoint ${sequence}`);
      const heads = git(repository, ["rev-list", "--glob=refs/holdfast/*/head/*"]).toString().split("\n");
      const needed = head === null || head === lostHead ? [] : [head];
      if (needed.some((commit) => !heads.includes(commit)))
        problems.push(`LOST: no ref holds the HEAD of checkpoint ${sequence}`);
      git(repository, ["rev-list", "--objects", "--quiet", snapshot, ...needed]);
      problems.push(...compareTree(repository, tree, contentOf(checkpoint), sequence));
    } catch (error) {
      problems.push(
        `LOST: git cannot read the files of checkpoint ${sequence}: ${error instanceof Error ? error.message.trim() : String(error)}`,
      );
    }
  }
  return problems;
}

function compareTree(repository: string, tree: string, content: number, sequence: number): readonly string[] {
  const problems: string[] = [];
  const wanted = worktreeOf(content);
  const records = git(repository, ["ls-tree", "-r", "-z", tree]).toString("utf8").split("\0").slice(0, -1);
  const found = records.map((record) => {
    const [mode = "", , id = ""] = record.slice(0, record.indexOf("\t")).split(" ");
    return { path: record.slice(record.indexOf("\t") + 1), mode, id };
  });
  const blobs = readBlobs(
    repository,
    found.map(({ id }) => id),
  );
  found.forEach(({ path, mode }, i) => {
    const entry = wanted.get(path);
    if (entry === undefined) return problems.push(`TORN: checkpoint ${sequence} has ${path}`);
    const expected = entry.kind === "symlink" ? "120000" : entry.executable ? "100755" : "100644";
    const content = entry.kind === "symlink" ? Buffer.from(entry.target) : entry.bytes;
    const same = mode === expected && blobs[i]?.equals(content) === true;
    return same ? 0 : problems.push(`TORN: ${path} of checkpoint ${sequence} is not what was saved`);
  });
  const names = new Set(found.map(({ path }) => path));
  for (const path of wanted.keys()) if (!names.has(path)) problems.push(`TORN: checkpoint ${sequence} lacks ${path}`);
  return problems;
}
