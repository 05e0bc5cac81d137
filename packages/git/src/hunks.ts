// The difference of two trees in parts that a user can choose singly, and the tree that results from the chosen parts. Git makes and applies
// the patches, on trees and a temporary index: neither the worktree nor the user's index is touched.

import { join } from "node:path";
import type { FilePatch, PreviewSnapshot } from "@holdfast/core/workspace";
import { quotePath } from "./paths.ts";
import { openScratch } from "./private-index.ts";
import { type Repository, privateGit } from "./repository.ts";
import { readCaptureOptions, writeSnapshotObject } from "./snapshot-object.ts";
import { type TreeChange, diffTrees } from "./tree-diff.ts";

/** Each setting of the user that could change the patch is set here. */
const PATCH = [
  ..."-c core.quotePath=false -c diff.suppressBlankEmpty=false diff-tree -r --patch --binary --full-index".split(" "),
  ..."--no-renames --no-color --no-ext-diff --no-textconv --unified=3 --inter-hunk-context=0".split(" "),
  ..."--src-prefix=a/ --dst-prefix=b/ --end-of-options".split(" "),
];
const MAX_BYTES = 256 * 1024 * 1024;

/** In git's order. */
export async function readPatches(
  repository: Repository,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<readonly FilePatch[]> {
  const [changes, output] = await Promise.all([
    diffTrees(repository.objects, from, to),
    repository.objects.output({ args: [...PATCH, from, to], maxOutputBytes: MAX_BYTES }),
  ]);
  // Files may have any encoding. As Latin-1, each byte is one character and survives.
  const sections = splitSections(output.toString("latin1"));
  return changes.map((change) => {
    const own = sections.splice(0, isOtherType(change) ? 2 : 1);
    return { path: quotePath(change.path), ...partsOf(change, own) };
  });
}

/** The snapshot `to`, with the files of tree `from` and these patches. It can be restored to; it is not pinned. */
export async function applyPatches(
  repository: Repository,
  params: { readonly from: string; readonly to: PreviewSnapshot; readonly patches: readonly FilePatch[] },
): Promise<PreviewSnapshot> {
  const { from, to, patches } = params;
  await using scratch = await openScratch(repository.home);
  const git = privateGit(repository, scratch.folder, join(scratch.folder, "patch-index"));
  await git.output({ args: ["-c", "core.splitIndex=false", "read-tree", from] });
  const input = Buffer.from(patches.map(formatPatch).join(""), "latin1");
  await git.output({ args: ["apply", "--cached", "--whitespace=nowarn", "--binary", "-p1", "-"], input });
  const tree = await git.line({ args: ["-c", "core.splitIndex=false", "write-tree"] });
  const capture = await readCaptureOptions(repository, to.snapshot);
  const object = { tree, head: to.head, index: to.index, capture };
  const snapshot = await writeSnapshotObject(repository, object, { message: "hunks\n\n", epochSeconds: 0 });
  return { ...to, tree, snapshot };
}

/** The patch of one file, as git prints it. */
interface Section {
  /** From its `diff --git` line to its first hunk. */
  readonly header: string;
  readonly hunks: readonly string[];
}

/** Lines of a hunk are counted, because they may look like anything. */
function splitSections(text: string): Section[] {
  const sections: { header: string; hunks: string[] }[] = [];
  let [removed, added] = [0, 0];
  for (const line of text.split(/(?<=\n)/)) {
    const isInHunk = removed + added > 0;
    if (!isInHunk && line.startsWith("diff --git ")) sections.push({ header: "", hunks: [] });
    const section = sections.at(-1);
    if (section === undefined) continue;
    if (!isInHunk && line.startsWith("@@ ")) {
      const { old, now } = rangesOf(line);
      [removed, added] = [old.count, now.count];
      section.hunks.push(line);
      continue;
    }
    if (section.hunks.length === 0) section.header += line;
    else section.hunks.push(`${section.hunks.pop() ?? ""}${line}`);
    if (isInHunk && /^[- ]/.test(line)) removed -= 1;
    if (isInHunk && /^[+ ]/.test(line)) added -= 1;
  }
  return sections;
}

/** A new, deleted or binary file, and one with another mode or type, is a single part: half of it has no meaning. */
function partsOf(change: TreeChange, sections: readonly Section[]): Section {
  const [only, ...more] = sections;
  const isWhole =
    only === undefined || more.length > 0 || only.hunks.length === 0 || change.from?.mode !== change.to?.mode;
  if (!isWhole) return only;
  return { header: "", hunks: [sections.map(({ header, hunks }) => header + hunks.join("")).join("")] };
}

/** Git looks for a hunk at its new position, which depends on the hunks before it that are applied. */
function formatPatch({ header, hunks }: FilePatch): string {
  let shift = 0;
  const placed = hunks.map((hunk) => {
    if (header === "") return hunk;
    const { old, now } = rangesOf(hunk);
    // An empty range names the line before it.
    const first = old.first + shift + (old.count === 0 ? 1 : 0) - (now.count === 0 ? 1 : 0);
    shift += now.count - old.count;
    return hunk.replace(/^@@ -(\S+) \+\S+ @@/, `@@ -$1 +${first},${now.count} @@`);
  });
  return header + placed.join("");
}

interface Range {
  readonly first: number;
  readonly count: number;
}

function rangesOf(line: string): { readonly old: Range; readonly now: Range } {
  const [, a = "0", b = "1", c = "0", d = "1"] = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
  return { old: { first: Number(a), count: Number(b) }, now: { first: Number(c), count: Number(d) } };
}

function isOtherType({ from, to }: TreeChange): boolean {
  return from !== null && to !== null && from.mode.slice(0, 3) !== to.mode.slice(0, 3);
}
