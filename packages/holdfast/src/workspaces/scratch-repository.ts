import { copyFile, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGit } from "./git/git-command.ts";

export interface ScratchRepository extends AsyncDisposable {
  readonly root: string;
}

/**
 * An empty repository in a temporary folder that can read all objects of another one. Branches, refs and worktrees that are made in it are nobody's but its
 * own; it has no remote, so nothing can be pushed from it. What is ignored there is ignored here.
 */
export async function makeScratchRepository(commonDir: string): Promise<ScratchRepository> {
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
    // Many repositories have none.
    await copyFile(join(commonDir, "info", "exclude"), join(root, ".git", "info", "exclude")).catch(() => undefined);
  } catch (error) {
    await rm(root, { recursive: true, force: true });
    throw error;
  }
  return { root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) };
}
