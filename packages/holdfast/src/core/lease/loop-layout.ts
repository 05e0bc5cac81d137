import { loopRetention } from "../retention/retention.ts";
import type { RetentionPolicy } from "../retention/retention.ts";

/** What of a loop is also written where other tools look for it, and how much of it stays there. */
export interface LoopLayoutSettings {
  readonly mirror: boolean;
  /** Where `.aiwg` is; null: the main worktree, without a repository where one stands. */
  readonly directory: string | null;
  readonly keep: number;
  /** Days; null: age never drops. */
  readonly maxAge: number | null;
  readonly onSuccess: "keep_latest" | "by_rules";
  readonly onFailure: "keep_all_recent" | "by_rules";
}

/** As published. */
export const DEFAULT_LOOP_LAYOUT: LoopLayoutSettings = {
  mirror: true,
  directory: null,
  keep: 5,
  maxAge: 30,
  onSuccess: "keep_latest",
  onFailure: "keep_all_recent",
};

/** The rules that the files of a loop are kept by: the store's own planner knows them too. */
export function layoutRetention(settings: Omit<LoopLayoutSettings, "mirror" | "directory">): RetentionPolicy {
  const { keep, maxAge, onSuccess, onFailure } = settings;
  return {
    ...loopRetention,
    defaultKeep: { keep, per: "run" },
    maxPerRun: keep,
    maxAgeDays: maxAge,
    onSuccess: onSuccess === "keep_latest" ? "latest_only" : "by_rules",
    onFailure: onFailure === "keep_all_recent" ? "keep_recent" : "by_rules",
    recentDays: maxAge ?? Number.MAX_SAFE_INTEGER,
  };
}
