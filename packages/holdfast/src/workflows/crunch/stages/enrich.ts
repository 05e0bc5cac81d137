import type { CrunchState } from "../../../core/crunch/crunch-state.ts";
import { parsePhase } from "../../../core/crunch/phase.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { conclude, fail } from "../conclude.ts";
import { enterPhase, findPlace } from "../enter-phase.ts";
import { runPhase } from "../phase/run-phase.ts";
import { entryAt, planEntry } from "../plan-entry.ts";
import type { EntryPlan, SettledEntry } from "../plan-entry.ts";
import { setUp } from "../setup.ts";
import { requireSetup } from "../work.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";

/** The issue as it is becomes one that can be implemented: a team looks at it from all sides and writes down what is to be done. */
export async function enrichStage(work: CrunchWork, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  const setup = await setUp(work, context, place);
  if (setup.kind === "impossible") return fail(setup.reason);
  const { issue, base } = requireSetup(context);
  const inputs = { inputs: { issue, base: base.commit } };
  const done = (reason: string) => ({
    ...conclude(work.options, { stage: "enrich", event: "enriched", reason }),
    ...inputs,
  });
  const plan = await settleEntry(context, planEntry(issue));
  if (plan.kind === "over") return { ...fail(plan.reason), ...inputs };
  if (plan.kind === "enriched") return done(`Issue #${issue.number} is at ${plan.phase} by its label`);
  await enterPhase(work, context, { place, phase: "enrich" });
  const end = await runPhase(work, context, { phase: "enrich", place });
  if (end.kind === "given_up") return { ...fail(end.reason), ...inputs };
  return done(`Issue #${issue.number} is enriched${end.remark}`);
}

async function settleEntry(context: CrunchContext, plan: EntryPlan): Promise<SettledEntry> {
  if (plan.kind !== "ask") return plan;
  const { issue } = requireSetup(context);
  const answer = await context.decide({
    name: "which-phase",
    question: `Issue #${issue.number} carries labels of several phases: ${plan.phases.join(", ")}. Where does it stand?`,
    options: plan.phases,
  });
  return entryAt(issue.number, parsePhase(answer) ?? "enrich");
}
