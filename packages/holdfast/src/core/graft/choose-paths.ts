import type { GitPath } from "../checkpoint/checkpoint.ts";
import { HoldfastError } from "../error.ts";

/**
 * The files and folders that were asked for, from the root. What is there under exactly that name is meant, whatever characters it has; else
 * `*`, `**`, `?` and `[…]` are a pattern over the files of both sides. USAGE for a pattern that fits nothing; a plain name that nobody knows is left to
 * whoever plans the restore.
 */
export function choosePaths(asked: readonly string[], files: readonly GitPath[]): readonly GitPath[] {
  const chosen = new Set<GitPath>();
  for (const path of asked) {
    if (!/[*?[]/.test(path) || files.some((file) => isBelow(file, path))) chosen.add(path);
    else for (const file of filesLike(path, files)) chosen.add(file);
  }
  return [...chosen];
}

/** Is the file this one, or in this folder? */
export function isBelow(file: GitPath, path: string): boolean {
  const folder = path.replace(/\/+$/, "");
  return folder === "." || folder === "" || file === folder || file.startsWith(`${folder}/`);
}

function filesLike(pattern: string, files: readonly GitPath[]): readonly GitPath[] {
  const test = globTest(pattern);
  // Git quotes names that hold control characters: the quotes are not theirs.
  const found = files.filter((file) => test.test(file.startsWith('"') ? file.slice(1, -1) : file));
  if (found.length > 0) return found;
  throw new HoldfastError({
    code: "USAGE",
    message: `No file on either side is like ${pattern}`,
    hint: "* stays within a folder, ** goes below; quote it, so that the shell leaves it alone.",
  });
}

/** A pattern that names a folder means all that is in it. */
function globTest(pattern: string): RegExp {
  const source = pattern
    .replace(/\/+$/, "")
    .replaceAll(/\*\*\/|\*\*|\*|\?|\[(!?)([^\]/]+)\]|[\s\S]/g, (token: string, not?: string, set?: string) => {
      if (token === "**/") return "(?:[^/]+/)*";
      if (token === "**") return ".*";
      if (token === "*") return "[^/]*";
      if (token === "?") return "[^/]";
      if (set !== undefined) return `[${not === "!" ? "^" : ""}${set.replaceAll(/[\\\]^[]/g, "\\$&")}]`;
      return token.replace(/[\\^$.|+(){}[\]]/, "\\$&");
    });
  return new RegExp(`^${source}(?:/.*)?$`, "s");
}
