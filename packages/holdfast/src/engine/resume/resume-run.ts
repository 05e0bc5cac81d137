import { readAccepted } from "../../core/resume/accepted.ts";
import { adoptWorld } from "../../core/resume/adopt-world.ts";
import type { Checkpoint, FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Finding, FindingPolicy, Setting, Verdict } from "../../core/resume/finding.ts";
import type { Freshness, Standing } from "../../core/resume/freshness.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Answers, ResumeAction, ResumePlan } from "../../core/resume/resume.ts";
import { planResume } from "../../core/resume/resume-plan.ts";
import type { ResumeFrom } from "../../core/resume/resume-plan.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { applyResume } from "./apply-resume.ts";
import type { ResumeReport } from "./apply-resume.ts";
import { findStart } from "./find-start.ts";
import { observeWorld } from "./observe.ts";
import { refuseRolledBack } from "../save/newer-refs.ts";
import { runMark } from "../save/run-mark.ts";
import type { WorkParts } from "../work-parts.ts";

export interface TakeUpPlan {
  readonly run: RunSummary;
  /** All that was found, whatever is done about it. */
  readonly findings: readonly Finding[];
  readonly plan: ResumePlan;
  /** What the run goes on from; null when there is nothing to go on from, or nothing to do. */
  readonly checkpoint: Checkpoint | null;
  readonly current: Setting;
  /** Sequence of the run's newest checkpoint when this was planned, whole or not; 0 without any. */
  readonly top: number;
}

export interface TakeUpParams {
  readonly parts: WorkParts;
  readonly run: string;
  /** A checkpoint to go back to; absent: the newest one that is whole. */
  readonly chosen?: number;
  readonly current: Setting;
  readonly policy: FindingPolicy;
  /** Of the workflow that carries the run. */
  readonly freshness?: Freshness | null;
  readonly answers: Answers;
  readonly force: boolean;
}

/** The pre-flight of a resume: what changed while nobody worked, and what would be done about it. Changes nothing. */
export async function planTakeUp(params: TakeUpParams): Promise<TakeUpPlan> {
  const { parts, chosen, current, policy, answers, force } = params;
  const run = await findRun(params);
  await refuseRolledBack(parts, run.id);
  const ended = run.state.kind === "done" || run.state.kind === "fatal";
  const start = await findStart({ parts, run: run.id, ...(chosen === undefined ? {} : { chosen }) });
  const top = await topOf(parts, run.id);
  const rest = { run: run.id, state: run.state, policy, answers, force };
  if (start.kind === "none") {
    const plan = planResume({ ...rest, from: null, findings: [], accepted: {} });
    return { run, findings: [], plan, checkpoint: null, current, top };
  }
  const { checkpoint } = start;
  // A run that is done stands at its newest checkpoint: whoever names that one does not go back.
  const stays = run.state.kind === "done" && !force && chosen === top;
  const from: ResumeFrom = stays ? { kind: "newest" } : start.from;
  // A run that stays ended is not looked at: the world went on without it.
  const looks = !ended || (force && from.kind === "chosen");
  // Newer ones that are damaged are set aside as for any other resume: what goes on needs to read the newest.
  const newest = from.kind === "chosen" ? await findStart({ parts, run: run.id }) : undefined;
  const known = newest?.kind === "found" ? { newest: newest.checkpoint } : {};
  const seen = looks ? await observeWorld({ parts, run, checkpoint, current, ...known }) : [];
  const damage = looks && newest?.kind === "found" ? newest.findings : [];
  const freshness = params.freshness ?? null;
  const { position, context } = checkpoint.planes;
  const standing = { position, values: context.values };
  const findings = [...start.findings, ...damage, ...seen].filter(
    (finding) => freshness?.isOwn(finding, standing) !== true,
  );
  const accepted = readAccepted(checkpoint.planes.extensions);
  const verdictOf = (finding: Finding): Verdict | null => freshness?.judge(finding, standing) ?? null;
  const plan = planResume({ ...rest, from, findings, accepted, verdictOf });
  const led = reopened(followed(plan, { freshness, checkpoint, current }), freshness, standing);
  return { run, findings, plan: led, checkpoint, current, top };
}

/** A run that is taken up after its end may go on with other values than the checkpoint's, or the next thing to do would be to end again. */
function reopened(plan: ResumePlan, freshness: Freshness | null, standing: Standing): ResumePlan {
  if (plan.kind !== "resume" && plan.kind !== "warn") return plan;
  if (!plan.actions.some((action) => action.kind === "go_back" && action.reopens)) return plan;
  const other = freshness?.reopen?.(standing) ?? null;
  if (other === null) return plan;
  const { values, enters, why } = other;
  const changed: ResumeAction = { kind: "change_values", values, why };
  if (enters === null) return { ...plan, actions: [...plan.actions, changed] };
  const next = `It goes on with ${enters.stage}, iteration ${enters.iteration}.`;
  return { ...plan, actions: [...plan.actions, changed, { kind: "move_stage", ...enters, why: next }] };
}

/** Where the issue was moved to another stage, the run goes there: once the issue as it is now is taken over. */
function followed(
  plan: ResumePlan,
  params: { readonly freshness: Freshness | null; readonly checkpoint: Checkpoint; readonly current: Setting },
): ResumePlan {
  const { freshness, current } = params;
  if (freshness === null || (plan.kind !== "resume" && plan.kind !== "warn")) return plan;
  // Whoever goes back to an older checkpoint goes there, whatever label the run itself has set since.
  if (plan.actions.some(({ kind }) => kind === "go_back")) return plan;
  const at = plan.actions.findIndex((action) => action.kind === "take_issue" && action.change.labels !== undefined);
  if (at === -1) return plan;
  const planes = adoptWorld({ planes: params.checkpoint.planes, actions: plan.actions, current });
  const { position, context } = params.checkpoint.planes;
  const move = freshness.relocate(planes.inputs.issue?.labels ?? [], { position, values: context.values });
  if (move === null) return plan;
  return { ...plan, actions: plan.actions.toSpliced(at + 1, 0, { kind: "move_stage", ...move }) };
}

/**
 * Performs what was planned, under the run's lease, when every process that worked on the run is gone. CONFLICT when somebody carried
 * the run on since it was planned: what was found then does not count any more.
 */
export async function applyTakeUp(params: {
  readonly parts: WorkParts;
  readonly lease: Lease;
  readonly planned: TakeUpPlan;
}): Promise<ResumeReport> {
  const { parts, lease, planned } = params;
  const { run, plan, checkpoint, current } = planned;
  if (checkpoint === null) return { workspace: undefined, checkpoint: null };
  if ((await topOf(parts, run.id)) !== planned.top) {
    throw new HoldfastError({
      code: "CONFLICT",
      message: `Run ${run.id} was carried on by another process after this resume was planned`,
      hint: "Resume it again; nothing was changed.",
      retry: "later",
    });
  }
  await parts.commands.endMarked(runMark(parts, run.id));
  const note = await clearStaleLocks(parts, run.id, checkpoint.planes.files);
  if (note !== null) await parts.store.commit({ lease, entries: [{ kind: "note", body: { text: note } }] });
  const report = await applyResume({ parts, lease, run, plan, checkpoint, current });
  if (note === null) return report;
  return { ...report, steps: [{ step: "resume", outcome: "done", text: note }, ...(report.steps ?? [])] };
}

/**
 * Removes the git locks of processes that were killed, and returns a text that names them; null when there are none. The caller
 * holds the lease and has ended every process of the run, so a lock in its own worktree or on its branch has no owner.
 */
export async function clearStaleLocks(
  parts: Pick<WorkParts, "workspaces">,
  run: string,
  files: FilesPlane | null,
): Promise<string | null> {
  const removed = (await parts.workspaces?.clearLocks({ run, branch: files?.branch ?? null })) ?? [];
  if (removed.length === 0) return null;
  return `Removed ${removed.length === 1 ? "a stale git lock" : `${removed.length} stale git locks`} of a process that was killed: ${removed.join(", ")}`;
}

async function topOf(parts: WorkParts, run: string): Promise<number> {
  const [top] = await parts.store.listCheckpoints({ run, limit: 1 });
  return top?.sequence ?? 0;
}

async function findRun(params: TakeUpParams): Promise<RunSummary> {
  const run = await params.parts.store.getRun(params.run);
  if (run !== undefined) return run;
  throw new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: `There is no run "${params.run}"`,
    hint: "See `holdfast list` for the runs there are.",
  });
}
