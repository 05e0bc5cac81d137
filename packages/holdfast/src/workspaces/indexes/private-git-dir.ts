import { lstat, mkdir, mkdtemp, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import type { ObjectFormat } from "../repository.ts";

/**
 * A git directory of our own over the user's object database. Commands that read files or trees run here, so the
 * repository's config is not even read, and `info/attributes` (which outranks every .gitattributes) turns all conversion
 * off: line ends, filters such as LFS, ident and encodings. Snapshots are the bytes on disk, and nothing else.
 */
export async function ensurePrivateGitDir(params: {
  readonly home: string;
  readonly objectFormat: ObjectFormat;
}): Promise<string> {
  const path = join(params.home, "git");
  const files = contents(params.objectFormat);
  if (await isExactly(path, files)) return path;
  // Absent, from another version, or planted by whoever made this repository: never use it, make it again.
  const fresh = await mkdtemp(join(params.home, "git-"));
  for (const folder of ["info", "refs", "objects"]) await mkdir(join(fresh, folder));
  for (const [name, text] of files) await writeFile(join(fresh, name), text, { mode: 0o600 });
  // Another process may have made a good one in the same moment, and be at work in it: only a bad one is ever replaced.
  for (let attempt = 1; ; attempt++) {
    try {
      await rename(fresh, path);
      return path;
    } catch (error) {
      const good = await isExactly(path, files);
      if (good || attempt > 1) await rm(fresh, { recursive: true, force: true });
      if (good) return path;
      if (attempt > 1) throw error;
      await rm(path, { recursive: true, force: true });
    }
  }
}

/** Where our files beside a git directory live: private indexes, staged files. Refuses a planted link. */
export async function ensureHome(gitDir: string): Promise<string> {
  const home = join(gitDir, "holdfast-workspace");
  await mkdir(home, { mode: 0o700 }).catch(async (error: unknown) => {
    const found = await lstat(home).catch(() => undefined);
    if (found?.isDirectory() === true) return;
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `${home} cannot be used as a directory`,
      hint: "Remove it and run the command again.",
      cause: error,
    });
  });
  return home;
}

const SHARED_INDEX = "sharedindex";

function contents(format: ObjectFormat): readonly (readonly [name: string, text: string])[] {
  const extensions = format === "sha1" ? "" : `[extensions]\n\tobjectFormat = ${format}\n`;
  return [
    ["HEAD", "ref: refs/heads/none\n"],
    [
      "config",
      [
        `[core]\n\trepositoryFormatVersion = ${format === "sha1" ? 0 : 1}\n\tbare = false`,
        // git looks at the disk before it believes a skip-worktree bit.
        "\tsparseCheckout = true",
        // One changed file then costs a small write, not all of a large index. The shared part lies in this directory.
        "\tsplitIndex = true\n[splitIndex]\n\tsharedIndexExpire = 1.day.ago",
        extensions,
      ].join("\n"),
    ],
    ["info/attributes", "* -text !eol -ident -filter !working-tree-encoding !diff !merge -export-subst\n"],
  ];
}

async function isExactly(path: string, files: readonly (readonly [name: string, text: string])[]): Promise<boolean> {
  try {
    const [top, info] = await Promise.all([readdir(path), readdir(join(path, "info"))]);
    const fixed = top.filter((name) => !name.startsWith(SHARED_INDEX)).sort();
    if (fixed.join() !== "HEAD,config,info,objects,refs" || info.join() !== "attributes") return false;
    const texts = await Promise.all(files.map(([name]) => readFile(join(path, name), "utf8")));
    return texts.every((text, place) => text === files[place]?.[1]);
  } catch {
    return false;
  }
}
