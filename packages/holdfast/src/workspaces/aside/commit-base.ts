import type { Look } from "../../ports/workspace.ts";
import type { Repository } from "../repository.ts";
import { commitSnapshot } from "./commit-snapshot.ts";
import { pinAside } from "./aside-pin.ts";

/** A plain commit, without the user's index as a second parent: agents look at it with `git log` and `git diff`. */
export async function commitBase(
  repository: Repository,
  params: { readonly run: string; readonly files: Look; readonly at: string },
): Promise<string> {
  const { run, files, at } = params;
  const title = `The files of ${run}`;
  const commit = await commitSnapshot(repository, { tree: files.tree, like: files, title, at });
  await pinAside(repository, { run, commit });
  return commit;
}
