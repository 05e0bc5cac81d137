import type { Checkpoint, FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { lookParams } from "../parts.ts";
import { placing } from "../asides/placing.ts";
import { finished, started } from "../resume/repair-place.ts";
import type { RunSession } from "../conduct/run-session.ts";
import { sameFiles } from "../../core/state.ts";

interface PutBack {
  readonly to: number;
  readonly trigger: "error_recovery" | "before_restore";
  readonly why: string;
  readonly finish: (tree: string | null) => readonly NewEntry[];
}

/**
 * Makes the files what they are in a checkpoint of this run; the position stays. What is there now is saved first, so
 * nothing is lost. Killed in between, the journal shows a restore of files that began, and the same call again completes it.
 * `finish` returns the entries of the commit that says that the files are back. Returns the tree.
 */
export async function putFilesBack(writer: RunSession, params: PutBack): Promise<string | null> {
  const { workspace, parts, run } = writer;
  const target = await parts.store.getCheckpoint({ run: run.id, sequence: params.to });
  const to = target.planes.files;
  if (workspace === undefined || to === null) {
    await appendAll(writer, params.finish(null));
    return null;
  }
  return await placing(writer, () => putBack(writer, params, { workspace, target, to }));
}

async function putBack(
  writer: RunSession,
  params: PutBack,
  { workspace, target, to }: { readonly workspace: Workspace; readonly target: Checkpoint; readonly to: FilesPlane },
): Promise<string> {
  const from = await workspace.look(lookParams(writer.parts));
  if (from.tree === to.tree) {
    // Killed when they were back, and nobody had written it down: the newest checkpoint holds what was taken away, and the next step must not begin from that.
    if (writer.files !== null && sameFiles(from, writer.files)) {
      const { sequence, settled } = writer.state;
      const settles: readonly NewEntry[] =
        settled.sequence === sequence ? [] : [{ kind: "files.settled", body: { sequence } }];
      await appendAll(writer, [...settles, ...params.finish(to.tree)]);
    } else
      await writer.save({
        trigger: "restore",
        name: `files of ${target.id}`,
        settles: true,
        prepare: () => params.finish(to.tree),
      });
    return to.tree;
  }
  const plan = await workspace.planRestore({ from, to });
  await writer.save({
    trigger: params.trigger,
    name: params.why,
    prepare: ({ files }) => {
      if (files?.tree !== plan.fromTree) throw moved(workspace.root);
      return [started(target)];
    },
  });
  const { tree } = await workspace.applyRestore(plan);
  await writer.save({
    trigger: "restore",
    name: `files of ${target.id}`,
    settles: true,
    prepare: () => [finished(target, tree), ...params.finish(tree)],
  });
  return tree;
}

async function appendAll(writer: RunSession, entries: readonly NewEntry[]): Promise<void> {
  if (entries.length > 0) await writer.append(...entries);
}

function moved(root: string): HoldfastError {
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Files in ${root} changed while they were to be put back`,
    hint: "Stop what is writing there, then resume the run; nothing was changed.",
    retry: "later",
  });
}
