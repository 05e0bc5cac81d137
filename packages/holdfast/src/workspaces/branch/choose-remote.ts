import { HoldfastError } from "../../core/error.ts";
import type { Remote } from "../../ports/branch.ts";
import type { AskingPlace } from "./branch-place.ts";
import { hideCredentials } from "./hide-credentials.ts";

/** "base": where issues, pull requests and the branch to merge into are. "push": where the run's own branch goes. */
export type RemoteRole = "base" | "push";

export async function findRemote(at: AskingPlace, configured: string | null, role: RemoteRole): Promise<Remote | null> {
  const [listed, preferred] = await Promise.all([
    at.git.line({ args: ["remote"] }),
    at.git.result({ args: ["config", "--get", "remote.pushDefault"] }),
  ]);
  const names = listed.split("\n").filter((name) => name !== "");
  const name = chooseRemote({ names, configured, preferred: preferred.stdout.toString("utf8").trim(), role });
  if (name === null) return null;
  const way = role === "push" ? ["--push"] : [];
  const [url, written] = await Promise.all([
    at.git.line({ args: ["remote", "get-url", ...way, "--", name] }),
    at.git.result({ args: ["config", "--get", `remote.${name}.url`] }),
  ]);
  const raw = written.code === 0 ? written.stdout.toString("utf8").trim() : url;
  return { name, url: hideCredentials(url.split("\n")[0] ?? ""), written: hideCredentials(raw.split("\n")[0] ?? "") };
}

/** A run's own branch is where runs push to; any other is where it goes to in the end. */
export function roleOf(branch: string, own: string | null): RemoteRole {
  return branch === own || branch.startsWith("holdfast/") ? "push" : "base";
}

/**
 * As configured; else upstream before origin; else the only one, or git's own choice. Pushes go where git would push: with an upstream,
 * origin is somebody's own fork of it.
 */
export function chooseRemote(params: {
  readonly names: readonly string[];
  readonly configured: string | null;
  /** git's remote.pushDefault. */
  readonly preferred: string;
  readonly role: RemoteRole;
}): string | null {
  const { names, configured, preferred, role } = params;
  if (configured !== null) {
    if (names.includes(configured)) return configured;
    throw new HoldfastError({
      code: "USAGE",
      message: `there is no remote ${configured}; there ${names.length === 0 ? "is none at all" : `are ${names.join(", ")}`}`,
      hint: `Add it with \`git remote add ${configured} <url>\`, or configure another one.`,
    });
  }
  const order = role === "push" ? [preferred, "origin", "upstream"] : ["upstream", "origin", preferred];
  const known = order.find((name) => names.includes(name));
  return known ?? names[0] ?? null;
}
