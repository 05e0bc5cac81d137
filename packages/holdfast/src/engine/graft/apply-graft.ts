import type { CheckpointSummary, Planes } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Workspace } from "../../ports/workspace.ts";
import type { Parts } from "../parts.ts";
import { lookParams } from "../parts.ts";
import type { GraftPlan } from "./plan-graft.ts";
import type { Saver } from "../save/saver.ts";
import { orTakeBack } from "../restore/take-restore-back.ts";

export interface GraftReport {
  /** What was there before: restoring it undoes the graft. */
  readonly undo: CheckpointSummary;
  /** The run's newest checkpoint now; a run that is resumed goes on from it. */
  readonly checkpoint: CheckpointSummary;
  readonly written: number;
  readonly removed: number;
}

export interface GraftWork {
  readonly parts: Parts;
  readonly plan: GraftPlan;
  readonly saver: Saver;
  readonly lease: Lease;
  readonly workspace: Workspace;
  /** Also over edits that no checkpoint holds (they are saved first), and links that lead out. */
  readonly force: boolean;
}

/**
 * Checkpoint of what is there and "started" in one commit → files → files verified → "finished", from where, and a checkpoint in one commit. It is a
 * restore that began, to the checkpoint from before it: killed in between, whoever takes the run up goes back there, `restore` of that checkpoint does
 * too, and the same graft again completes it.
 */
export async function applyGraft(work: GraftWork): Promise<GraftReport> {
  const { plan, saver, lease, workspace, parts } = work;
  refuseLoss(plan, work.force);
  const newest = await saver.newest();
  if (newest === undefined) throw new HoldfastError({ code: "INTERNAL", message: `Run ${plan.run} has no checkpoint` });
  const undo = plan.begun ?? (await saveBefore(work, newest.planes));
  const place = async () => {
    const done = await workspace.applyRestore(plan.files);
    const after = await saver.snapshot(workspace, nameOf(plan));
    if (after.files.tree !== done.tree) throw overwritten(workspace.root);
    const checkpoint = await saver.commit({
      lease,
      planes: { ...graftedPlanes(newest.planes, after.sequence), files: after.files },
      params: { trigger: "manual", name: nameOf(plan) },
      entries: [
        { kind: "restore.finished", body: { target: undo.id, tree: done.tree, graft: plan.source.id } },
        {
          kind: "note",
          body: { text: `Took ${plan.asked.join(", ")} from ${plan.source.id}; ${undo.id} is from before` },
        },
      ],
      sequence: after.sequence,
    });
    return { undo, checkpoint, written: done.written, removed: done.removed };
  };
  if (plan.begun === null) {
    const { changes } = plan.files;
    return await orTakeBack({ parts, saver, lease, workspace, undo, changes }, place);
  }
  // Begun by a process that died: what is half of each stays on record as such until it is whole.
  if (plan.edited.length > 0) await keepEdits(work);
  return await place();
}

/** Known from the plan alone, so nothing is begun that would then be refused. */
function refuseLoss({ files, edited, outward, run }: GraftPlan, force: boolean): void {
  const [blocked] = files.blocked;
  if (blocked !== undefined) {
    throw new HoldfastError({
      code: "RESTORE_REFUSED",
      message: `The graft is not possible: ${blocked}${more(files.blocked)} is a git repository of its own, or a file that no checkpoint holds`,
      hint: "Move it away first, or take other paths.",
      data: { blocked: files.blocked },
    });
  }
  const [edit] = edited;
  if (edit !== undefined && !force) {
    throw new HoldfastError({
      code: "RESTORE_REFUSED",
      message: `${edit}${more(edited)} in the worktree of ${run} was changed since its newest checkpoint`,
      hint: "Look with --dry-run; --force takes the other version all the same, and saves this one first.",
      data: { edited },
    });
  }
  const [link] = outward;
  if (link !== undefined && !force) {
    throw new HoldfastError({
      code: "RESTORE_REFUSED",
      message: `${link.path}${more(outward)} is a link that leads out of the worktree, to ${link.target}`,
      hint: "Whoever writes through it writes elsewhere. --force takes it all the same.",
      data: { outward },
    });
  }
}

function more(all: readonly unknown[]): string {
  return all.length > 1 ? ` and ${all.length - 1} more` : "";
}

async function saveBefore({ plan, saver, lease, workspace }: GraftWork, newest: Planes): Promise<CheckpointSummary> {
  const name = `before ${nameOf(plan)}`;
  const before = await saver.snapshot(workspace, name);
  if (before.files.tree !== plan.files.fromTree) {
    throw new HoldfastError({
      code: "RESTORE_REFUSED",
      message: `Files in ${workspace.root} changed after this graft was planned`,
      hint: "Stop what is writing there, then graft again; nothing was changed.",
      retry: "later",
    });
  }
  const target = `${plan.run}@${before.sequence}`;
  return await saver.commit({
    lease,
    planes: { ...newest, files: before.files },
    params: { trigger: "before_risky", name },
    entries: [{ kind: "restore.started", body: { target, paths: plan.asked, graft: plan.source.id } }],
    sequence: before.sequence,
  });
}

async function keepEdits({ parts, plan, workspace }: GraftWork): Promise<void> {
  const { commit } = await workspace.look(lookParams(parts));
  await parts.workspaces?.keep({ run: plan.run, commit });
}

/** A call that goes on with its session and then fails goes back no further than here. */
function graftedPlanes(planes: Planes, sequence: number): Planes {
  const { visit } = planes.position;
  if (visit.running === undefined) return planes;
  const running = Object.fromEntries(
    Object.entries(visit.running).map(([name, step]) => [name, step.files ? { ...step, base: sequence } : step]),
  );
  return { ...planes, position: { ...planes.position, visit: { ...visit, running } } };
}

function nameOf({ source }: GraftPlan): string {
  return `graft from ${source.id}`;
}

function overwritten(root: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `Files in ${root} were changed by somebody else right after they were put there`,
    hint: "Stop what is writing there, then graft again.",
    retry: "later",
  });
}
