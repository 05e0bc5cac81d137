import type { GitPath } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Diff, DiffParams } from "../../ports/workspace.ts";
import { buildTree } from "./build-tree.ts";
import { openScratch } from "../indexes/private-index.ts";
import { parseScope, inScope } from "../path-scope.ts";
import { quotePath, splitRecords } from "../raw-path.ts";
import type { Repository } from "../repository.ts";
import { diffTrees } from "./tree-diff.ts";

/** The difference of two trees as text and as a list. Runs where no driver, textconv or pager is configured at all. */
export async function diffSnapshots(repository: Repository, params: DiffParams): Promise<Diff> {
  const [from, whole] = await Promise.all([treeOf(repository, params.from), treeOf(repository, params.to)]);
  const to = params.paths === undefined ? whole : await limitTo(params.paths);
  const base = ["-c", "core.quotePath=false", "diff-tree", "-r", "--find-renames", "--no-ext-diff", "--no-textconv"];
  const color = params.color === true ? "--color=always" : "--no-color";
  const [text, raw] = await Promise.all([
    repository.objects.output({
      args: [...base, FORMATS[params.format], color, "--end-of-options", from, to],
      maxOutputBytes: MAX_TEXT_BYTES,
    }),
    repository.objects.output({ args: [...base, "--raw", "-z", "--no-abbrev", "--end-of-options", from, to] }),
  ]);
  return { text: text.toString("utf8"), files: parseFiles(raw) };

  // git takes paths as arguments, and arguments cannot hold every byte: so the scope is made part of the tree.
  async function limitTo(paths: readonly string[]): Promise<string> {
    const scope = parseScope(paths);
    const changes = (await diffTrees(repository.objects, from, whole)).filter(({ path }) => inScope(path, scope));
    const edits = changes.map(({ path, to: entry }) => ({ path, entry }));
    const scratch = await openScratch(repository.home);
    try {
      return await buildTree({ repository, base: from, edits, scratch: scratch.folder });
    } finally {
      await scratch.release();
    }
  }
}

/** The names of all files that it holds. */
export async function listFiles(repository: Repository, tree: string): Promise<readonly GitPath[]> {
  const args = ["ls-tree", "-r", "--name-only", "--full-tree", "-z", await treeOf(repository, tree)];
  return splitRecords(await repository.objects.output({ args, maxOutputBytes: MAX_TEXT_BYTES })).map(quotePath);
}

const FORMATS: Readonly<Record<DiffParams["format"], string>> = {
  patch: "--patch",
  stat: "--stat",
  names: "--name-status",
  counts: "--numstat",
};
const MAX_TEXT_BYTES = 256 * 1024 * 1024;

async function treeOf(repository: Repository, name: string): Promise<string> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${name}^{tree}`];
  const found = await repository.git.result({ args });
  if (found.code === 0) return found.stdout.toString("utf8").trim();
  throw new HoldfastError({
    code: "TREE_MISSING",
    message: `${name} is not a tree or commit in this repository`,
    hint: "Fetch refs/holdfast/* from where the snapshot was taken, or choose another checkpoint.",
  });
}

function parseFiles(raw: Buffer): Diff["files"] {
  const records = splitRecords(raw);
  const files: Diff["files"][number][] = [];
  for (let at = 0; at < records.length;) {
    const letter = records[at]?.split(" ")[4]?.[0] ?? "M";
    const first = quotePath(records[at + 1] ?? "");
    const renamed = letter === "R";
    const path = renamed ? quotePath(records[at + 2] ?? "") : first;
    files.push({ path, status: STATUS.get(letter) ?? "modified", from: renamed ? first : null });
    at += renamed ? 3 : 2;
  }
  return files;
}

const STATUS = new Map<string, Diff["files"][number]["status"]>([
  ["A", "added"],
  ["M", "modified"],
  ["D", "deleted"],
  ["R", "renamed"],
  ["T", "type_changed"],
]);
