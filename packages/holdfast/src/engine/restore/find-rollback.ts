import type { CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import { chooseRollback } from "../../core/rollback/choose-rollback.ts";
import type { RollbackChoice } from "../../core/rollback/choose-rollback.ts";
import type { Damage, FileCounts, RollbackCandidate, RollbackFacts } from "../../core/rollback/facts.ts";
import { findCause } from "../../core/rollback/find-cause.ts";
import { FactsReader } from "../../core/rollback/read-facts.ts";
import type { KnownCheckpoint } from "../../core/rollback/read-facts.ts";
import type { Diff } from "../../ports/workspace.ts";
import { allCheckpoints } from "../upkeep/all-checkpoints.ts";
import { NOT_HERE, readWhole } from "../resume/find-start.ts";
import type { Parts } from "../parts.ts";

/** Older than this, what a step changed is of no interest any more. */
const COMPARED = 64;

/**
 * Reads the failure and chooses where to go back to. Changes nothing. The git objects of a checkpoint are looked at when it would be the
 * one: to walk the trees of all would take minutes in a long run.
 */
export async function findRollback(
  parts: Parts,
  params: { readonly run: string; readonly pastEffects: boolean },
): Promise<RollbackChoice> {
  let facts = await readFacts(parts, params.run);
  // Comparing trees is the dearest of all, and only for those with nothing else to go by.
  if (findCause(facts).kind === "unknown") facts = await withChanges(parts, facts);
  for (;;) {
    const choice = chooseRollback(facts, params);
    const tree = facts.candidates.find(({ sequence }) => sequence === choice.chosen)?.tree ?? null;
    if (choice.chosen === null || tree === null || (await isHere(parts, params.run, choice.chosen))) return choice;
    const damage: Damage = { kind: "damaged", problem: NOT_HERE };
    facts = { ...facts, candidates: facts.candidates.map((one) => (one.tree === tree ? { ...one, damage } : one)) };
  }
}

async function readFacts(parts: Parts, run: string): Promise<RollbackFacts> {
  const summary = await parts.store.getRun(run);
  const reader = new FactsReader();
  for await (const entry of parts.store.readJournal({ run })) reader.read(entry);
  const known: KnownCheckpoint[] = [];
  for await (const checkpoint of allCheckpoints(parts.store, run))
    known.push({ sequence: checkpoint.sequence, damage: await damageOf(parts, checkpoint) });
  return reader.facts({ run, state: summary?.state ?? { kind: "open" }, known });
}

async function withChanges(parts: Parts, facts: RollbackFacts): Promise<RollbackFacts> {
  const oldestFirst = facts.candidates.toSorted((a, b) => a.sequence - b.sequence);
  const first = Math.max(1, oldestFirst.length - COMPARED);
  const candidates: RollbackCandidate[] = [];
  for (const [at, one] of oldestFirst.entries()) {
    const changed = at < first ? null : await countChanges(parts, oldestFirst[at - 1]?.tree, one.tree);
    candidates.push({ ...one, changed });
  }
  return { ...facts, candidates };
}

async function damageOf(parts: Parts, checkpoint: CheckpointSummary): Promise<Damage | null> {
  const read = await readWhole({ ...parts, workspaces: null }, checkpoint);
  if (read.kind === "whole") return null;
  return { kind: checkpoint.quarantined ? "quarantined" : "damaged", problem: read.problem };
}

async function isHere(parts: Parts, run: string, sequence: number): Promise<boolean> {
  const { files } = (await parts.store.getCheckpoint({ run, sequence })).planes;
  return files === null || parts.workspaces === null || (await parts.workspaces.has(files));
}

export async function countChanges(
  parts: Pick<Parts, "workspaces">,
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
    // One of the trees is not here; its checkpoint is named as damaged when it would be the one.
    return null;
  }
  const counts = { ...none };
  for (const { status } of diff.files)
    counts[status === "added" ? "added" : status === "deleted" ? "removed" : "modified"] += 1;
  return counts;
}
