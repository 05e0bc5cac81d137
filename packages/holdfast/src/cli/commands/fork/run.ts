import type { RunHandle } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { RunSummary } from "../../../core/run.ts";
import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { checkNewRunId } from "../../check-run-id.ts";
import { runHeld } from "../../wait-for-run.ts";
import { forkedText, planText } from "./view.ts";
import type { forkSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof forkSpec)["flags"]>): Promise<Exit> {
  const as = input.text("as");
  checkNewRunId(as);
  const holdfast = await shell.open({ create: false });
  const source = await holdfast.resolve(input.operand(0) ?? "");
  const worktree = holdfast.workspaces !== null && !input.on("no-worktree");
  if (input.on("dry-run")) {
    const taken = as === undefined ? undefined : await holdfast.store.getRun(as);
    if (taken !== undefined)
      throw new HoldfastError({
        code: "RUN_EXISTS",
        message: `There is a run ${as} already`,
        hint: "Choose another id with --as.",
      });
    const plan = { from: source.id, as: as ?? null, worktree };
    shell.print({ json: () => ({ plan, dryRun: true }), text: (page) => planText(plan, page) });
    return "done";
  }
  const shown = await fork(shell, await holdfast.run(source.run), {
    sequence: source.sequence,
    worktree,
    ...(as === undefined ? {} : { id: as }),
  });
  shell.print({ json: () => shown, text: (page) => forkedText({ ...shown, from: source.id }, page) });
  shell.say(`Save in it with: ${shell.talk.program} checkpoint --run ${shown.run.id}`);
  return "done";
}

async function fork(
  shell: Shell,
  handle: RunHandle,
  params: Parameters<RunHandle["fork"]>[0],
): Promise<{ readonly run: RunSummary; readonly worktree: string | null }> {
  const work = async () => {
    try {
      const forked = await handle.fork(params);
      const [run, workspace] = await Promise.all([forked.summary(), forked.workspace()]);
      await forked.close();
      return { run, worktree: workspace?.root ?? null };
    } catch (error) {
      throw runHeld(error);
    }
  };
  return await shell.finish(work(), { done: ({ run }) => `run ${run.id} was forked` });
}
