import { RESOURCES, exceeded } from "../../core/position/budget.ts";
import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import { recoveryEvents } from "../../core/graph/graph-recovery.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Position } from "../../core/position/position.ts";
import type { NewEntry, RunResumed } from "../../core/journal/journal.ts";
import type { RunState } from "../../core/state.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { sweepAsides } from "../asides/asides.ts";
import { answerFile, readAnswer } from "../agent/kept-answer.ts";
import type { Workflow } from "../definition.ts";
import { unparked } from "../conduct/park.ts";
import type { ProgressListener } from "../progress-event.ts";
import { loadRun } from "../conduct/load-run.ts";
import type { LoadedRun } from "../conduct/load-run.ts";
import { recoverFiles } from "./recover-files.ts";
import { clearStaleLocks } from "./resume-run.ts";
import { RunHandle } from "../run-handle.ts";
import { runMark } from "../save/run-mark.ts";
import { tellNote } from "../conduct/tell-note.ts";
import { eventsOf } from "../stage/recorder.ts";
import { movedEntry } from "../graph/stage-graph.ts";
import { RunSession } from "../conduct/run-session.ts";
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
}): Promise<RunSession> {
  const { parts, summary, workflow, lease, listen } = params;
  const run = summary.id;
  const apply = eventsOf(workflow, run);
  const loaded = await loadRun(parts, run, apply);
  const { newest, fellBack, state } = loaded;
  checkDefinition(workflow, run, state.position, params.allowChanged);
  await parts.commands.endMarked(runMark(parts, run));
  const cleared = await clearStaleLocks(parts, run, newest.planes.files);
  const workspace = await ownWorkspace(parts, summary, newest);
  const writer = new RunSession({ parts, run: summary, lease, workspace, listen, loaded, workflow, apply });
  await recoverNodes(writer, loaded);
  // What a call had taken is compared with the agent's record, which does not fit after the run went back.
  const counts = !fellBack && newest.planes.conversation?.rewound === undefined;
  for (const step of counts ? Object.keys({ ...writer.lost, ...writer.running }) : [])
    if ((readAnswer(answerFile(writer, step))?.ended ?? null) !== null) writer.answered.add(step);
  const { stage, iteration, visit } = state.position;
  const hasSteps = Object.keys(visit.steps).length > 0;
  writer.tell({ kind: "started", stage, iteration, resumed: newest.sequence > 1 || hasSteps });
  if (cleared !== null) await tellNote(writer, cleared);
  await recoverFiles(writer, {
    fellBack,
    unfinished: summary.unfinishedRestore !== null,
    resumed: resumedEntries(state, counts),
  });
  if (fellBack && writer.sequence === newest.sequence) await fallBack(writer, newest);
  await sweepAsides(writer, { ended: false });
  if (summary.state.kind === "parked") await writer.append(unparked({}));
  return writer;
}

/** Only where it changes something: steps were under way when the last process died. */
function resumedEntries(state: RunState, counts: boolean): readonly NewEntry[] {
  const { visit, budget } = state.position;
  const isReserved = RESOURCES.some((resource) => budget.reserved[resource] > 0);
  const body: RunResumed = { counts };
  return visit.running !== undefined || isReserved ? [{ kind: "run.resumed", body }] : [];
}

/**
 * Before anything else is written: later checkpoints do not know which steps were under way. After falling back, only the checkpoint knows which
 * calls in side worktrees were under way.
 */
async function recoverNodes(writer: RunSession, { newest, state, fellBack }: LoadedRun): Promise<void> {
  const events = recoveryEvents(fellBack ? newest.planes.position : state.position, writer.isoNow());
  if (events.length > 0) await writer.append(movedEntry(events, writer.visit));
}

/** On record at once: what is finished from here on must not be dropped with what could not be used. */
async function fallBack(writer: RunSession, newest: Checkpoint): Promise<void> {
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
