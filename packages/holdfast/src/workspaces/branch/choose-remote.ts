import { HoldfastError } from "../../core/error.ts";
import type { AskingPlace } from "./branch-place.ts";
import { hideCredentials } from "./hide-credentials.ts";

export interface Remote {
  readonly name: string;
  /** Where pushes go, without credentials. */
  readonly url: string;
}

export async function findRemote(at: AskingPlace, configured: string | null): Promise<Remote | null> {
  const [listed, preferred] = await Promise.all([
    at.git.line({ args: ["remote"] }),
    at.git.result({ args: ["config", "--get", "remote.pushDefault"] }),
  ]);
  const names = listed.split("\n").filter((name) => name !== "");
  const name = chooseRemote({ names, configured, preferred: preferred.stdout.toString("utf8").trim() });
  if (name === null) return null;
  const url = await at.git.line({ args: ["remote", "get-url", "--push", "--", name] });
  return { name, url: hideCredentials(url.split("\n")[0] ?? "") };
}

/** As configured; else upstream before origin; else the only one, or git's own choice. */
export function chooseRemote(params: {
  readonly names: readonly string[];
  readonly configured: string | null;
  readonly preferred: string;
}): string | null {
  const { names, configured, preferred } = params;
  if (configured !== null) {
    if (names.includes(configured)) return configured;
    throw new HoldfastError({
      code: "USAGE",
      message: `there is no remote ${configured}; there ${names.length === 0 ? "is none at all" : `are ${names.join(", ")}`}`,
      hint: `Add it with \`git remote add ${configured} <url>\`, or configure another one.`,
    });
  }
  const known = ["upstream", "origin", preferred].find((name) => names.includes(name));
  return known ?? names[0] ?? null;
}
