import { HoldfastError } from "../../core/error.ts";
import type { FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import { lookParams } from "../parts.ts";
import { putFilesBack } from "./put-files-back.ts";
import type { RunSession } from "../conduct/run-session.ts";
import { tellNote } from "../conduct/tell-note.ts";
import { onlyReaders, sameFiles } from "../../core/state.ts";

/**
 * Agents are told to stay on the run's branch, and do not always. Wherever one has gone, the run goes on on its own branch with
 * the files as they are: its next commit holds them. `before`: as the last checkpoint before the call has them.
 */
export async function keepBranch(writer: RunSession, step: string, before: FilesPlane | null): Promise<void> {
  const { workspace } = writer;
  const own = ownBranch(before);
  if (workspace === undefined || own === null) return;
  const righted = await workspace.standOn({ ...own, commits: "keep" });
  if (writer.halt.cause === undefined) await checkPlace(writer, workspace.root, step);
  if (!righted) return;
  await tellNote(
    writer,
    `${step} left the branch ${shortName(own.branch)} or its repository; both are as they were, the files are kept`,
  );
}

/** An agent can remove the very directory that it works in; what it did there is gone with it, and nothing else is. */
async function checkPlace(writer: RunSession, root: string, step: string): Promise<void> {
  const { parts, run } = writer;
  const trees = (await parts.workspaces?.list()) ?? [];
  if (trees.some(({ path, exists }) => exists && path === root)) return;
  throw new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `The worktree ${root} is gone: it was removed while ${step} worked in it`,
    hint: `\`holdfast resume ${run.id}\` makes it again with the files of ${run.id}@${writer.sequence} and repeats the step.`,
    data: { run: run.id, step },
  });
}

/** Where the files stood when a call began: by the newest checkpoint, and by what of ours was at work on them. */
export interface BeganAt {
  readonly files: FilesPlane | null;
  readonly fileSteps: number;
  readonly alone: boolean;
}

export function beganAt({ files, fileSteps, running }: RunSession): BeganAt {
  return { files, fileSteps, alone: !Object.values(running).some((step) => step.files) };
}

/**
 * After a call that is to change nothing in the run's own worktree: it only looks, or it works aside. What came about there all the same was seen by no gate
 * and no review, and would be committed as the work of somebody else. So it is saved and then taken back, commits included: where nothing of ours changed
 * files since it began. Newer checkpoints say nothing of that, anybody may ask for one.
 */
export async function takeBackChanges(writer: RunSession, began: BeganAt): Promise<void> {
  if (began.alone && writer.fileSteps === began.fileSteps) await takeBackStrays(writer);
}

/** The same while such calls are under way, before their files are built on. */
export async function takeBackStrays(writer: RunSession): Promise<void> {
  const { workspace, running, parts } = writer;
  const { settled } = writer.state;
  const { files } = settled;
  if (workspace === undefined || files === null || parts.player !== undefined || !onlyReaders(writer.state)) return;
  const now = await workspace.look(lookParams(parts));
  if (sameFiles(now, files)) return;
  const paths = (await workspace.planRestore({ from: now, to: files })).changes.map(({ path }) => path);
  const who = Object.keys(running).join(", ");
  await writer.save({ trigger: "error_recovery", name: changedBy(who) });
  const saved = `${writer.run.id}@${writer.sequence}`;
  const own = ownBranch(files);
  if (own !== null) await workspace.standOn({ ...own, commits: "drop" });
  const text = `The run's own worktree was changed while only ${who} worked, who were to change nothing there: ${named(paths)}. It is saved as ${saved}`;
  const before = writer.sequence;
  try {
    // Told in the commit that says that it is done: killed behind that, it is known all the same.
    const finish = () => [{ kind: "note", body: { text: `${text}, and taken back` } } as const];
    await putFilesBack(writer, { to: settled.sequence, trigger: "error_recovery", why: changedBy(who), finish });
    writer.tell({ kind: "note", text: `${text}, and taken back` });
  } catch (error) {
    // Something keeps writing there and nothing was begun: no reason to do paid work again. The next look tries again.
    if (!(error instanceof HoldfastError) || error.code !== "RESTORE_REFUSED" || writer.sequence !== before)
      throw error;
    await tellNote(writer, `${text}; it is still being written, and is kept for now`);
  }
}

const NAME_CHARACTERS = 200;

function changedBy(who: string): string {
  return `what was changed while ${who} worked`.slice(0, NAME_CHARACTERS).toWellFormed();
}

const NAMED = 10;

function named(paths: readonly string[]): string {
  if (paths.length === 0) return "commits";
  const more = paths.length > NAMED ? ` and ${paths.length - NAMED} more` : "";
  return `${paths.slice(0, NAMED).join(", ")}${more}`;
}

function ownBranch(files: FilesPlane | null): { readonly branch: string; readonly head: string } | null {
  if (files === null || files.branch === null || files.head === null) return null;
  return { branch: files.branch, head: files.head };
}

function shortName(branch: string): string {
  return branch.replace(/^refs\/heads\//, "");
}
