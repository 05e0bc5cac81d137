import type { GcReport, Holdfast, RunHandle, SaveParams, SavePlan } from "../../../app.ts";
import type { CheckpointSummary, Planes } from "../../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { CurrentFiles, Diff } from "../../../ports/workspace.ts";
import { checkNewRunId } from "../../check-run-id.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun as findKnownRun } from "../../find-run.ts";
import { leftOutOf } from "../../output/left-out.ts";
import { runHeld } from "../../wait-for-run.ts";
import { gcOutcome, gcSummary } from "../gc/view.ts";
import { askHolder, holderOf } from "./ask-holder.ts";
import { readValues } from "./read-values.ts";
import type { checkpointSpec } from "./spec.ts";
import { planText, savedText } from "./view.ts";

export async function run(shell: Shell, input: Input<(typeof checkpointSpec)["flags"]>): Promise<Exit> {
  const params = await saveParams(input);
  checkNewRunId(input.text("run"));
  if (input.operand(0) !== undefined && input.text("run") !== undefined)
    throw new HoldfastError({
      code: "USAGE",
      message: "Both RUN and --run were given",
      hint: "Leave one of them out.",
    });
  if (input.on("dry-run")) return dryRun(shell, input, params);
  // Read before anything is made: a broken config must stop us with nothing done.
  const { settings } = await shell.config();
  const holdfast = await shell.open({ create: input.operand(0) === undefined });
  const found = await findRun(holdfast, input);
  const handle = found ?? (await createRun(shell, holdfast, input.text("run")));
  const asked = await askHolder(shell, handle, params);
  const { checkpoint, planes } = asked ?? (await save(shell, handle, params));
  const { unfinishedRestore } = await handle.summary();
  const gc = settings.gc.auto ? await sweep(shell, holdfast) : null;
  const saved = {
    checkpoint,
    started: found === undefined,
    skipped: planes.files?.skipped ?? [],
    nested: planes.files?.nested ?? [],
    unfinishedRestore,
    savedBy: asked?.by ?? null,
  };
  const noWorktree = planes.files === null && !input.on("no-files") && holdfast.workspaces?.bare === true;
  shell.print({
    json: () => ({ ...saved, gc }),
    text: (page) => savedText({ ...saved, planes, noWorktree, leftOut: leftOutOf(planes.files) }, page),
  });
  shell.say(`Go back to it with: ${shell.talk.program} restore ${checkpoint.id}`);
  if (gc !== null && gc.dropped.length > 0) shell.say(gcSummary(gc, shell.talk));
  return "done";
}

/** One piece, with letting go of the run: Ctrl+C finds all of it done or none. */
async function save(
  shell: Shell,
  handle: RunHandle,
  params: SaveParams,
): Promise<{ readonly checkpoint: CheckpointSummary; readonly planes: Planes }> {
  const work = async () => {
    try {
      const checkpoint = await handle.save(params);
      return { checkpoint, planes: (await handle.get(checkpoint.sequence)).planes };
    } catch (error) {
      throw runHeld(error);
    } finally {
      await handle.close();
    }
  };
  return await shell.finish(work(), { done: ({ checkpoint }) => `${checkpoint.id} was saved` });
}

async function dryRun(shell: Shell, input: Input<(typeof checkpointSpec)["flags"]>, params: SaveParams): Promise<Exit> {
  await shell.config();
  const holdfast = await shell.openIfThere({ writes: false });
  const handle = holdfast === undefined ? undefined : await findRun(holdfast, input);
  const plan = (await handle?.planSave(params)) ?? null;
  const files = plan === null ? await firstFiles(shell, holdfast, params) : plan.files;
  const changes = holdfast === undefined || plan === null ? [] : await changesOf(holdfast, plan);
  const holder = await handle?.holder();
  const asks = holder === undefined || holder.alive === "dead" ? null : holderOf(holder.lease.owner);
  const shown = { plan, changes, started: handle === undefined, run: handle?.id ?? input.text("run") ?? null, asks };
  const { skipped = [], nested = [] } = files ?? {};
  shell.print({
    json: () => ({ ...shown, skipped, nested, dryRun: true }),
    text: (page) => planText({ ...shown, leftOut: leftOutOf({ skipped, nested }) }, page),
  });
  return "done";
}

/** Where there is no run yet, and perhaps no store either: then one that is kept nowhere. */
async function firstFiles(
  shell: Shell,
  holdfast: Holdfast | undefined,
  params: SaveParams,
): Promise<CurrentFiles | null> {
  if (params.files === false) return null;
  return await (holdfast ?? (await shell.open({ create: false, pretend: true }))).filesHere();
}

/** Against the newest checkpoint; nothing when there is none, or it holds no files. */
async function changesOf(holdfast: Holdfast, plan: SavePlan): Promise<Diff["files"]> {
  if (plan.files?.changedSinceLast !== true) return [];
  const [newest] = await holdfast.store.listCheckpoints({ run: plan.run, limit: 1 });
  const from = newest?.tree ?? null;
  if (from === null || holdfast.workspaces === null) return [];
  return (await holdfast.workspaces.diff({ from, to: plan.files.tree, format: "names" })).files;
}

async function saveParams(input: Input<(typeof checkpointSpec)["flags"]>): Promise<SaveParams> {
  const name = input.text("name");
  const file = input.text("values");
  if (name?.trim() === "") {
    throw new HoldfastError({
      code: "USAGE",
      message: "--name is empty",
      hint: 'Give it a name such as --name "before the refactor", or leave the flag out.',
    });
  }
  return {
    trigger: "manual",
    ...(name === undefined ? {} : { name }),
    ...(file === undefined ? {} : { values: await readValues(file) }),
    ...(input.on("no-files") ? { files: false } : {}),
  };
}

/** Undefined: there is no such run yet, and a checkpoint would start it. Without a name: the run of this worktree. */
async function findRun(
  holdfast: Holdfast,
  input: Input<(typeof checkpointSpec)["flags"]>,
): Promise<RunHandle | undefined> {
  const typed = input.operand(0);
  if (typed !== undefined) return await holdfast.run((await findKnownRun(holdfast, typed)).id);
  const id = input.text("run");
  if (id === undefined) return holdfast.runHere();
  try {
    return await holdfast.run(id);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "RUN_NOT_FOUND") return undefined;
    throw error;
  }
}

async function createRun(shell: Shell, holdfast: Holdfast, id: string | undefined): Promise<RunHandle> {
  const creating = holdfast.createRun({ workspace: "here", ...(id === undefined ? {} : { id }) });
  return await shell.finish(creating, { done: (handle) => `run ${handle.id} was started` });
}

/** The checkpoint is safe by now: a failing clean-up is a note, not a failure. After Ctrl+C it is not begun. */
async function sweep(shell: Shell, holdfast: Holdfast): Promise<GcReport | null> {
  if (shell.signal.aborted) return null;
  try {
    const cleaning = holdfast.autoGc();
    return await shell.finish(cleaning, { done: (report) => (report === null ? null : gcOutcome(report)) });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    shell.say(`The daily clean-up failed (${why}); try: ${shell.talk.program} gc --dry-run`);
    return null;
  }
}
