import type { JournalEntry } from "./journal.ts";
import { isJsonArray, isJsonObject } from "./json.ts";
import type { Json } from "./json.ts";

/** What the run itself did after its newest checkpoint: differences that stem from it are nobody else's. */
export interface SinceCheckpoint {
  /** A step that changes files was begun: what the files and the branch are like now is its half work. */
  readonly changesFiles: boolean;
  /** Commits that finished steps and settled effects tell of. */
  readonly commits: ReadonlySet<string>;
}

/** Such a step ends together with a checkpoint, so one that was begun after the newest one has not ended. */
export function foldSince(entries: Iterable<Pick<JournalEntry, "kind" | "body">>): SinceCheckpoint {
  let changesFiles = false;
  const commits = new Set<string>();
  for (const { kind, body } of entries) {
    if (kind === "step.started" && body["files"] === true) changesFiles = true;
    if (kind === "step.finished") collect(body["result"], commits);
    if (kind === "effect.settled") collect(body["receipt"], commits);
  }
  return { changesFiles, commits };
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
