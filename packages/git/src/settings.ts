// The settings of git for one repository: system, user, repository and worktree, in git's order.

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import type { Git } from "@holdfast/platform/git-command";
import { createFileFacts } from "./facts.ts";

export type Settings = readonly (readonly [key: string, value: string])[];

/** All settings of a worktree. It has those of the repository unless the repository lets worktrees have their own. */
export async function readSettings(repository: ConfiguredRepository, gitDir: string): Promise<Settings> {
  const shared = await listSettings(repository, repository.commonDir);
  const mayDiffer = gitDir !== repository.commonDir && shared.some(([key]) => key === WORKTREES || isInclude(key));
  return mayDiffer ? listSettings(repository, gitDir) : shared;
}

interface ConfiguredRepository {
  readonly commonDir: string;
  readonly git: Git;
}

const WORKTREES = "extensions.worktreeconfig";

/** One call for all of them, which is repeated only after one of the files changed. */
async function listSettings({ commonDir, git }: ConfiguredRepository, gitDir: string): Promise<Settings> {
  const found = await recall(`${gitDir}\0${commonDir}`, async () => {
    const env = { GIT_DIR: gitDir };
    const listed = await git.output({ args: ["config", "--null", "--list", "--show-origin"], env });
    return parseSettings(listed.toString("utf8"), { commonDir, gitDir });
  });
  return found.settings;
}

/** One setting; null if it is not set. The last value counts, as in git. */
export function settingOf(settings: Settings, name: string): string | null {
  return settings.findLast(([key]) => key === name)?.[1] ?? null;
}

/**
 * False if git ignores the executable bits on the disk (core.fileMode): a file system shared with Windows, or an exFAT or
 * SMB volume. `git init` writes the setting, so git is asked only where it is false, absent or set twice.
 */
export async function readFileModes(repository: ConfiguredRepository, gitDir: string): Promise<boolean> {
  const config = await readFile(join(repository.commonDir, "config"), "utf8").catch(() => "");
  const named = config.match(/filemode|worktreeconfig|include/gi) ?? [];
  if (named.length === 1 && /^\s*filemode = true$/m.test(config)) return true;
  const value = settingOf(await readSettings(repository, gitDir), "core.filemode");
  // A key without a value is true, and its record has no newline.
  return value === null || !/^(?:false|no|off|0+)$/i.test(value);
}

interface ReadSettings {
  readonly settings: Settings;
  /** The files that were read, and those that git would read if they existed. */
  readonly files: readonly string[];
}

const recall = createFileFacts<ReadSettings>(({ settings, files }) =>
  settings.some(([key]) => isInclude(key)) ? null : files,
);

/** Which files an include names can depend on the branch and the worktree, and an included file may be missing in the list. */
function isInclude(key: string): boolean {
  return key.startsWith("include.") || key.startsWith("includeif.");
}

/** Each setting is two records: its origin, then the key and the value, separated by a newline. */
function parseSettings(
  listed: string,
  { commonDir, gitDir }: { readonly commonDir: string; readonly gitDir: string },
): ReadSettings {
  const records = listed.split("\0");
  const settings: (readonly [string, string])[] = [];
  const files = new Set(possibleFiles(commonDir, gitDir));
  for (let at = 0; at + 1 < records.length; at += 2) {
    const origin = /^file:(.*)$/s.exec(records[at] ?? "")?.[1];
    if (origin !== undefined) files.add(resolve(commonDir, origin));
    const [key = "", ...value] = (records[at + 1] ?? "").split("\n");
    settings.push([key, value.join("\n")]);
  }
  return { settings, files: [...files] };
}

function possibleFiles(commonDir: string, gitDir: string): readonly string[] {
  const user = process.env["XDG_CONFIG_HOME"] ?? join(homedir(), ".config");
  return [
    "/etc/gitconfig",
    join(user, "git", "config"),
    join(homedir(), ".gitconfig"),
    join(commonDir, "config"),
    join(gitDir, "config.worktree"),
  ];
}
