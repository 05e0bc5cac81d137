import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { GIT_FLOOR } from "../../../core/git-floor.ts";
import { HoldfastError } from "../../../core/error.ts";
import { DEMO_FILES, demoScript } from "./demo-script.ts";

export interface DemoRepository {
  readonly directory: string;
  readonly clone: string;
  readonly remote: string;
  /** `provider:model` of the agent that follows the script. */
  readonly agent: string;
  readonly env: Readonly<Record<string, string>>;
}

/** A bare remote and a clone of it with one commit, all inside `directory`. Nobody's git settings are used. */
export async function makeDemoRepository(directory: string): Promise<DemoRepository> {
  const [clone, remote, script] = ["greeter", "remote.git", "agent.json"].map((name) => join(directory, name));
  if (clone === undefined || remote === undefined || script === undefined) throw new TypeError("a path is missing");
  const env = plainEnvironment(directory);
  const git = gitIn(clone, env);
  await mkdir(clone);
  await writeFile(script, demoScript());
  await git("init", "-q", "--bare", "-b", "main", remote);
  await git("init", "-q", "-b", "main");
  for (const [path, text] of Object.entries(DEMO_FILES)) await writeFile(join(clone, path), text);
  await git("config", "user.name", "Demo");
  await git("config", "user.email", "demo@localhost");
  await git("add", ".");
  await git("commit", "-q", "-m", "A greeter");
  await git("remote", "add", "origin", remote);
  await git("push", "-q", "-u", "origin", "main");
  return { directory, clone, remote, agent: `scripted:${script}`, env };
}

/** Output of a git command in the demo's own world. */
export function gitIn(
  cwd: string,
  env: Readonly<Record<string, string>>,
): (...args: readonly string[]) => Promise<string> {
  return async (...args) => {
    try {
      return (await promisify(execFile)("git", [...args], { cwd, env })).stdout.trim();
    } catch (cause) {
      throw new HoldfastError({
        code: "GIT_FAILED",
        message: `git ${args[0] ?? ""} failed in the demo's repository`,
        hint: `The demo needs git ${GIT_FLOOR} or newer; \`holdfast doctor\` says more.`,
        cause,
      });
    }
  };
}

/** Pinned, so that the demo's trees and commits are the same on every machine. */
function plainEnvironment(directory: string): Readonly<Record<string, string>> {
  const date = "2026-01-01T00:00:00Z";
  return {
    PATH: process.env["PATH"] ?? "",
    HOME: directory,
    LANG: "C.UTF-8",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: join(directory, "no-git-config"),
    GIT_AUTHOR_DATE: date,
    GIT_COMMITTER_DATE: date,
  };
}
