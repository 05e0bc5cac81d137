import { gitFailure } from "../git/git-command.ts";
import { requireCommit, type AskingPlace } from "./branch-place.ts";

export async function isAncestor(
  at: AskingPlace,
  params: { readonly ancestor: string; readonly of: string },
): Promise<boolean> {
  const [ancestor, of] = await Promise.all([requireCommit(at, params.ancestor), requireCommit(at, params.of)]);
  const args = ["merge-base", "--is-ancestor", ancestor, of];
  const result = await at.git.result({ args });
  if (result.kind === "exited" && (result.code === 0 || result.code === 1)) return result.code === 0;
  throw gitFailure(args, result);
}

/** null: the two have nothing in common. */
export async function mergeBase(
  at: AskingPlace,
  params: { readonly a: string; readonly b: string },
): Promise<string | null> {
  const [a, b] = await Promise.all([requireCommit(at, params.a), requireCommit(at, params.b)]);
  const args = ["merge-base", a, b];
  const result = await at.git.result({ args });
  if (result.kind === "exited" && result.code === 0)
    return result.stdout.toString("utf8").trim().split("\n")[0] ?? null;
  if (result.kind === "exited" && result.code === 1) return null;
  throw gitFailure(args, result);
}
