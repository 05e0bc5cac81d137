import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createGit } from "../git/git-command.ts";
import { splitRecords, type RawPath } from "../raw-path.ts";
import type { Repository } from "../repository.ts";

/** Which paths were tracked when a snapshot was taken, from the user's index of that time. Empty when that cannot be read. */
export async function listTrackedThen(params: {
  readonly repository: Repository;
  readonly blob: string | null;
  readonly scratch: string;
}): Promise<ReadonlySet<RawPath>> {
  const { repository, blob, scratch } = params;
  if (blob === null) return new Set();
  const bytes = await repository.objects.result({ args: ["cat-file", "blob", blob] });
  if (bytes.code !== 0) return new Set();
  const indexFile = join(scratch, "user-index");
  await writeFile(indexFile, bytes.stdout);
  const git = createGit({
    cwd: scratch,
    gitDir: repository.privateGitDir,
    workTree: scratch,
    objectDirectory: repository.objectDirectory,
    indexFile,
  });
  const listed = await git.result({ args: ["ls-files", "-z"] });
  return new Set(listed.code === 0 ? splitRecords(listed.stdout) : []);
}
