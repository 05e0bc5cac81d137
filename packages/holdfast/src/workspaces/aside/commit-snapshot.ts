import type { Look } from "../../ports/workspace.ts";
import type { Repository } from "../repository.ts";
import { snapshotIdentity } from "../capture/snapshot-identity.ts";
import { missingCommit } from "./tree-of-commit.ts";

/** A tree as a commit on the head of a look, that says how the look was taken: a restore to it leaves out what that left out. */
export async function commitSnapshot(
  repository: Repository,
  params: {
    readonly tree: string;
    readonly like: Pick<Look, "commit" | "head">;
    readonly title: string;
    readonly at: string;
  },
): Promise<string> {
  const { tree, like, title, at } = params;
  const seen = await repository.objects.result({ args: ["cat-file", "commit", like.commit] });
  if (seen.code !== 0) throw missingCommit(like.commit);
  const how = /^Holdfast-Capture: .*$/m.exec(seen.stdout.toString("utf8"))?.[0];
  const input = Buffer.from(`${title}\n${how === undefined ? "" : `\n${how}\n`}`);
  const parents = like.head === null ? [] : ["-p", like.head];
  const env = snapshotIdentity(Math.floor(Date.parse(at) / 1000));
  return repository.objects.line({ args: ["commit-tree", tree, ...parents, "-F", "-"], input, env });
}
