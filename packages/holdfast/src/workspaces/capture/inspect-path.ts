import { accessSync, constants, lstatSync } from "node:fs";
import { join } from "node:path";
import type { Found } from "./plan-capture.ts";
import { pathBytes, type RawPath } from "../raw-path.ts";

/**
 * Looks at paths below a root without ever going through a link: a path "beyond a symbolic link" is absent, because it is
 * not in this worktree. Synchronous: a look costs microseconds, a trip through the thread pool ten times that.
 */
export function createInspector(root: string): (path: RawPath) => Found {
  const folders = new Map<RawPath, "directory" | "absent" | "unreadable">();
  const rootBytes = Buffer.from(root.endsWith("/") ? root : `${root}/`);

  const folder = (path: RawPath): "directory" | "absent" | "unreadable" => {
    if (path === "") return "directory";
    const known = folders.get(path);
    if (known !== undefined) return known;
    const parent = folder(parentOf(path));
    const found = parent === "directory" ? look(absolute(path)) : undefined;
    const state = found === undefined ? parent : found.kind === "directory" ? "directory" : missingAs(found);
    folders.set(path, state);
    return state;
  };
  const absolute = (path: RawPath): Buffer => Buffer.concat([rootBytes, pathBytes(path)]);

  return (path) => {
    const parent = folder(parentOf(path));
    if (parent === "absent") return { kind: "absent" };
    if (parent === "unreadable") return { kind: "unreadable", bytes: null };
    return look(absolute(path));
  };
}

export function absolutePath(root: string, path: RawPath): Buffer {
  return Buffer.concat([Buffer.from(join(root, "/")), pathBytes(path)]);
}

export function parentOf(path: RawPath): RawPath {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

function missingAs(found: Found): "absent" | "unreadable" {
  return found.kind === "unreadable" ? "unreadable" : "absent";
}

function look(path: Buffer): Found {
  try {
    const stat = lstatSync(path);
    if (stat.isDirectory()) return { kind: "directory" };
    const mark = { id: `${stat.ino}:${stat.size}:${stat.mtimeMs}:${stat.ctimeMs}`, changedMs: stat.ctimeMs };
    if (stat.isSymbolicLink()) return { kind: "symlink", mark };
    if (!stat.isFile()) return { kind: "special" };
    try {
      accessSync(path, constants.R_OK);
    } catch {
      return { kind: "unreadable", bytes: stat.size };
    }
    return { kind: "file", bytes: stat.size, mark };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    return code === "ENOENT" || code === "ENOTDIR" ? { kind: "absent" } : { kind: "unreadable", bytes: null };
  }
}
