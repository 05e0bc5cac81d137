import type { Git } from "../git/git-command.ts";
import { splitRecords, type RawPath } from "../raw-path.ts";

export interface TreeEntry {
  readonly mode: string;
  readonly id: string;
}

export interface TreeChange {
  readonly path: RawPath;
  readonly from: TreeEntry | null;
  readonly to: TreeEntry | null;
}

/** Every path in which two trees differ, in git's order. Reads trees only, so no attribute and no driver has a say. */
export async function diffTrees(git: Git, from: string, to: string): Promise<TreeChange[]> {
  const args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv"];
  return parseRawDiff(await git.output({ args: [...args, "--end-of-options", from, to] }));
}

function parseRawDiff(output: Buffer): TreeChange[] {
  const records = splitRecords(output);
  const changes: TreeChange[] = [];
  for (let at = 0; at + 1 < records.length; at += 2) {
    // ":100644 000000 <id> <id> D"
    const [fromMode = "", toMode = "", fromId = "", toId = ""] = (records[at] ?? "").slice(1).split(" ");
    changes.push({
      path: records[at + 1] ?? "",
      from: fromMode === NONE ? null : { mode: fromMode, id: fromId },
      to: toMode === NONE ? null : { mode: toMode, id: toId },
    });
  }
  return changes;
}

const NONE = "000000";
