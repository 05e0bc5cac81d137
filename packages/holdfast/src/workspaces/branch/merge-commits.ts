import { gitFailure } from "../git/git-command.ts";
import { quotePath, splitRecords } from "../raw-path.ts";
import type { GitPath } from "../../core/checkpoint/checkpoint.ts";
import type { BranchPlace } from "./branch-place.ts";

export interface Merged {
  /** With conflict marks in the files when there are conflicts. */
  readonly tree: string;
  readonly conflicts: readonly GitPath[];
  /** What git says about them, one line each. */
  readonly detail: string;
}

/** The merge of two commits, made in objects alone: no file, no index, nothing under way. */
export async function mergeCommits(
  { git }: Pick<BranchPlace, "git">,
  params: { readonly ours: string; readonly theirs: string },
): Promise<Merged> {
  const args = ["merge-tree", "--write-tree", "-z", "--name-only", "--messages", params.ours, params.theirs];
  const result = await git.result({ args });
  if (result.kind !== "exited" || result.code === null || result.code > 1) throw gitFailure(args, result);
  return parseMerge(result.stdout);
}

/** `<tree> NUL (<path> NUL)* NUL (<count> NUL (<path> NUL)* <kind> NUL <text> NUL)*` */
export function parseMerge(output: Buffer): Merged {
  const [tree = "", ...rest] = splitRecords(output);
  const end = rest.indexOf("");
  const paths = end === -1 ? rest : rest.slice(0, end);
  const notes: string[] = [];
  for (let at = end === -1 ? rest.length : end + 1; at < rest.length;) {
    const count = Number(rest[at]);
    const kind = rest[at + count + 1] ?? "";
    const text = Buffer.from(rest[at + count + 2] ?? "", "latin1").toString("utf8");
    if (kind.startsWith("CONFLICT")) notes.push(text.trim());
    at += Number.isNaN(count) ? rest.length : count + 3;
  }
  return { tree, conflicts: [...new Set(paths.map(quotePath))], detail: notes.join("\n") };
}
