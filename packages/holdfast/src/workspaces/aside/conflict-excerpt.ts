import type { GitPath } from "../../core/checkpoint/checkpoint.ts";
import { pathBytes, parsePath } from "../raw-path.ts";
import type { Repository } from "../repository.ts";

/** Where both sides changed the same lines, as git marks them, bounded: enough to see what it is about, without a look into the trees. */
export async function conflictExcerpt(
  repository: Repository,
  params: { readonly tree: string; readonly files: readonly GitPath[] },
): Promise<string> {
  const shown: string[] = [];
  let left = MAX_CHARACTERS;
  for (const file of params.files.slice(0, MAX_FILES)) {
    const marked = (await marksIn(repository, params.tree, file)).slice(0, left);
    if (marked === "") continue;
    left -= marked.length;
    shown.push(`${file}:\n${marked}`);
  }
  return shown.join("\n");
}

const MAX_FILES = 20;
const MAX_CHARACTERS = 6000;
const MAX_BYTES = 4 * 1024 * 1024;
const MARKS = /^<{7} [^\n]*\n[\s\S]*?^>{7} [^\n]*$/gm;

/** Through standard input: a name need not be UTF-8. One with a line break in it could not be asked for in this way. */
async function marksIn(repository: Repository, tree: string, file: GitPath): Promise<string> {
  const path = parsePath(file);
  if (path === undefined || path.includes("\n")) return "";
  const input = Buffer.concat([Buffer.from(`${tree}:`), pathBytes(path), Buffer.from("\n")]);
  const read = await repository.objects.result({ args: ["cat-file", "--batch"], input, maxOutputBytes: MAX_BYTES });
  if (read.code !== 0 || read.stdout.includes(0)) return "";
  return (read.stdout.toString("utf8").match(MARKS) ?? []).join("\n");
}
