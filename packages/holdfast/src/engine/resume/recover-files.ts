import type { NewEntry } from "../../core/journal/journal.ts";
import type { RunningStep } from "../../core/position/visit.ts";
import { lookParams } from "../parts.ts";
import { putFilesBack } from "../restore/put-files-back.ts";
import { keepBranch, takeBackStrays } from "../restore/right-place.ts";
import { sameFiles } from "../../core/state.ts";
import { movedBranch } from "../stage/run-step.ts";
import type { RunSession } from "../conduct/run-session.ts";
import { tellNote } from "../conduct/tell-note.ts";

/**
 * After a crash or an interrupt. Files that a step left half-done are saved, then put back to where the step began, unless its agent can continue
 * its session or had finished. Without a step under way, what differs is the user's work, so it is kept and saved.
 * `resumed` are the entries that continue the run: they are written when the files are back, since steps under way are known only until then.
 */
export async function recoverFiles(
  writer: RunSession,
  params: { readonly fellBack: boolean; readonly unfinished: boolean; readonly resumed: readonly NewEntry[] },
): Promise<void> {
  const { workspace, running } = writer;
  const { resumed, fellBack, unfinished } = params;
  const keepsFiles = (name: string): boolean => Object.hasOwn(writer.sessions, name) || writer.answered.has(name);
  const lost = Object.entries(running).filter(([name, step]) => step.files && !keepsFiles(name));
  const continues = Object.entries({ ...writer.lost, ...running }).some(
    ([name, step]) => step.files && keepsFiles(name),
  );
  if (workspace === undefined) return await appendAll(writer, resumed);
  if (lost.length === 0 && !continues && !fellBack && !unfinished) await takeBackLeft(writer);
  const base = await baseOf(writer, lost);
  const standing = fellBack ? writer.sequence : writer.state.settled.sequence;
  const to = fellBack || unfinished ? (base ?? standing) : base;
  if (to !== null) {
    const names = lost.map(([name]) => name).join(", ");
    if (base !== null) {
      const { planes } = await writer.parts.store.getCheckpoint({ run: writer.run.id, sequence: base });
      await keepBranch(writer, names, planes.files);
    }
    const why = names === "" ? "what an unfinished restore left" : `what ${names} left half-done`;
    const restored: readonly NewEntry[] = unfinished
      ? [{ kind: "restore.finished", body: { target: `${writer.run.id}@${to}` } }]
      : [];
    await putFilesBack(writer, { to, trigger: "error_recovery", why, finish: () => [...restored, ...resumed] });
    writer.tell({ kind: "note", text: `Put the files back to ${writer.run.id}@${to}; ${why} is saved` });
    return;
  }
  await appendAll(writer, resumed);
  if (!continues && lost.length === 0) await keepEdits(writer);
}

async function appendAll(writer: RunSession, entries: readonly NewEntry[]): Promise<void> {
  if (entries.length > 0) await writer.append(...entries);
}

/** null: nothing to put back. A fork may name a checkpoint of its parent, which is not here. */
async function baseOf(writer: RunSession, lost: readonly (readonly [string, RunningStep])[]): Promise<number | null> {
  if (lost.length === 0) return null;
  const base = Math.max(...lost.map(([, step]) => step.base));
  const [found] = await writer.parts.store.listCheckpoints({ run: writer.run.id, before: base + 1, limit: 1 });
  if (found?.sequence !== base || base > writer.sequence) return null;
  const agents = lost.some(([, step]) => step.estimate !== null);
  return agents || !(await movedBranch({ writer }, base)) ? base : null;
}

/** In a checkpoint of their own, so that nothing that goes back later goes back beyond them. */
async function keepEdits(writer: RunSession): Promise<void> {
  const { workspace, parts } = writer;
  const { at: _at, ...look } = lookParams(parts);
  if (workspace === undefined || (await workspace.currentFiles(look)).tree === writer.files?.tree) return;
  // Between two tries of a call that goes on with its session, they may be the call's own.
  const text = Object.keys(writer.sessions).some((step) => !Object.hasOwn(writer.asides, step))
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
async function takeBackLeft(writer: RunSession): Promise<void> {
  const { workspace, parts, files } = writer;
  const { settled } = writer.state;
  if (workspace === undefined || settled.sequence === writer.sequence) return;
  if (sameFiles(await workspace.look(lookParams(parts)), files)) return await takeBackStrays(writer);
  const text = `${writer.run.id}@${writer.sequence} holds what was changed in the run's own worktree by calls that were to change nothing there, and files were changed since; all of it is kept (compare with ${writer.run.id}@${settled.sequence})`;
  await tellNote(writer, text);
}
