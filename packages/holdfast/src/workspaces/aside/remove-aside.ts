import { rmdir } from "node:fs/promises";
import { dirname } from "node:path";
import type { Look } from "../../ports/workspace.ts";
import { openGitWorkspace } from "../git-workspace.ts";
import { takeAway } from "../worktree/remove-worktree.ts";
import type { Repository } from "../repository.ts";
import { readEntries } from "../worktree/worktree-entry.ts";
import { findMended } from "./find-mended.ts";
import { ownerOf } from "./aside-entry.ts";
import { pinAside } from "./aside-pin.ts";
import { comesFrom } from "./comes-from.ts";
import { readOptions } from "../restore/prepare-restore.ts";

/** Its files are pinned unless they are: given up is not lost. Ignored files go with it. */
export async function removeAside(
  repository: Repository,
  params: { readonly run: string; readonly key: string; readonly holding?: string },
): Promise<void> {
  const { run, holding } = params;
  const owner = ownerOf(params);
  // A stage that runs again asks once more for all that were removed: that must not cost a git each.
  if (!(await readEntries(repository)).some((entry) => entry.run === owner)) return;
  const record = await findMended(repository, owner);
  if (record === undefined) return;
  if (record.exists && !record.unfinished) {
    const workspace = await openGitWorkspace(repository, { root: record.path, gitDir: record.gitDir });
    const options = holding === undefined ? {} : await readOptions(repository, holding);
    const files = await workspace.look({ at: new Date().toISOString(), ...options });
    if (holding === undefined || !(await holds(repository, holding, files)))
      await pinAside(repository, { run, commit: files.commit });
  }
  await takeAway(repository, record);
  // The folder of all asides of the run, once nothing is in it.
  await rmdir(dirname(record.path)).catch(() => undefined);
}

/** The files, and the commit that they lie on. */
async function holds(repository: Repository, commit: string, { tree, head }: Look): Promise<boolean> {
  const args = ["rev-parse", "--verify", "--quiet", `${commit}^{tree}`];
  const same = await repository.objects.result({ args });
  if (same.code !== 0 || same.stdout.toString("utf8").trim() !== tree) return false;
  return head === null || head === commit || (await comesFrom(repository, { ancestor: head, of: commit }));
}
