import { HoldfastError } from "../core/error.ts";
import type { FilesPlane } from "../core/checkpoint.ts";
import type { Workspace } from "../ports/workspace.ts";
import { lookParams } from "./parts.ts";
import { putFilesBack } from "./put-files-back.ts";
import type { RunWriter } from "./run-writer.ts";

/**
 * Agents are told to stay on the run's branch, and do not always. Wherever one has gone, the run goes on on its own branch with
 * the files as they are: its next commit holds them. `before`: as the last checkpoint before the call has them.
 */
export async function keepBranch(writer: RunWriter, step: string, before: FilesPlane | null): Promise<void> {
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
async function checkPlace(writer: RunWriter, root: string, step: string): Promise<void> {
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
  readonly sequence: number;
  readonly fileSteps: number;
  readonly alone: boolean;
}

export function beganAt({ files, sequence, fileSteps, running }: RunWriter): BeganAt {
  return { files, sequence, fileSteps, alone: ![...running.values()].some((step) => step.files) };
}

/**
 * After a call that is to change nothing. What it changed all the same was seen by no gate and no review, so it is saved and then taken
 * back, commits included: where nothing of ours changed files since it began. Newer checkpoints say nothing of that, anybody may ask for one.
 */
export async function takeBackChanges(writer: RunWriter, step: string, began: BeganAt): Promise<void> {
  const { workspace } = writer;
  if (workspace === undefined || began.files === null || !began.alone || writer.fileSteps !== began.fileSteps) return;
  if (!(await isChanged(writer, workspace, began.files))) return;
  await writer.save({ trigger: "error_recovery", name: `what ${step} changed` });
  const saved = `${writer.run.id}@${writer.sequence}`;
  const own = ownBranch(began.files);
  if (own !== null) await workspace.standOn({ ...own, commits: "drop" });
  await putFilesBack(writer, { to: began.sequence, trigger: "error_recovery", why: `${step} ended`, finish: () => [] });
  await tellNote(writer, `${step} was to change nothing and did; it is saved as ${saved}, and taken back`);
}

async function isChanged(writer: RunWriter, workspace: Workspace, before: FilesPlane): Promise<boolean> {
  const { tree, head, branch } = await workspace.look(lookParams(writer.parts));
  return tree !== before.tree || head !== before.head || branch !== before.branch;
}

function ownBranch(files: FilesPlane | null): { readonly branch: string; readonly head: string } | null {
  if (files === null || files.branch === null || files.head === null) return null;
  return { branch: files.branch, head: files.head };
}

async function tellNote(writer: RunWriter, text: string): Promise<void> {
  await writer.append({ kind: "note", body: { text } });
  writer.tell({ kind: "note", text });
}

function shortName(branch: string): string {
  return branch.replace(/^refs\/heads\//, "");
}
