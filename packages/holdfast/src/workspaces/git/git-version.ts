import { GIT_FLOOR, isOldGit } from "../../core/git-floor.ts";
import { HoldfastError } from "../../core/error.ts";
import { runProcess } from "../../system/subprocess.ts";
import { gitFailure } from "./git-command.ts";

const known = new Map<string, string>();

/** GIT_MISSING when git is not there or too old. Asked once a process: an old one would sync nothing, and not say so. */
export async function checkGitVersion(): Promise<void> {
  const path = process.env["PATH"] ?? "";
  const version = known.get(path) ?? (await askVersion());
  known.set(path, version);
  if (!isOldGit(version)) return;
  throw new HoldfastError({
    code: "GIT_MISSING",
    message: `${version} is too old`,
    hint: `Install git ${GIT_FLOOR} or newer and make sure that it comes first on PATH.`,
  });
}

async function askVersion(): Promise<string> {
  const args = ["--version"];
  const asked = await runProcess({ command: "git", args });
  if (asked.kind !== "exited" || asked.code !== 0) throw gitFailure(args, asked);
  return asked.stdout.toString("utf8").trim();
}
