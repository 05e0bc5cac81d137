import { gitFailed, type BareGit } from "./bare-git.ts";

export type MergedTree =
  | { readonly kind: "clean"; readonly tree: string }
  | { readonly kind: "conflict"; readonly files: readonly string[] };

/** The real merge of two commits, in objects alone. */
export async function mergeTree(git: BareGit, base: string, head: string): Promise<MergedTree> {
  const args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base, head];
  const done = await git.result(args);
  if (done.kind !== "exited" || done.code === null || done.code > 1) throw gitFailed(git.gitDir, args, done);
  const [tree = "", ...files] = done.stdout
    .toString("utf8")
    .split("\0")
    .filter((part) => part !== "");
  return done.code === 0 ? { kind: "clean", tree } : { kind: "conflict", files };
}
