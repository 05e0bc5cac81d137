import { HoldfastError } from "../../core/error.ts";
import { gitFailure, type Git } from "../git/git-command.ts";
import { snapshotIdentity } from "../capture/snapshot-identity.ts";

/** Author and committer as git takes them from the environment: the user of this repository, at a given time. */
export async function commitIdentity(git: Git, at: string): Promise<Readonly<Record<string, string>>> {
  const fallback = snapshotIdentity(parseTime(at));
  const [name, mail] = await Promise.all([readSetting(git, "user.name"), readSetting(git, "user.email")]);
  // Half an identity would be completed by git with the name of this machine.
  if (name === "" || mail === "") return fallback;
  return {
    ...fallback,
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: mail,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: mail,
  };
}

/** Seconds since the epoch. */
export function parseTime(at: string): number {
  const time = Date.parse(at);
  if (!Number.isNaN(time) && time >= 0) return Math.floor(time / 1000);
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(at)} is not an ISO 8601 time`,
    hint: "Give a time such as 2026-03-01T12:00:00Z.",
  });
}

async function readSetting(git: Git, name: string): Promise<string> {
  const args = ["config", "--get", name];
  const found = await git.result({ args });
  // 1 says that it is not set. Any other failure must not pass for that: the commit would get another author, and so another id.
  if (found.kind !== "exited" || (found.code !== 0 && found.code !== 1)) throw gitFailure(args, found);
  // What git itself strips from a name: it would end the header early.
  const text = found.stdout.toString("utf8").replaceAll(/[<>\n\0]/g, "");
  return text.trim();
}
