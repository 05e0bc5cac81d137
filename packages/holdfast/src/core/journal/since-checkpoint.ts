import { commitsIn } from "../commits-in.ts";
import type { JournalEntry } from "./journal.ts";
import type { Visit } from "../position/visit.ts";

/** What the run itself did after its newest checkpoint: differences that stem from it are nobody else's. */
export interface SinceCheckpoint {
  /** A step that changes files was begun: what the files and the branch are like now is its half work. */
  readonly changesFiles: boolean;
  /** Commits that finished steps and settled effects tell of. */
  readonly commits: ReadonlySet<string>;
  /** Those, and the ones that steps of the same visit had told of before: the stage knows them and deals with them itself. */
  readonly seen: ReadonlySet<string>;
}

export function foldSince(params: {
  /** Of the checkpoint. */
  readonly visit: Visit;
  readonly entries: Iterable<Pick<JournalEntry, "kind" | "body">>;
}): SinceCheckpoint {
  // One that a checkpoint names as running was in its middle then; one that failed since may have left files behind.
  let changesFiles = Object.values(params.visit.running ?? {}).some((step) => step.files);
  const commits = new Set<string>();
  for (const { kind, body } of params.entries) {
    if (kind === "step.started" && body["files"] === true) changesFiles = true;
    const told = kind === "step.finished" ? body["result"] : kind === "effect.settled" ? body["receipt"] : null;
    for (const commit of commitsIn(told)) commits.add(commit);
  }
  const seen = new Set([...commits, ...commitsIn(params.visit.steps)]);
  return { changesFiles, commits, seen };
}
