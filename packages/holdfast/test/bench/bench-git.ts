import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** Plain git in the folder that a word stands for; gives what it printed, without the space around it. */
export type BenchGit<Where extends string> = (where: Where, ...args: readonly string[]) => Promise<string>;

/** Asked for the folder each time: where a run works may be known only later. */
export function benchGit<Where extends string>(
  folderOf: (where: Where) => string,
  env: NodeJS.ProcessEnv = NOBODYS,
): BenchGit<Where> {
  return async (where, ...args) => {
    const { stdout } = await promisify(execFile)("git", ["-C", folderOf(where), ...args], { env });
    return stdout.trim();
  };
}

/** Nobody's settings, and somebody to commit as. */
const NOBODYS = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@example.org",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@example.org",
};
