import type { AsideClosed } from "../../core/position/aside.ts";
import { HoldfastError } from "../../core/error.ts";
import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json } from "../../core/json.ts";
import type { Look, RestorePlan, Workspace } from "../../ports/workspace.ts";
import { removeFolder, requireAsides, requireOpen } from "./asides.ts";
import { lookParams } from "../parts.ts";
import { placing } from "./placing.ts";
import { rebaseRunning } from "../../core/state.ts";
import { takeBackStrays } from "../restore/right-place.ts";
import { playStep } from "../replay/play-step.ts";
import { beginStep, failStep } from "../stage/run-step.ts";
import type { Aside, AsideMerged } from "../stage-context.ts";
import type { Stay } from "../stage/stay.ts";

/**
 * Worked out in objects first: a conflict changes nothing. What merges is a step that changes files as any other: killed in the middle, the files go back
 * to where it began and it is done again.
 */
export async function mergeAside(
  stay: Stay,
  name: string,
  { aside, commit }: { readonly aside: Aside; readonly commit: string },
): Promise<AsideMerged> {
  const { writer } = stay;
  const open = requireOpen(stay, aside);
  const known = stay.claim(name);
  return await stay.busy(async () => {
    if (writer.parts.player !== undefined) return parseMerged(known ?? (await playStep(stay, name)));
    const merged = known === undefined ? await stay.inTurn(merge) : parseMerged(known);
    if (known !== undefined) writer.tell({ kind: "step_finished", step: name, replayed: true });
    if (merged.kind === "merged") await removeFolder(stay, open);
    return merged;
  });

  async function merge(): Promise<AsideMerged> {
    const workspace = requireQuiet(stay, name);
    const asides = requireAsides(writer, name);
    await takeBackStrays(writer);
    const ours = await workspace.look(lookParams(writer.parts));
    const found = await asides.merge({ base: open.base, ours, theirs: commit });
    if (found.kind === "conflict")
      return await conclude({ kind: "conflict", files: found.files, detail: found.detail });
    const plan = await workspace.planRestore({ from: ours, to: found.to });
    const inTheWay = obstaclesOf(plan, found.to);
    if (inTheWay !== null) return await conclude(inTheWay);
    const files = plan.changes.map(({ path }) => path);
    if (files.length === 0) return await conclude({ kind: "merged", files });
    return await place({ kind: "merged", files }, workspace, plan);
  }

  /** Nothing of the files is changed by it. */
  async function conclude(merged: AsideMerged): Promise<AsideMerged> {
    stay.open();
    const result = recordOf(merged, aside.name);
    await writer.append(stay.finished(name, { result, spent: null }));
    writer.tell({ kind: "step_finished", step: name, replayed: false });
    return merged;
  }

  async function place(merged: AsideMerged, workspace: Workspace, plan: RestorePlan): Promise<AsideMerged> {
    await beginStep(stay, name, { files: true, estimate: null });
    try {
      await placing(writer, () => workspace.applyRestore(plan));
    } catch (error) {
      throw await failStep(stay, name, error);
    }
    stay.open();
    const result = recordOf(merged, aside.name);
    await writer.save({
      trigger: "automatic",
      name,
      prepare: () => [stay.finished(name, { result, spent: null })],
      change: (planes, { sequence }) => rebaseRunning(planes, sequence),
    });
    writer.tell({ kind: "step_finished", step: name, replayed: false });
    return merged;
  }
}

/** Files that others change now would be taken for the merge's, or go back with it. */
function requireQuiet({ writer }: Stay, step: string): Workspace {
  const { workspace, running, run } = writer;
  const others = Object.entries(running)
    .filter(([, { files }]) => files)
    .map(([name]) => name);
  if (workspace !== undefined && others.length === 0) return workspace;
  throw new HoldfastError({
    code: workspace === undefined ? "WORKSPACE_MISSING" : "USAGE",
    message:
      workspace === undefined
        ? `Step ${step} of run ${run.id} merges an aside, and the run has no worktree to merge into`
        : `Step ${step} merges an aside while ${others.join(", ")} changes the run's files`,
    hint: "Merge asides when nothing works in the run's own worktree.",
  });
}

/** What cannot be put into the files is a conflict too: something that no snapshot holds stands there, or is to be changed. */
function obstaclesOf(plan: RestorePlan, to: Look): AsideMerged | null {
  if (plan.blocked.length > 0) {
    const detail = `Files that are ignored or too large for snapshots stand in the way:\n${plan.blocked.join("\n")}`;
    return { kind: "conflict", files: plan.blocked, detail };
  }
  if (plan.toTree === to.tree) return null;
  const left = plan.untouched.filter(({ reason }) => LEFT.has(reason));
  const detail = left.map(({ path, reason }) => `${path} cannot be changed (${reason.replace("_", " ")})`).join("\n");
  return { kind: "conflict", files: left.map(({ path }) => path), detail };
}

const LEFT: ReadonlySet<string> = new Set(["nested_repository", "sparse", "ignored"]);

function recordOf(merged: AsideMerged, aside: string): Json {
  if (merged.kind === "conflict") return merged;
  const closed: AsideClosed & { readonly files: readonly string[] } = {
    kind: "aside.closed",
    aside,
    files: merged.files,
  };
  return closed;
}

/** Recorded above. */
function parseMerged(known: Json): AsideMerged {
  const { kind, files, detail } = isJsonObject(known) ? known : {};
  const paths = isJsonArray(files) ? files.filter((path) => typeof path === "string") : [];
  return kind === "conflict"
    ? { kind, files: paths, detail: typeof detail === "string" ? detail : "" }
    : { kind: "merged", files: paths };
}
