import { statfs } from "node:fs/promises";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Full path of a program on PATH; undefined when it is not there. Looks, runs nothing. */
export function findProgram(name: string, path: string = process.env["PATH"] ?? ""): string | undefined {
  for (const folder of path.split(delimiter)) {
    if (folder === "") continue;
    const candidate = join(folder, name);
    try {
      accessSync(candidate, constants.X_OK);
      return candidate;
    } catch {
      continue;
    }
  }
  return undefined;
}

export async function freeBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize;
}
