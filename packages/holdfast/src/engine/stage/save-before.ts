import type { NewEntry } from "../../core/journal/journal.ts";
import { lookParams } from "../parts.ts";
import type { RunSession } from "../conduct/run-session.ts";

/**
 * How things stand before something that the world may not give back: a push, a rebase, a call to somebody else. Where a checkpoint holds that already, none is
 * taken, and the entries name the one there is. `entries` are of the same commit, so that a kill leaves both or neither.
 */
export async function saveBefore(
  writer: RunSession,
  params: {
    readonly trigger: "before_risky" | "before_external";
    readonly name: string;
    /** Given the checkpoint that holds what was before; null: that was not asked for, or cannot be told. */
    readonly entries: (before: number | null) => readonly NewEntry[];
  },
): Promise<void> {
  const { trigger, name, entries } = params;
  const { checkpoints, player } = writer.parts;
  if (player !== undefined) {
    const request = { trigger, name: nameOf(name) };
    if (player.isNext(writer, request)) await writer.save(request);
    return;
  }
  const isOn = trigger === "before_risky" ? checkpoints.beforeRisky : checkpoints.beforeExternal;
  // Files that a step of ours is changing right now are half of it: a checkpoint of them would be none to go back to.
  const isQuiet = writer.placing === 0 && !Object.values(writer.running).some(({ files }) => files);
  if (!isOn || !isQuiet) return await appendAll(writer, entries(null));
  if (!writer.state.unsaved && !(await filesChanged(writer))) return await appendAll(writer, entries(writer.sequence));
  await writer.save({ trigger, name: nameOf(name), prepare: ({ sequence }) => entries(sequence) });
}

async function filesChanged({ workspace, files, parts }: RunSession): Promise<boolean> {
  if (workspace === undefined || files === null) return false;
  const { tree, head, branch } = await workspace.look(lookParams(parts));
  return tree !== files.tree || head !== files.head || branch !== files.branch;
}

async function appendAll(writer: RunSession, entries: readonly NewEntry[]): Promise<void> {
  if (entries.length > 0) await writer.append(...entries);
}

const NAME_CHARACTERS = 100;

/** Targets are texts of the user's; a name is one line. */
function nameOf(text: string): string {
  return text.replaceAll(/\s+/g, " ").slice(0, NAME_CHARACTERS).toWellFormed();
}
