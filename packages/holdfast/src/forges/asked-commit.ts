import { HoldfastError } from "../core/error.ts";

export function requireCommit(commit: string): void {
  if (/^[0-9a-f]{40,64}$/.test(commit)) return;
  throw new HoldfastError({ code: "USAGE", message: `${commit} is not a commit`, hint: "Give its whole name." });
}

/** FORGE_FAILED, for now: what was pushed a moment ago may still be on its way. */
export function unknownCommit(forge: string, commit: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `${forge} does not know the commit ${commit} yet`,
    hint: "Push it first; right after a push it may take a moment.",
    retry: "later",
  });
}
