import type { Refusal } from "../../ports/branch.ts";

export type RefusalAnswer = "rebase" | "fixable" | "fatal" | "park";

/** What a refused push calls for, by its real cause. Total: a new cause cannot be forgotten. */
export const ANSWER_TO: Readonly<Record<Refusal["cause"], RefusalAnswer>> = {
  non_fast_forward: "rebase",
  stale_lease: "rebase",
  // The hook's message tells the agent what to mend.
  hook: "fixable",
  // No edit makes a protected branch accept us.
  protected: "fatal",
  auth: "park",
  network: "park",
  missing_remote: "park",
  other: "fixable",
};
