import type { RunningStep } from "../../core/position/visit.ts";
import { lookParams } from "../parts.ts";
import { putFilesBack } from "../restore/put-files-back.ts";
import { keepBranch, takeBackStrays } from "../restore/right-place.ts";
import { sameFiles } from "../restore/settled-files.ts";
import { movedBranch } from "../stage/run-step.ts";
import type { RunWriter } from "../conduct/run-writer.ts";
import { tellNote } from "../conduct/tell-note.ts";

/**
 * After a crash or an interrupt. Half of a step's work in the files: saved, then put back to where the step began, unless
 * its agent can continue its session or had finished. No step under way: what differs is a person's work, so it is kept and saved.
 */
export async function recoverFiles(
  writer: RunWriter,
  params: { readonly fellBack: boolean; readonly unfinished: boolean },
): Promise<void> {
  const { workspace, running } = writer;
  const keepsFiles = (name: string): boolean => writer.sessions.has(name) || writer.answered.has(name);
  const lost = [...running].filter(([name, step]) => step.files && !keepsFiles(name));
  const goesOn = [...running].some(([name, step]) => step.files && keepsFiles(name));
  const clear = (): readonly [] => {
    writer.running = new Map();
    return [];
  };
  if (workspace === undefined) {
    clear();
    return;
  }
  if (lost.length === 0 && !goesOn && !params.fellBack && !params.unfinished) await takeBackLeft(writer);
  const base = await baseOf(writer, lost);
  const standing = params.fellBack ? writer.sequence : writer.settled.sequence;
  const to = params.fellBack || params.unfinished ? (base ?? standing) : base;
  if (to !== null) {
    const names = lost.map(([name]) => name).join(", ");
    if (base !== null) {
      const { planes } = await writer.parts.store.getCheckpoint({ run: writer.run.id, sequence: base });
      await keepBranch(writer, names, planes.files);
    }
    const why = names === "" ? "what an unfinished restore left" : `what ${names} left half-done`;
    await putFilesBack(writer, {
      to,
      trigger: "error_recovery",
      why,
      finish: () => {
        clear();
        return params.unfinished ? [{ kind: "restore.finished", body: { target: `${writer.run.id}@${to}` } }] : [];
      },
    });
    writer.tell({ kind: "note", text: `Put the files back to ${writer.run.id}@${to}; ${why} is saved` });
    return;
  }
  clear();
  if (!goesOn && lost.length === 0) await keepEdits(writer);
}

/** null: nothing to put back. A fork may name a checkpoint of its parent, which is not here. */
async function baseOf(writer: RunWriter, lost: readonly (readonly [string, RunningStep])[]): Promise<number | null> {
  if (lost.length === 0) return null;
  const base = Math.max(...lost.map(([, step]) => step.base));
  const [found] = await writer.parts.store.listCheckpoints({ run: writer.run.id, before: base + 1, limit: 1 });
  if (found?.sequence !== base || base > writer.sequence) return null;
  const agents = lost.some(([, step]) => step.estimate !== null);
  return agents || !(await movedBranch({ writer }, base)) ? base : null;
}

/** In a checkpoint of their own, so that nothing that goes back later goes back beyond them. */
async function keepEdits(writer: RunWriter): Promise<void> {
  const { workspace, parts } = writer;
  const { at: _at, ...look } = lookParams(parts);
  if (workspace === undefined || (await workspace.currentFiles(look)).tree === writer.files?.tree) return;
  // Between two tries of a call that goes on with its session, they may be the call's own.
  const text = [...writer.sessions.keys()].some((step) => !writer.asides.has(step))
    ? "Files were changed since the last checkpoint, by the call that goes on or by somebody; they are kept"
    : "Files were changed while nobody worked on the run; they are kept";
  await writer.save({
    trigger: "automatic",
    name: "changed from outside",
    prepare: () => [{ kind: "note", body: { text } }],
  });
  writer.tell({ kind: "note", text });
}

/** The newest checkpoint holds what strayed there before the kill. Where nobody has touched the files since, it is taken back; else it is kept, and told. */
async function takeBackLeft(writer: RunWriter): Promise<void> {
  const { workspace, parts, settled, files } = writer;
  if (workspace === undefined || settled.sequence === writer.sequence) return;
  if (sameFiles(await workspace.look(lookParams(parts)), files)) return await takeBackStrays(writer);
  const text = `${writer.run.id}@${writer.sequence} holds what was changed in the run's own worktree by calls that were to change nothing there, and files were changed since; all of it is kept (compare with ${writer.run.id}@${settled.sequence})`;
  await tellNote(writer, text);
}
