import { NOTHING, exceeded, settleLost } from "../../core/position/budget.ts";
import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import { recoveryEvents } from "../../core/graph/graph-recovery.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Position } from "../../core/position/position.ts";
import type { Progress } from "../../core/journal/progress-fold.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { sweepAsides } from "../asides/asides.ts";
import { answerFile, readAnswer } from "../agent/kept-answer.ts";
import type { Workflow } from "../definition.ts";
import { unparked } from "../conduct/park.ts";
import { rewoundTo } from "../planes.ts";
import type { ProgressListener } from "../progress-event.ts";
import { readProgress } from "../conduct/read-progress.ts";
import { recoverFiles } from "./recover-files.ts";
import { clearStaleLocks } from "./resume-run.ts";
import type { SettledFiles } from "../restore/settled-files.ts";
import { RunHandle } from "../run-handle.ts";
import { runMark } from "../save/run-mark.ts";
import { tellNote } from "../conduct/tell-note.ts";
import { reduceAll } from "../stage/recorder.ts";
import { movedEntry } from "../graph/stage-graph.ts";
import { RunWriter } from "../conduct/run-writer.ts";
import type { WorkParts } from "../work-parts.ts";

/**
 * A run in our hands, ready to go on: processes of the one before are gone, files and position fit together, spending
 * that was never told is counted. Only then is it unparked, once.
 */
export async function takeUp<S extends JsonObject>(params: {
  readonly parts: WorkParts;
  readonly summary: RunSummary;
  readonly lease: Lease;
  readonly workflow: Workflow<S>;
  readonly listen: ProgressListener | undefined;
  readonly allowChanged: boolean;
}): Promise<RunWriter> {
  const { parts, summary, workflow, lease } = params;
  const run = summary.id;
  const { newest, top, progress } = await readProgress(parts, run);
  checkDefinition(workflow, run, progress.position, params.allowChanged);
  await parts.commands.endMarked(runMark(parts, run));
  const cleared = await clearStaleLocks(parts, run, newest.planes.files);
  const writer = new RunWriter({
    parts,
    run: summary,
    lease,
    workspace: await ownWorkspace(parts, summary, newest),
    listen: params.listen,
    newest,
    top,
    position: { ...lostAsSpent(progress.position), definition: workflow.definition },
    values: reduceAll(workflow, {
      run,
      values: newest.planes.context.values,
      events: progress.position.visit.unreduced ?? [],
    }),
    effects: await parts.store.listEffects(run),
    changed: progress.changed,
    ...(await settledBefore(parts, newest, progress.fellBack)),
  });
  await recoverNodes(writer, newest, progress);
  if (!progress.fellBack && newest.planes.conversation?.rewound === undefined)
    for (const [name, step] of Object.entries(progress.position.visit.running ?? {})) writer.uncounted.set(name, step);
  for (const step of writer.uncounted.keys())
    if ((readAnswer(answerFile(writer, step))?.ended ?? null) !== null) writer.answered.add(step);
  // Who fell back went back too: agents may remember what cannot be used.
  if (progress.fellBack) writer.conversation = rewoundTo(writer.conversation, "restore");
  else if (progress.talked) writer.settleRewound();
  const { stage, iteration } = writer.position;
  writer.tell({ kind: "started", stage, iteration, resumed: newest.sequence > 1 || writer.steps.size > 0 });
  if (cleared !== null) await tellNote(writer, cleared);
  await recoverFiles(writer, { fellBack: progress.fellBack, unfinished: summary.unfinishedRestore !== null });
  if (progress.fellBack && writer.sequence === newest.sequence) await fallBack(writer, newest);
  await sweepAsides(writer, { ended: false });
  if (summary.state.kind === "parked") await writer.append(unparked({}));
  return writer;
}

/**
 * Before anything else is written: later checkpoints do not know any more which steps were under way. Who fell back has
 * a checkpoint to write first, which holds what is in memory; and which calls aside were under way, only the one that it
 * fell back to knows.
 */
async function recoverNodes(writer: RunWriter, newest: Checkpoint, { position, fellBack }: Progress): Promise<void> {
  const events = recoveryEvents(fellBack ? newest.planes.position : position, writer.isoNow());
  if (events.length === 0) return;
  writer.schedule?.apply(events);
  if (!fellBack) await writer.append(movedEntry(events, writer.visit));
}

/** On record at once: what is finished from here on must not be passed over with what could not be used. */
async function fallBack(writer: RunWriter, newest: Checkpoint): Promise<void> {
  const text = `Went back to ${newest.id}: what is newer cannot be used`;
  const prepare = () => [{ kind: "note", body: { text } } as const];
  await writer.save({ trigger: "error_recovery", name: text, prepare });
  writer.tell({ kind: "note", text });
}

/** Does a parked run go on now? A question waits for its answer, a time for itself, a budget for a higher limit. */
export function mayGoOn(params: {
  readonly state: RunSummary["state"];
  readonly position: Position;
  readonly now: number;
}): boolean {
  const { state } = params;
  if (state.kind !== "parked") return true;
  // The time is our own guess: a user who resumes earlier knows more, and a try costs nothing.
  if (state.on === "provider") return true;
  // Whether there is room is measured, not a matter of time.
  if (state.on === "disk") return true;
  if (state.until !== null) return Date.parse(state.until) <= params.now;
  if (state.decision !== undefined) return state.decision.recheck === true;
  // Whoever resumes has seen to the rest: signed in, freed the disk, waited long enough.
  return state.on !== "budget" || exceeded(params.position.budget).length === 0;
}

function lostAsSpent(position: Position): Position {
  const running = Object.entries(position.visit.running ?? {}).map(
    ([name, step]) => [name, { ...step, estimate: step.estimate === null ? null : NOTHING }] as const,
  );
  return {
    ...position,
    budget: settleLost(position.budget),
    visit: { ...position.visit, running: Object.fromEntries(running) },
  };
}

function checkDefinition<S extends JsonObject>(
  workflow: Workflow<S>,
  run: string,
  position: Position,
  allowChanged: boolean,
): void {
  const { shape, definition } = workflow;
  if (position.workflow !== shape.name) {
    throw new HoldfastError({
      code: "USAGE",
      message: `Run ${run} follows workflow ${position.workflow}, not ${shape.name}`,
      hint: "Carry it on with the workflow that it was begun with.",
    });
  }
  const known = shape.stages.includes(position.stage);
  if (known && (allowChanged || position.definition === definition)) return;
  throw new HoldfastError({
    code: "WORKFLOW_CHANGED",
    message: known
      ? `Workflow ${shape.name} is not any more what run ${run} began with`
      : `Run ${run} stands in stage ${position.stage}, which workflow ${shape.name} does not have any more`,
    hint: "Carry it on with the version that began it, or begin a new run.",
    retry: "ask",
    data: { run, was: position.definition, is: definition },
  });
}

async function ownWorkspace(parts: WorkParts, summary: RunSummary, newest: Checkpoint): Promise<Workspace | undefined> {
  const workspace = await new RunHandle(parts, summary).workspace();
  const { files } = newest.planes;
  if (workspace !== undefined || files === null || parts.workspaces === null) return workspace;
  throw new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `The worktree of run ${summary.id} is not there any more: ${files.worktree}`,
    hint: `Its files are safe: \`holdfast fork ${summary.id}@latest\` brings them back in a worktree of their own.`,
    data: { run: summary.id },
  });
}

/** Of a checkpoint that was taken while somebody worked who may have written where it should not. */
async function settledBefore(
  parts: WorkParts,
  { run, sequence: newest, planes: taken }: Checkpoint,
  fellBack: boolean,
): Promise<{ readonly settled?: SettledFiles }> {
  const { settled } = taken.position.visit;
  if (settled === undefined || settled.of !== newest || fellBack) return {};
  const [found] = await parts.store.listCheckpoints({ run, before: settled.at + 1, limit: 1 });
  if (found?.sequence !== settled.at) return {};
  const { planes } = await parts.store.getCheckpoint({ run, sequence: settled.at });
  return { settled: { sequence: settled.at, files: planes.files } };
}
