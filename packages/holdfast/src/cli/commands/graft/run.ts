import type { GraftPlan, GraftReport, Holdfast, RunHandle } from "../../../app.ts";
import type { Checkpoint } from "../../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { waitForRun } from "../../wait-for-run.ts";
import { worktreePaths } from "../../worktree-paths.ts";
import { nothingText, planText, reportText } from "./view.ts";
import type { graftSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof graftSpec)["flags"]>): Promise<Exit> {
  const dryRun = input.on("dry-run");
  const holdfast = await shell.open({ create: false, writes: !dryRun });
  const source = await findSource(holdfast, input);
  const into = await findInto(holdfast, input.text("into"));
  if (into.id === source.run) throw sameRun(source, input.operands.slice(1));
  if (!dryRun) await held(into.id, () => waitForRun(shell, into));
  const plan = await planOf(shell, holdfast, { source, into, typed: input.operands.slice(1) });
  if (dryRun) {
    shell.print({ json: () => ({ plan, dryRun }), text: (page) => planText(plan, page) });
    return "done";
  }
  if (plan.files.changes.length === 0 && plan.begun === null) {
    shell.print({ json: () => ({ plan, dryRun, report: null }), text: () => nothingText(plan) });
    return "done";
  }
  const report = await apply(shell, into, plan, input.on("force"));
  shell.print({ json: () => ({ plan, dryRun, report }), text: (page) => reportText(plan, report, page) });
  return "done";
}

async function findSource(holdfast: Holdfast, input: Input<(typeof graftSpec)["flags"]>): Promise<Checkpoint> {
  const typed = input.operand(0) ?? "";
  const from = input.text("from");
  if (from !== undefined && typed.includes("@")) {
    throw new HoldfastError({
      code: "USAGE",
      message: `--from ${from} names a checkpoint, and ${typed} does so too`,
      hint: `Write RUN@${from}, or RUN with --from ${from}.`,
    });
  }
  const address = typed.includes("@") ? typed : `${(await findRun(holdfast, typed)).id}@${from ?? "latest"}`;
  const { run: id, sequence } = await holdfast.resolve(address);
  return await (await holdfast.run(id)).get(sequence);
}

async function findInto(holdfast: Holdfast, typed: string | undefined): Promise<RunHandle> {
  if (typed !== undefined) {
    if (!typed.includes("@")) return await holdfast.run((await findRun(holdfast, typed)).id);
    throw new HoldfastError({
      code: "USAGE",
      message: `--into ${typed} names a checkpoint, and those never change`,
      hint: "Name the run alone: its worktree gets the files.",
    });
  }
  const here = await holdfast.runHere();
  if (here !== undefined) return here;
  throw new HoldfastError({
    code: "USAGE",
    message: "No run is named that would get the files, and this worktree belongs to none",
    hint: "Write --into RUN.",
  });
}

/** Paths count from where somebody stands: in the worktree of either run, or any other of the repository. */
async function planOf(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly source: Checkpoint; readonly into: RunHandle; readonly typed: readonly string[] },
): Promise<GraftPlan> {
  const { source, into, typed } = params;
  const places = await Promise.all([
    into.workspace(),
    (await holdfast.run(source.run)).workspace(),
    holdfast.workspaces?.open(shell.cwd).catch(() => undefined),
  ]);
  const roots = places.flatMap((place) => (place === undefined ? [] : [place.root]));
  const paths = await worktreePaths({ paths: typed, cwd: shell.cwd, roots });
  try {
    return await into.planGraft({ source, paths });
  } catch (cause) {
    const unknown = cause instanceof HoldfastError && cause.code === "USAGE";
    const path = unknown ? paths.find((one) => cause.message.startsWith(`${one} is neither`)) : undefined;
    if (path === undefined) throw cause;
    throw new HoldfastError({
      code: "USAGE",
      message: `${path} is neither in the worktree of ${into.id} nor in ${source.id}`,
      hint: `See what they differ in: holdfast compare ${into.id} ${source.id} --stat`,
      cause,
    });
  }
}

async function apply(shell: Shell, into: RunHandle, plan: GraftPlan, force: boolean): Promise<GraftReport> {
  const work = async (): Promise<GraftReport> => {
    try {
      return await held(into.id, () => into.applyGraft(plan, { force }));
    } finally {
      await into.close();
    }
  };
  return await shell.finish(work(), {
    done: ({ undo }) => `the files were taken (undo: ${shell.talk.program} restore ${undo.id})`,
    failed: async () => {
      const { unfinishedRestore } = await into.summary();
      return unfinishedRestore === null
        ? null
        : `the graft did not finish (finish it: the same again; go back: ${shell.talk.program} restore ${unfinishedRestore})`;
    },
  });
}

async function held<T>(run: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD") throw error;
    const { message, retry, data } = error;
    const hint = `Stop it with \`holdfast stop ${run}\`, graft, then \`holdfast resume ${run}\`.`;
    throw new HoldfastError({ code: "LEASE_HELD", message, hint, retry, data, cause: error });
  }
}

function sameRun({ id, run: name }: Checkpoint, paths: readonly string[]): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `${id} is a checkpoint of ${name} itself`,
    hint: `Bring its own files back with: holdfast restore ${id} -- ${paths.join(" ")}`,
  });
}
