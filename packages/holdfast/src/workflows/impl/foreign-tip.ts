import type { Branch } from "../../ports/branch.ts";

/** What the remote has of the run's branch, compared with what we pushed and what we have. */
export type Tip =
  /** Nothing that we lack. */
  | { readonly kind: "known"; readonly commit: string | null }
  /** Somebody added commits to what we pushed. */
  | { readonly kind: "added"; readonly commit: string }
  /** Somebody put other commits there: theirs and ours do not follow from each other. */
  | { readonly kind: "other"; readonly commit: string };

export async function judgeTip(params: {
  readonly branch: Pick<Branch, "isAncestor">;
  readonly tip: string | null;
  readonly head: string;
  readonly pushed: string | null;
}): Promise<Tip> {
  const { branch, tip, head, pushed } = params;
  // What we pushed ourselves is known, also when a rebase has rewritten our side since: that is what a pinned push goes over.
  if (tip === null || tip === pushed) return { kind: "known", commit: tip };
  if (await branch.isAncestor({ ancestor: tip, of: head })) return { kind: "known", commit: tip };
  const follows = pushed !== null && (await branch.isAncestor({ ancestor: pushed, of: tip }));
  return { kind: follows ? "added" : "other", commit: tip };
}
