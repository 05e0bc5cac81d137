import type { CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { FileChange, Workspace } from "../../ports/workspace.ts";
import type { Parts } from "../parts.ts";
import { lookParams } from "../parts.ts";
import type { Saver } from "../save/saver.ts";

export interface TakeBack {
  readonly parts: Parts;
  readonly saver: Saver;
  readonly lease: Lease;
  readonly workspace: Workspace;
  /** What was there before the restore. */
  readonly undo: CheckpointSummary;
  readonly changes: readonly FileChange[];
}

/**
 * A restore that began and cannot end is taken back, so that what failed changed nothing. Only what the restore touched: the rest is
 * somebody else's. When it cannot be taken back either, the journal goes on telling of an unfinished restore, and the error says so.
 */
export async function orTakeBack<T>(back: TakeBack, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // Whoever took the run over decides about its files.
    if (!(error instanceof HoldfastError) || error.code === "LEASE_LOST") throw error;
    const isBack = await takeBack(back).then(
      () => true,
      () => false,
    );
    const { code, message, retry, data, cause } = error;
    const said = isBack
      ? "Everything is as it was before."
      : `What was there before is ${back.undo.id}; the restore can be run again, or that one restored.`;
    const hint = error.hint === undefined ? said : `${error.hint} ${said}`;
    throw new HoldfastError({ code, message, hint, retry, data, cause: cause ?? error });
  }
}

async function takeBack({ parts, saver, lease, workspace, undo, changes }: TakeBack): Promise<void> {
  const { files: to } = (await parts.store.getCheckpoint(undo)).planes;
  const from = await workspace.look(lookParams(parts));
  if (to !== null && from.tree !== to.tree) {
    // What somebody wrote over restored files is in no checkpoint.
    await parts.workspaces?.keep({ run: undo.run, commit: from.commit });
    const paths = changes.map(({ path }) => path);
    // Quoted names are git's spelling; a scope takes them as they are on disk.
    const scope = paths.some((path) => path.startsWith('"')) ? {} : { paths };
    await workspace.applyRestore(await workspace.planRestore({ from, to, ...scope }));
  }
  const text = `The restore was taken back; the files are those of ${undo.id}`;
  await parts.store.commit({
    lease,
    entries: [
      { kind: "restore.finished", body: { target: undo.id } },
      { kind: "note", body: { text } },
    ],
  });
  saver.forget();
}
