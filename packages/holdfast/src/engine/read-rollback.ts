import type { CheckpointSummary } from "../core/checkpoint.ts";
import type { Damage, FileCounts, RollbackFacts } from "../core/rollback/facts.ts";
import { FactsReader } from "../core/rollback/read-facts.ts";
import type { KnownCheckpoint } from "../core/rollback/read-facts.ts";
import type { Diff } from "../ports/workspace.ts";
import { allCheckpoints } from "./all-checkpoints.ts";
import { readWhole } from "./find-start.ts";
import type { Parts } from "./parts.ts";

/** Older than this, what a step changed is of no interest any more: each costs a comparison of trees. */
const COMPARED = 64;

/** The facts of a failure: the journal from its beginning, every checkpoint's integrity, and what changed between them. Changes nothing. */
export async function readRollbackFacts(parts: Parts, run: string): Promise<RollbackFacts> {
  const summary = await parts.store.getRun(run);
  const reader = new FactsReader();
  for await (const entry of parts.store.readJournal({ run })) reader.read(entry);
  const newestFirst = await Array.fromAsync(allCheckpoints(parts.store, run));
  const known: KnownCheckpoint[] = [];
  for (const [at, checkpoint] of newestFirst.entries()) {
    const { sequence, trigger } = checkpoint;
    const before = at < COMPARED ? newestFirst[at + 1] : undefined;
    const damage = await damageOf(parts, checkpoint);
    known.push({ sequence, trigger, damage, changed: await countChanges(parts, before?.tree, checkpoint.tree) });
  }
  return reader.facts({ run, state: summary?.state ?? { kind: "open" }, known });
}

async function damageOf(parts: Parts, checkpoint: CheckpointSummary): Promise<Damage | null> {
  const read = await readWhole(parts, checkpoint);
  if (read.kind === "whole") return null;
  return { kind: checkpoint.quarantined ? "quarantined" : "damaged", problem: read.problem };
}

async function countChanges(
  parts: Parts,
  from: string | null | undefined,
  to: string | null,
): Promise<FileCounts | null> {
  if (from === undefined || from === null || to === null || parts.workspaces === null) return null;
  const none = { added: 0, modified: 0, removed: 0 };
  if (from === to) return none;
  let diff: Diff;
  try {
    diff = await parts.workspaces.diff({ from, to, format: "names" });
  } catch {
    // One of the trees is not here: its checkpoint is named as damaged.
    return null;
  }
  const counts = { ...none };
  for (const { status } of diff.files)
    counts[status === "added" ? "added" : status === "deleted" ? "removed" : "modified"] += 1;
  return counts;
}
