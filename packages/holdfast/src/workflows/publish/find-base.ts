import { HoldfastError } from "../../core/error.ts";
import type { Branch, Refusal } from "../../ports/branch.ts";
import type { Forge } from "../../ports/forge.ts";
import { isTemporary } from "./push-refusal.ts";

/** The branch the pull request goes to, and the commit of it that the run's own changes are measured from. */
export type Base = { readonly branch: string; readonly commit: string };

export type BaseAnswer =
  | { readonly kind: "found"; readonly base: Base }
  | { readonly kind: "missing"; readonly reason: string };

/** The base branch's tip on the remote, freshly fetched. FORGE_FAILED when there is no remote or it does not answer. */
export async function findBase(params: {
  readonly branch: Branch;
  readonly forge: Forge;
  readonly named: string | null;
}): Promise<BaseAnswer> {
  const { branch } = params;
  const remote = await branch.remote();
  if (remote === null)
    throw new HoldfastError({ code: "FORGE_FAILED", message: "The repository has no remote to push to" });
  const fetched = await branch.fetch();
  if (fetched.kind === "failed") throw unreachable(remote.name, fetched.refusal);
  const name = params.named ?? (await branch.defaultBranch()) ?? (await params.forge.defaultBranch());
  const commit = await branch.remoteBranch(name);
  if (commit === null) return { kind: "missing", reason: `The remote ${remote.name} has no branch ${name}` };
  return { kind: "found", base: { branch: name, commit } };
}

export function unreachable(remote: string, { cause, message }: Refusal): HoldfastError {
  return new HoldfastError({
    code: cause === "auth" ? "FORGE_DENIED" : "FORGE_FAILED",
    message: `The remote ${remote} cannot be reached (${cause}): ${message.trim()}`,
    retry: isTemporary(cause) ? "later" : "ask",
  });
}
