import type { CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import type { FileCounts } from "../../core/rollback/facts.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { countChanges } from "./find-rollback.ts";
import { lookParams } from "../parts.ts";
import type { Parts } from "../parts.ts";

/** What somebody who chooses wants to know before. */
export interface CheckpointPreview {
  readonly checkpoint: CheckpointSummary;
  /** From it to the files as they are now; null: one of the two has none, or they are not here. */
  readonly files: FileCounts | null;
  /** Done or begun after it, each as `kind on target`, oldest first. */
  readonly effects: readonly string[];
}

/** Newest first. Looks only. */
export async function previewCheckpoints(
  parts: Parts,
  params: { readonly run: string; readonly limit: number; readonly workspace: Workspace | undefined },
): Promise<readonly CheckpointPreview[]> {
  const { run, limit, workspace } = params;
  const checkpoints = await parts.store.listCheckpoints({ run, limit });
  const effects: { readonly entry: number; readonly text: string }[] = [];
  for await (const { kind, entry, body } of parts.store.readJournal({ run })) {
    const { kind: what, target } = body;
    if (kind === "effect.intended" && typeof what === "string" && typeof target === "string")
      effects.push({ entry, text: `${what} on ${target}` });
  }
  const now = (await workspace?.look(lookParams(parts)))?.tree ?? null;
  const counted = new Map<string, FileCounts | null>();
  const previews: CheckpointPreview[] = [];
  for (const checkpoint of checkpoints) {
    const { tree } = checkpoint;
    if (tree !== null && !counted.has(tree)) counted.set(tree, await countChanges(parts, tree, now));
    previews.push({
      checkpoint,
      files: tree === null ? null : (counted.get(tree) ?? null),
      effects: effects.filter(({ entry }) => entry > checkpoint.entry).map(({ text }) => text),
    });
  }
  return previews;
}
