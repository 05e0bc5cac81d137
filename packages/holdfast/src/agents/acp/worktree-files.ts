import { lstatSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";

/** What an agent may read and write through us: text files of the worktree, wherever links lead, and nothing of git's own. */
export function createWorktreeFiles(cwd: string): WorktreeFiles {
  const root = realpathSync(cwd);
  const place = (path: string): Place => {
    if (!isAbsolute(path)) return { kind: "refused", why: "the path is not absolute" };
    const real = realPlace(path);
    const inner = relative(root, real);
    const [first = ""] = inner.split(sep);
    if (first === ".." || isAbsolute(inner)) return { kind: "refused", why: "it is outside of the worktree" };
    if (first === ".git") return { kind: "refused", why: "it belongs to git" };
    return { kind: "inside", real };
  };
  return {
    isInside: (path) => place(path).kind === "inside",
    read(path, part) {
      const found = place(path);
      if (found.kind === "refused") return found;
      try {
        return { kind: "read", text: linesOf(readFileSync(found.real, "utf8"), part) };
      } catch (error) {
        return isAbsent(error) ? { kind: "absent" } : { kind: "refused", why: reasonOf(error) };
      }
    },
    write(path, text) {
      const found = place(path);
      if (found.kind === "refused") return found;
      try {
        mkdirSync(dirname(found.real), { recursive: true });
        writeFileSync(found.real, text);
        return { kind: "written" };
      } catch (error) {
        return { kind: "refused", why: reasonOf(error) };
      }
    },
  };
}

export interface WorktreeFiles {
  isInside(path: string): boolean;
  read(
    path: string,
    part: FilePart,
  ): { readonly kind: "read"; readonly text: string } | { readonly kind: "absent" } | Refused;
  write(path: string, text: string): { readonly kind: "written" } | Refused;
}

/** Lines, from 1 on; null: from the beginning, or all. */
export interface FilePart {
  readonly line: number | null;
  readonly limit: number | null;
}

interface Refused {
  readonly kind: "refused";
  readonly why: string;
}
type Place = { readonly kind: "inside"; readonly real: string } | Refused;

/** Where it would be written: of what is there the real path, and the rest as it is named. */
function realPlace(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    // A link to a place that is not there yet would be followed by the write.
    if (!isAbsent(error) || isLink(path) || dirname(path) === path) return sep;
    const parent = realPlace(dirname(path));
    return parent === sep ? sep : join(parent, basename(path));
  }
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function linesOf(text: string, { line, limit }: FilePart): string {
  if (line === null && limit === null) return text;
  const start = Math.max(0, (line ?? 1) - 1);
  return text
    .split("\n")
    .slice(start, limit === null ? undefined : start + limit)
    .join("\n");
}
