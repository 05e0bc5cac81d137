import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** Runs plain git in the folder that `where` names; returns its output without surrounding space. */
export type BenchGit<Where extends string> = (where: Where, ...args: readonly string[]) => Promise<string>;

/** Asked for the folder each time: where a run works may be known only later. */
export function benchGit<Where extends string>(
  folderOf: (where: Where) => string,
  env: NodeJS.ProcessEnv = FIXED_AUTHOR,
): BenchGit<Where> {
  return async (where, ...args) => {
    const { stdout } = await promisify(execFile)("git", ["-C", folderOf(where), ...args], { env });
    return stdout.trim();
  };
}

/** No user settings, and a fixed author. */
const FIXED_AUTHOR = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@example.org",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@example.org",
};
