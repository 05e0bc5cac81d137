import { StringDecoder } from "node:string_decoder";
import type { Branch, ChangedFile } from "../../ports/branch.ts";
import { gitFailure } from "../git/git-command.ts";
import { quotePath, splitRecords } from "../raw-path.ts";
import { requireTree, type BranchPlace } from "./branch-place.ts";
import { treeNow } from "./tree-now.ts";

export async function changedSince(
  at: BranchPlace,
  params: Parameters<Branch["changedSince"]>[0],
): Promise<readonly ChangedFile[]> {
  const trees = await treesOf(at, params);
  const args = [...DIFF, "--raw", "-z", "--no-abbrev", "--end-of-options", ...trees];
  return parseChanged(await at.place.repository.objects.output({ args }));
}

/** As a patch, at most so many bytes of it, whole lines. */
export async function diffSince(
  at: BranchPlace,
  params: Parameters<Branch["diffSince"]>[0],
): Promise<{ readonly text: string; readonly cut: boolean }> {
  const trees = await treesOf(at, params);
  const args = [...DIFF, "--patch", "--no-color", "--end-of-options", ...trees];
  const running = at.place.repository.objects.start({ args });
  running.stdin.end();
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of running.stdout) {
    if (!Buffer.isBuffer(chunk)) continue;
    chunks.push(chunk);
    size += chunk.length;
    if (size > params.maxBytes) break;
  }
  const cut = size > params.maxBytes;
  if (cut) running.kill();
  const exit = await running.exit;
  if (!cut && exit.code !== 0) throw gitFailure(args, exit);
  return { text: cutText(Buffer.concat(chunks), params.maxBytes), cut };
}

const DIFF = ["-c", "core.quotePath=false", "diff-tree", "-r", "--find-renames", "--no-ext-diff", "--no-textconv"];

/** What is excluded is taken as it was, on both sides. */
async function treesOf(
  at: BranchPlace,
  params: { readonly from: string; readonly exclude: readonly string[] },
): Promise<readonly [from: string, to: string]> {
  const from = await requireTree(at, params.from);
  return [from, await treeNow(at.place, { base: from, exclude: params.exclude })];
}

function cutText(bytes: Buffer, maxBytes: number): string {
  if (bytes.length <= maxBytes) return bytes.toString("utf8");
  const line = bytes.lastIndexOf(0x0a, Math.max(0, maxBytes - 1));
  const whole = bytes.subarray(0, line === -1 ? maxBytes : line + 1);
  // The decoder keeps back half a character at the end.
  return new StringDecoder("utf8").write(whole);
}

function parseChanged(raw: Buffer): readonly ChangedFile[] {
  const records = splitRecords(raw);
  const files: ChangedFile[] = [];
  for (let at = 0; at < records.length;) {
    const letter = records[at]?.split(" ")[4]?.[0] ?? "M";
    const names = letter === "R" ? 2 : 1;
    files.push({ path: quotePath(records[at + names] ?? ""), status: STATUS.get(letter) ?? "modified" });
    at += names + 1;
  }
  return files;
}

const STATUS = new Map<string, ChangedFile["status"]>([
  ["A", "added"],
  ["M", "modified"],
  ["D", "deleted"],
  ["R", "renamed"],
  ["T", "type_changed"],
]);
