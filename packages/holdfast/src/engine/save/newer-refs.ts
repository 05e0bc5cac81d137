import { HoldfastError } from "../../core/error.ts";
import type { SnapshotRef } from "../../ports/workspace.ts";
import type { Parts } from "../parts.ts";

/**
 * Refs of checkpoints that the store does not know and a crash cannot explain, oldest first. A run is made before anything is pinned
 * for it, and a save that was killed has pinned at most the checkpoint after the newest. So any other ref says that the store is an older
 * copy of itself. Only the repository's own store can be judged by its refs.
 */
export async function newerRefs(
  { store, workspaces, ownsRefs }: Pick<Parts, "store" | "workspaces" | "ownsRefs">,
  run: string,
  known?: readonly SnapshotRef[],
): Promise<readonly SnapshotRef[]> {
  if (workspaces === null || !ownsRefs) return [];
  const refs = (known ?? (await workspaces.refs(run))).filter((ref) => ref.run === run);
  if (refs.length === 0) return [];
  const exists = (await store.getRun(run)) !== undefined;
  const [newest] = exists ? await store.listCheckpoints({ run, limit: 1 }) : [];
  const last = exists ? (newest?.sequence ?? 0) + 1 : 0;
  return refs.filter(({ sequence }) => sequence > last).toSorted((a, b) => a.sequence - b.sequence);
}

/** STORE_CUT before anything is done for a run of which the repository knows more than the store: it would be done again. */
export async function refuseRolledBack(
  parts: Pick<Parts, "store" | "workspaces" | "ownsRefs">,
  run: string,
): Promise<void> {
  const newer = await newerRefs(parts, run);
  const [first] = newer;
  if (first === undefined) return;
  throw new HoldfastError({
    code: "STORE_CUT",
    message: `The store ${parts.store.location} is older than the repository: ${first.ref}${newer.length > 1 ? ` and ${newer.length - 1} more refs name checkpoints` : " names a checkpoint"} of run ${run} that it does not know`,
    hint: `Bring back the newer store. To accept the loss and continue with what is there: git update-ref -d ${newer.map(({ ref }) => ref).join(" && git update-ref -d ")}`,
    data: { location: parts.store.location, run, refs: newer.map(({ ref }) => ref) },
  });
}
