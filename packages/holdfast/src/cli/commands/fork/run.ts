import type { Holdfast, ReplayReport, RunHandle } from "../../../app.ts";
import type { CheckpointSummary } from "../../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { JsonObject } from "../../../core/json.ts";
import { divergenceText } from "../../../core/replay/divergence.ts";
import type { RunSummary } from "../../../core/run/run.ts";
import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { checkNewRunId } from "../../check-run-id.ts";
import { runHeld } from "../../wait-for-run.ts";
import { workflowFile } from "../../run-consent.ts";
import { replayText } from "../replay/view.ts";
import { forkedText, nextText, planText } from "./view.ts";
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
  const replayed = input.on("replay") ? await replayPrefix(shell, holdfast, source, input.text("workflow")) : null;
  const labels = replayed === null ? {} : { labels: { replayed: prefixLabel(source, replayed) } };
  const forked = await fork(shell, await holdfast.run(source.run), {
    sequence: source.sequence,
    worktree,
    ...labels,
    ...(as === undefined ? {} : { id: as }),
  });
  const shown = replayed === null ? forked : { ...forked, replay: replayed };
  if (replayed !== null) shell.say(replayText(replayed, shell.talk).trimEnd());
  shell.print({ json: () => shown, text: (page) => forkedText({ ...shown, from: source.id }, page) });
  shell.say(nextText(shown.run, shell.talk));
  return "done";
}

/** The common prefix: what the new run has from the old one, and that it is what was recorded. */
async function replayPrefix(
  shell: Shell,
  holdfast: Holdfast,
  { run: id, sequence }: CheckpointSummary,
  named: string | undefined,
): Promise<ReplayReport> {
  const workflow = await workflowFile(shell, holdfast, { run: id, named });
  const report = await holdfast.work.replay({ run: id, to: sequence, ...workflow, signal: shell.signal });
  if (report.verdict === "identical") return report;
  const damaged = report.verdict === "damaged";
  throw new HoldfastError({
    code: damaged ? "STORE_CORRUPT" : "REPLAY_DIVERGED",
    message: damaged
      ? `The record of run ${id} is damaged: ${report.problems[0]?.what ?? "it cannot be read"}`
      : `Run ${id} does not come out as it was recorded: ${report.divergence === null ? "" : divergenceText(report.divergence)}`,
    hint: `\`holdfast replay ${id} --to ${sequence}\` shows it; without --replay the checkpoint is forked as it is. Nothing was made.`,
    data: { report },
  });
}

function prefixLabel({ id }: CheckpointSummary, { compared, steps, agents }: ReplayReport): JsonObject {
  return { to: id, compared, steps, agents };
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
