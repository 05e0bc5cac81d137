import type { Refusal } from "../../ports/branch.ts";

export type RefusalAnswer = "rebase" | "fixable" | "fatal" | "park";

/** What a refused push calls for, by its real cause. Total: a new cause cannot be forgotten. */
export const ANSWER_TO: Readonly<Record<Refusal["cause"], RefusalAnswer>> = {
  non_fast_forward: "rebase",
  stale_lease: "rebase",
  // A hook judges the commits, and its message says what to change in them.
  hook: "fixable",
  local_hook: "fixable",
  // No edit makes a protected branch accept us.
  protected: "fatal",
  // Whether it is a secret, and what becomes of it, is for the user to say.
  secret: "park",
  auth: "park",
  network: "park",
  remote: "park",
  missing_remote: "park",
  other: "park",
};

/** The remote side failed, and may not the next time: nothing was judged. */
export function isTemporary(cause: Refusal["cause"]): boolean {
  return cause === "network" || cause === "remote";
}

/** Waits before a push is tried again that the remote refused for a reason that may be gone by then. */
export const REFUSED_WAITS_MS: Readonly<Partial<Record<Refusal["cause"], readonly number[]>>> = {
  hook: [2_000],
  other: [2_000, 10_000],
};

/** What the user can do, where the remote's own message does not say it. */
export const REFUSAL_HINT: Readonly<Partial<Record<Refusal["cause"], string>>> = {
  secret:
    "Remove the secret from every commit of the branch and revoke it, or allow it at the forge (its message has the link).",
};
