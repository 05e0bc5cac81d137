/** The `fork` command: starts a new run from a checkpoint, in its own worktree. */
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { JsonObject } from "@holdfast/core/json";
import { divergenceText } from "@holdfast/core/recording";
import type { ReplayReport } from "@holdfast/core/replay";
import type { RunSummary } from "@holdfast/core/run";
import type { RunHandle } from "@holdfast/core/run-handle";
import { HoldfastError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { checkNewRunId } from "../operands.ts";
import { type Page, paint } from "../output/page.ts";
import { escapeText } from "../output/text.ts";
import { runJson } from "../run-json.ts";
import { workflowFile } from "../run-consent.ts";
import { runHeld } from "../run-holder.ts";
import { replayText } from "./replay.ts";

export const spec = {
  name: "fork",
  summary: "try another way from a checkpoint, in a new worktree",
  details: [
    "Creates a run with the files and the state of the checkpoint. The old run and your worktree do not change. Before its first push, pull request, comment or label, the new run waits for your answer once (exit status 4): `holdfast approve RUN publish` or `holdfast approve RUN stop`.",
    "--replay needs a recorded run (`holdfast run --mode logged`). It first replays the run up to the checkpoint from the record, without an agent. If the replay diverges (exit status 8) or the record is damaged (exit status 6), no run is created.",
  ],
  operands: [{ name: "ADDRESS", about: "RUN@7, RUN@latest, RUN@tag", required: true, completes: "address" }],
  consent: "saves",
  flags: {
    as: { type: "text", value: "RUN", about: "id of the new run (default: generated)" },
    replay: {
      type: "boolean",
      about: "first replay the recorded run up to the checkpoint",
    },
    workflow: {
      type: "text",
      value: "FILE",
      about: "with --replay: the file of your own workflow",
      completes: "file",
    },
    "no-worktree": { type: "boolean", about: "state only: create no worktree and no branch" },
    "dry-run": { type: "boolean", about: "show what would be created, and create nothing" },
  },
  examples: [
    { line: "holdfast fork fix-login@3 --as other-way", about: "try another way from checkpoint 3" },
    { line: "holdfast fork fix-login@latest --no-worktree", about: "fork the state only" },
    { line: "holdfast fork issue-42@7 --dry-run", about: "show what would be created" },
  ],
  json: '{"run": {...}, "worktree": "path" or null, "replay": {...} with --replay}; with --dry-run {"plan": {"from", "as", "worktree"}}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
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
        message: `A run ${as} exists already`,
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
  if (replayed !== null) shell.notify(replayText(replayed, shell.talk).trimEnd());
  const found = await holdfast.runWithStatus(forked.run.id);
  shell.print({
    json: () => ({ ...shown, run: runJson(found) }),
    text: (page) => forkedText({ ...shown, from: source.id }, page),
  });
  shell.notify(nextText(shown.run, shell.talk));
  return "done";
}

/** Replays the prefix that the new run shares with the old one, to check that it matches the record. */
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
      : `Run ${id} diverges from its record: ${report.divergence === null ? "" : divergenceText(report.divergence)}`,
    hint: `\`holdfast replay ${id} --to ${sequence}\` shows it; without --replay the checkpoint is forked without a check. Nothing was created.`,
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

function planText(
  plan: { readonly from: string; readonly as: string | null; readonly worktree: boolean },
  page: Page,
): string {
  const id = plan.as === null ? "with a new id" : paint(page, "bold", escapeText(plan.as));
  const where = plan.worktree ? "with its own worktree and branch" : "without a worktree";
  return `Would create run ${id} from ${escapeText(plan.from)}, ${where}.\n`;
}

/** A run of a workflow is resumed next; a run that is saved by hand is saved again. */
function nextText({ id, workflow }: Pick<RunSummary, "id" | "workflow">, page: Page): string {
  return workflow === "manual"
    ? `Save in it with: ${page.program} checkpoint --run ${id}`
    : `Continue with: ${page.program} resume ${id}`;
}

function forkedText(
  shown: { readonly run: RunSummary; readonly worktree: string | null; readonly from: string },
  page: Page,
): string {
  const id = escapeText(shown.run.id);
  const line = `Forked ${escapeText(shown.from)} as ${paint(page, "bold", id)}.\n`;
  if (shown.worktree === null) return `${line}It has no worktree: its files are in the checkpoint.\n`;
  return `${line}Its files are in ${escapeText(shown.worktree)}\n`;
}
