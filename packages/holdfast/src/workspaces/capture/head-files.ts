import { lstatSync, readFileSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { absolutePath } from "./inspect-path.ts";
import type { RawPath } from "../raw-path.ts";

/**
 * The commit checked out in a nested repository or submodule; null when it has none. Read by hand: to start git in there would
 * be to obey its config.
 */
export function readRepositoryHead(root: string, path: RawPath): string | null {
  const dotGit = join(absolutePath(root, path).toString("latin1"), ".git");
  const gitDir = resolveLink(dotGit);
  return gitDir === undefined ? null : readGitDirHead(gitDir);
}

/** Folders here are bytes, one character each, as in a RawPath: a repository can lie anywhere and name its refs anything. */
export function rawFolder(folder: string): RawPath {
  return Buffer.from(folder, "utf8").toString("latin1");
}

/** The commit that HEAD of a git directory leads to, where refs are files; null when it leads nowhere. */
export function readGitDirHead(gitDir: RawPath): string | null {
  const common = readText(join(gitDir, "commondir"));
  const commonDir = common === undefined ? gitDir : resolveFrom(gitDir, common);
  return readRef({ gitDir, commonDir, name: "HEAD", depth: 0 });
}

const MAX_BYTES = 16 * 1024 * 1024;
const MAX_DEPTH = 5;

function readRef(at: { gitDir: string; commonDir: string; name: string; depth: number }): string | null {
  if (at.depth > MAX_DEPTH || at.name.includes("..")) return null;
  const text = readText(join(at.depth === 0 ? at.gitDir : at.commonDir, at.name));
  if (text === undefined) return at.depth === 0 ? null : readPacked(at.commonDir, at.name);
  if (/^[0-9a-f]{40,64}$/.test(text)) return text;
  const target = /^ref: (refs\/.+)$/.exec(text)?.[1];
  return target === undefined ? null : readRef({ ...at, name: target, depth: at.depth + 1 });
}

function readPacked(commonDir: string, name: string): string | null {
  const lines = readText(join(commonDir, "packed-refs"))?.split("\n") ?? [];
  return (
    lines.find((line) => line.slice(line.indexOf(" ") + 1) === name && /^[0-9a-f]{40}/.test(line))?.split(" ")[0] ??
    null
  );
}

function resolveLink(dotGit: string): string | undefined {
  const bytes = Buffer.from(dotGit, "latin1");
  try {
    if (lstatSync(bytes).isDirectory()) return dotGit;
  } catch {
    return undefined;
  }
  const target = /^gitdir: (.+)$/.exec(readText(dotGit) ?? "")?.[1];
  return target === undefined ? undefined : resolveFrom(dirname(dotGit), target);
}

function resolveFrom(folder: string, target: string): string {
  return isAbsolute(target) ? target : join(folder, target);
}

function readText(path: string): string | undefined {
  const bytes = Buffer.from(path, "latin1");
  try {
    const stat = lstatSync(bytes);
    // A pipe planted as a ref would hang us for ever.
    if (!stat.isFile() || stat.size > MAX_BYTES) return undefined;
    return readFileSync(bytes, "latin1").trimEnd();
  } catch {
    return undefined;
  }
}
