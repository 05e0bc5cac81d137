import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { writeWorktree } from "../writers/worktree.ts";

/** Plain git, independent of the code under test. */
export function git(repository: string, args: readonly string[], input = ""): Buffer {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  const env = { ...Object.fromEntries(kept), GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };
  const who = ["-c", "user.name=User", "-c", "user.email=user@localhost", "-c", "init.defaultBranch=main"];
  return execFileSync("git", ["-C", repository, ...who, ...args], {
    env,
    input,
    maxBuffer: 1 << 28,
    stdio: ["pipe", "pipe", "pipe"],
  });
}

/** The whole bytes of these blobs; an object that is missing or torn throws. */
export function readBlobs(repository: string, ids: readonly string[]): readonly Buffer[] {
  const output = git(repository, ["cat-file", "--batch"], ids.map((id) => `${id}\n`).join(""));
  let at = 0;
  return ids.map((id) => {
    const end = output.indexOf("\n", at);
    const [, kind, size] = output.subarray(at, end).toString().split(" ");
    if (kind !== "blob") throw new Error(`${id} is no blob but ${output.subarray(at, end).toString()}`);
    at = end + 1 + Number(size) + 1;
    return output.subarray(end + 1, at - 1);
  });
}

/** A repository with one commit, from before the run. */
export function makeRepository(repository: string): void {
  mkdirSync(repository, { recursive: true });
  git(repository, ["init", "-q", "--template="]);
  writeWorktree(repository, 0);
  git(repository, ["add", "-A"]);
  git(repository, ["commit", "-q", "-m", "The beginning"]);
}
