/**
 * What no rule drops, in the words that `gc --help`, docs/config.md and the config template share. A test holds all of
 * them to this list; the rules themselves are in core/retention/retention-plan.ts and engine/upkeep/collector.ts.
 */
export const NEVER_DROPPED = [
  "the newest checkpoint of a run",
  "the newest it can resume from",
  "the best scored one",
  "tagged ones",
  "the parent of a fork",
  "the only copy of commits that no branch or remote has any more",
  "the only copy of files that a restore replaced",
] as const;

/** How age and the end of a run work, in the same words everywhere. */
export const AGE_RULE = 'what a number keeps goes when it is older than maxAge; what "all" keeps stays';
export const DONE_RULE = "with keep_latest a run that is done keeps its latest checkpoint and the manual ones";

export const YOUNG_RULE =
  "nothing of a run is dropped by these rules before its newest checkpoint is older than minRunAge; rules of your own without minRunAge apply at once";

export function neverDroppedText(): string {
  const [last = "", ...others] = NEVER_DROPPED.toReversed();
  return `${others.toReversed().join(", ")} and ${last}`;
}
