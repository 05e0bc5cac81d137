import { mkdir, readFile, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { CapturePlace } from "../capture/capture.ts";
import { createGit, gitFailure } from "../git/git-command.ts";
import { absolutePath, parentOf } from "../capture/inspect-path.ts";
import { joinRecords, splitRecords, type RawPath } from "../raw-path.ts";

/**
 * Which of these paths would be ignored once this tree is restored? A file that the restored rules cover may well have been
 * there, ignored and unseen, when the snapshot was taken: to remove it because the snapshot lacks it would destroy it.
 * The rules are laid out in a folder of their own, so the worktree need not change first.
 */
export async function findIgnoredBy(params: {
  readonly place: CapturePlace;
  readonly tree: string;
  readonly paths: readonly RawPath[];
  readonly scratch: string;
}): Promise<ReadonlySet<RawPath>> {
  const { place, tree, paths, scratch } = params;
  const { repository } = place;
  const layout = join(scratch, "rules");
  await mkdir(layout);
  const folders = new Set<RawPath>();
  for (const path of paths)
    for (let at = parentOf(path); at !== "" && !folders.has(at); at = parentOf(at)) folders.add(at);
  const list = await repository.objects.output({ args: ["ls-tree", "-r", "-z", "--full-tree", tree] });
  const rules = splitRecords(list)
    .map((record) => ({ id: record.split(/[ \t]/)[2] ?? "", path: record.slice(record.indexOf("\t") + 1) }))
    .filter(({ path }) => path === ".gitignore" || (path.endsWith("/.gitignore") && folders.has(parentOf(path))));
  for (const { id, path } of rules) {
    await mkdir(absolutePath(layout, parentOf(path)), { recursive: true });
    await writeFile(absolutePath(layout, path), await repository.objects.output({ args: ["cat-file", "blob", id] }));
  }
  const general = join(scratch, "excludes");
  await writeFile(general, await readGeneralRules(place));
  const git = createGit({
    cwd: layout,
    gitDir: repository.privateGitDir,
    workTree: layout,
    objectDirectory: repository.objectDirectory,
  });
  const args = ["-c", `core.excludesFile=${general}`, "check-ignore", "--no-index", "-z", "--stdin"];
  // This command knows no literal paths; a leading "./" keeps a colon or an asterisk in a name from meaning anything.
  const input = joinRecords(paths.map((path) => `./${path}`));
  const result = await git.result({ args, input, env: { GIT_LITERAL_PATHSPECS: "0" } });
  if (result.kind !== "exited" || (result.code !== 0 && result.code !== NONE_IGNORED)) throw gitFailure(args, result);
  return new Set(splitRecords(result.stdout).map((path) => path.slice(2)));
}

const NONE_IGNORED = 1;

/** The user's own list, then the repository's: the later one has the last word, as in git. */
async function readGeneralRules(place: CapturePlace): Promise<Buffer> {
  const git = createGit({ cwd: place.root, gitDir: place.gitDir, workTree: place.root });
  const named = await git.result({ args: ["config", "--type=path", "-z", "--get", "core.excludesFile"] });
  const config = process.env["XDG_CONFIG_HOME"] ?? "";
  const own = named.code === 0 ? named.stdout.toString("utf8").replace(/\0$/, "") : undefined;
  const standard = join(config === "" ? join(homedir(), ".config") : config, "git", "ignore");
  const files = [own ?? standard, join(place.repository.commonDir, "info", "exclude")];
  const texts = await Promise.all(files.map((file) => readFile(file).catch(() => Buffer.alloc(0))));
  return Buffer.concat(texts.flatMap((text) => [text, Buffer.from("\n")]));
}
