import type { JournalEntry } from "./journal.ts";
import { isJsonArray, isJsonObject } from "./json.ts";
import type { Json } from "./json.ts";
import type { Visit } from "./visit.ts";

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
    if (kind === "step.finished") collect(body["result"], commits);
    if (kind === "effect.settled") collect(body["receipt"], commits);
  }
  const seen = new Set(commits);
  collect(params.visit.steps, seen);
  return { changesFiles, commits, seen };
}

function collect(value: Json | undefined, into: Set<string>): void {
  if (typeof value === "string") {
    if (OBJECT_ID.test(value)) into.add(value);
  } else if (isJsonArray(value)) {
    for (const one of value) collect(one, into);
  } else if (isJsonObject(value)) {
    for (const one of Object.values(value)) collect(one, into);
  }
}

const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
