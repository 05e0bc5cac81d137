import type { ExecutionConfig } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import { defaultFindingPolicy } from "../../core/resume/finding.ts";
import type { Finding } from "../../core/resume/finding.ts";
import { isJsonObject } from "../../core/json.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Budget } from "../../core/position/position.ts";
import type { RestoreStep } from "../../core/resume/restore-step.ts";
import type { Answers, ResumePlan } from "../../core/resume/resume.ts";
import { raiseLimits } from "../../engine/conduct/answer.ts";
import { checkAsleep, conduct } from "../../engine/conduct/conduct.ts";
import type { Workflow } from "../../engine/definition.ts";
import { holdLease } from "../../engine/lease/hold-lease.ts";
import type { RunOutcome } from "../../engine/outcome.ts";
import { applyTakeUp, planTakeUp } from "../../engine/resume/resume-run.ts";
import type { TakeUpPlan } from "../../engine/resume/resume-run.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import type { Watching, WorkReport } from "./start-run.ts";
import { withSlot } from "./with-slot.ts";

export interface ResumeRequest<S extends JsonObject> {
  readonly run: string;
  readonly workflow: Workflow<S>;
  /** What would carry it on. */
  readonly config: ExecutionConfig;
  readonly answers: Answers;
  /** Sequence of a checkpoint to go back to. */
  readonly from: number | undefined;
  readonly force: boolean;
  readonly limit: Partial<Budget["limit"]>;
  /** See ConductParams. */
  readonly wakes?: string;
}

/** The pre-flight. Changes nothing (a fetch apart). */
export async function planResumeRun<S extends JsonObject>(
  parts: WorkParts,
  request: ResumeRequest<S>,
): Promise<TakeUpPlan> {
  const { run, workflow, config, answers, force, from } = request;
  return await planTakeUp({
    parts,
    run,
    current: { definition: workflow.definition, config },
    policy: defaultFindingPolicy,
    freshness: workflow.freshness,
    answers,
    force,
    ...(from === undefined ? {} : { chosen: from }),
  });
}

/**
 * Does what was planned, then carries the run on. What stands in the way is an error; a question is an outcome. Who had to wait for a place looks `again`: by
 * then the issue, the branch and the files may be others than those that were planned for.
 */
export async function resumeRun<S extends JsonObject>(
  parts: WorkParts,
  request: ResumeRequest<S>,
  { planned, again }: { readonly planned: TakeUpPlan; readonly again: () => Promise<TakeUpPlan> },
  watching: Watching,
): Promise<WorkReport> {
  const { run, wakes } = request;
  checkAsleep(planned.run, wakes);
  refuseStanding(run, planned);
  // One that has come to its end, or needs a decision first, takes nobody's place.
  return await withSlot(parts, run, outcomeOf(planned) === null ? watching.slot : null, async ({ waited }) => {
    if (!waited) return await carryOn(parts, request, planned, watching);
    const now = await again();
    return await carryOn(parts, request, now, watching, planned.findings);
  });
}

/** With a place, where it needs one. */
export async function carryOn<S extends JsonObject>(
  parts: WorkParts,
  request: ResumeRequest<S>,
  planned: TakeUpPlan,
  watching: Omit<Watching, "slot">,
  told: readonly Finding[] = planned.findings,
): Promise<WorkReport> {
  const { run, workflow, limit, wakes } = request;
  const known = new Set(told.map(({ summary }) => summary));
  for (const { summary } of planned.findings) if (!known.has(summary)) tell(parts, run, watching, summary);
  refuseStanding(run, planned);
  for (const { step, outcome, text } of await apply(parts, planned))
    if (outcome !== "skipped") tell(parts, run, watching, `restore, ${step}: ${text}`);
  const waiting = await parkOnForge(parts, planned);
  if (waiting !== null) return { run, outcome: waiting };
  const ended = outcomeOf(planned);
  if (ended !== null) return { run, outcome: ended };
  if (Object.keys(limit).length > 0) await raiseLimits({ parts, run, limit });
  const outcome = await conduct({
    parts,
    run,
    workflow,
    signal: watching.signal,
    ...(watching.listen === undefined ? {} : { listen: watching.listen }),
    ...(watching.sessionMs === undefined ? {} : { sessionMs: watching.sessionMs }),
    ...(wakes === undefined ? {} : { wakes }),
  });
  return { run, outcome };
}

/**
 * A resume that is kept only by a forge that does not answer for now waits for it, on record, so that `--wait` and supervisors try again. null: it is not
 * that, or a question to the user is open, which a new wait would replace.
 */
async function parkOnForge(parts: WorkParts, { run, plan }: TakeUpPlan): Promise<RunOutcome | null> {
  const { state } = run;
  if (plan.kind !== "ask" || (state.kind === "parked" && state.decision !== undefined)) return null;
  const asked = plan.judgements.filter(({ verdict }) => verdict === "ask").map(({ finding }) => finding);
  const waits = asked.map(({ kind, actual }) => (kind === "forge_unreachable" && isJsonObject(actual) ? actual : null));
  const [first] = waits;
  if (first === undefined || first === null || waits.includes(null)) return null;
  // A longer wait for something else stays: after the shorter one the run would continue too early.
  if (state.kind === "parked" && state.on !== "forge" && Date.parse(state.until ?? "") > parts.clock.now()) {
    const { on, reason, until } = state;
    return { kind: "parked", on, reason, until };
  }
  const until =
    typeof first["until"] === "string" ? first["until"] : new Date(parts.clock.now() + ASK_AGAIN_MS).toISOString();
  const body = {
    on: "forge",
    reason: typeof first["reason"] === "string" ? first["reason"] : plan.why,
    until,
  } as const;
  await using lease = await holdLease(parts, run.id);
  await parts.store.commit({ lease: lease.lease, entries: [{ kind: "run.parked", body }] });
  return { kind: "parked", ...body };
}

/** When a forge that names no time is asked again. */
const ASK_AGAIN_MS = 15_000;

function tell(parts: WorkParts, run: string, { listen }: Pick<Watching, "listen">, text: string): void {
  listen?.({ run, at: new Date(parts.clock.now()).toISOString(), kind: "note", text });
}

/** What keeps a run from going on before anything is done about it: an error, or a question as its outcome. null: nothing. */
export function stopOf(planned: TakeUpPlan): WorkReport | null {
  const run = planned.run.id;
  refuseStanding(run, planned);
  const outcome = planned.plan.kind === "ask" ? outcomeOf(planned) : null;
  return outcome === null ? null : { run, outcome };
}

async function apply(parts: WorkParts, planned: TakeUpPlan): Promise<readonly RestoreStep[]> {
  const { plan } = planned;
  if (plan.kind === "nothing" || plan.kind === "refuse") return [];
  if (plan.actions.length === 0 && plan.judgements.length === 0) return [];
  await using lease = await holdLease(parts, planned.run.id);
  return (await applyTakeUp({ parts, lease: lease.lease, planned })).steps ?? [];
}

/** null: it goes on. */
function outcomeOf({ plan, findings }: TakeUpPlan): RunOutcome | null {
  switch (plan.kind) {
    case "ask":
      return {
        kind: "ask",
        findings: plan.judgements.filter(({ verdict }) => verdict === "ask").map(({ finding }) => finding),
      };
    case "done":
      return { kind: "done", reason: plan.why };
    case "nothing":
    case "refuse":
      return { kind: "ask", findings };
    case "resume":
    case "warn":
      return null;
  }
}

function refuseStanding(run: string, planned: TakeUpPlan): void {
  const { plan } = planned;
  if (plan.kind === "nothing" || plan.kind === "refuse") throw refusal(run, planned, plan);
}

function refusal(
  run: string,
  planned: TakeUpPlan,
  plan: Extract<ResumePlan, { readonly kind: "nothing" | "refuse" }>,
): HoldfastError {
  const { why: message } = plan;
  const hint = endedLoopHint(planned) ?? plan.hint;
  const data = { run, findings: planned.findings };
  if (plan.kind === "nothing") return new HoldfastError({ code: "NOTHING_TO_RESUME", message, hint, data });
  const kinds = planned.findings.map(({ kind }) => kind);
  const code =
    planned.run.state.kind === "fatal" && planned.findings.length === 0
      ? "RUN_FATAL"
      : kinds.includes("lease_held")
        ? "LEASE_HELD"
        : kinds.includes("tree_missing")
          ? "TREE_MISSING"
          : "NEEDS_DECISION";
  return new HoldfastError({ code, message, hint, retry: "ask", data });
}

/** A loop that went round as often as it was to is resumed with more of the same, one that gave up by letting it go on. null: no such loop. */
function endedLoopHint({ run }: TakeUpPlan): string | null {
  if (run.workflow !== "ralph" || run.state.kind !== "fatal") return null;
  if (run.latest?.stage === "limit") return `Allow more: \`holdfast resume ${run.id} --max N\`.`;
  if (run.latest?.stage !== "fatal") return null;
  return `Let it go on all the same: \`holdfast resume ${run.id}@latest --force\`; an older checkpoint of \`holdfast list ${run.id}\` in place of latest goes back to it first. Where its iterations are used up too, add \`--max N\`.`;
}
