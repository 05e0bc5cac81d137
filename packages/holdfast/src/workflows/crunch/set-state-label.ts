import { phaseOfLabels, replaceStateLabel, stateLabel } from "../../core/crunch/labels.ts";
import type { Phase } from "../../core/crunch/phase.ts";
import type { Lookup } from "../../core/effect/effect-decision.ts";
import { HoldfastError } from "../../core/error.ts";
import type { EffectOutcome } from "../../engine/stage-context.ts";
import type { Forge } from "../../ports/forge.ts";
import type { AnyContext } from "../any-context.ts";
import { parkOnce } from "../publish/park-once.ts";

/** Kind of the effect. */
export const STATE_LABEL = "state_label";

type Receipt = { readonly labels: readonly string[] };

/**
 * Exactly one state label, this phase's. The labels are read right before they are written, so what others changed meanwhile stays; one that
 * is right already is adopted and nothing is written.
 */
export async function setStateLabel(
  context: AnyContext,
  forge: Forge,
  params: { readonly issue: number; readonly phase: Phase },
): Promise<void> {
  const { issue, phase } = params;
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await context.effect<Receipt>({
      purpose: attempt === 1 ? "state-label" : `state-label-${attempt}`,
      kind: STATE_LABEL,
      target: `${forge.name} #${issue}`,
      payload: { label: stateLabel(phase) },
      lookUp: () => lookUp(forge, params),
      lateMs: forge.lateMs,
      act: () => replace(forge, params),
    });
    if (outcome.kind === "done") return;
    const reason = `The label ${stateLabel(phase) ?? "of no phase"} could not be put on issue ${issue}: ${outcome.reason}. Put that right, then resume.`;
    await parkOnce(context, { name: `state-label-parked-${attempt}`, on: "person", reason });
  }
}

async function lookUp(
  forge: Forge,
  { issue, phase }: { readonly issue: number; readonly phase: Phase },
): Promise<Lookup> {
  const found = await forge.getIssue(issue);
  if (found === null) return { kind: "unknown", reason: `issue ${issue} is not at ${forge.location} any more` };
  const labelled = phaseOfLabels(found.labels);
  const isRight = labelled.kind === "phase" && labelled.label === stateLabel(phase);
  return isRight ? { kind: "present", receipt: { labels: [...found.labels] } } : { kind: "absent" };
}

async function replace(
  forge: Forge,
  { issue, phase }: { readonly issue: number; readonly phase: Phase },
): Promise<EffectOutcome<Receipt>> {
  const found = await forge.getIssue(issue);
  if (found === null) return { kind: "failed", reason: "the issue is not there any more", detail: null };
  const labels = replaceStateLabel(found.labels, phase);
  try {
    await forge.setLabels(issue, labels);
  } catch (error) {
    if (!(error instanceof HoldfastError) || (error.code !== "FORGE_REFUSED" && error.code !== "FORGE_DENIED"))
      throw error;
    return { kind: "failed", reason: error.message, detail: error.code };
  }
  return { kind: "done", receipt: { labels } };
}
