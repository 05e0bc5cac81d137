import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { defaultFindingPolicy } from "../../core/resume/finding.ts";
import type { JsonObject } from "../../core/json.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { planTakeUp } from "../../engine/resume/resume-run.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { checkAgents } from "./check-agents.ts";
import { anyWorkflow } from "./choose-workflow.ts";
import type { Adoption } from "../foreign/adopt-import.ts";
import { awaitsAdoption, checkStage, newPlaceNote, planNewPlace } from "../foreign/adopt-import.ts";
import { planAdoption } from "../foreign/plan-adoption.ts";
import type { Preflight, ResumeParams } from "./resume-params.ts";

/** A run that was imported and not yet carried on, with all that it needs for that; null: it is none. */
export async function pendingImport<S extends JsonObject>(
  parts: WorkParts,
  params: ResumeParams<S>,
): Promise<PendingImport | null> {
  const run = await parts.store.getRun(params.run);
  const checkpoint = run === undefined || params.from !== undefined ? null : await awaitsAdoption(parts, run);
  if (run === undefined || checkpoint === null) return null;
  const { adopt, workflow, agent } = params;
  const adoption = planAdoption(parts, run, checkpoint, {
    agent: agent ?? adopt?.agent ?? null,
    options: adopt?.options ?? {},
    workflow: workflow === undefined ? undefined : anyWorkflow(workflow),
  });
  checkStage(run, checkpoint, adoption.workflow);
  checkAgents(parts, agent ?? adopt?.agent ?? null, adoption.config.inputs);
  return { run, checkpoint, adoption };
}

export interface PendingImport {
  readonly run: RunSummary;
  readonly checkpoint: Checkpoint;
  readonly adoption: Adoption;
}

/** As it is now, before it is taken over: what carries it on is chosen then, so nothing about that can have changed. */
export async function planImported<S extends JsonObject>(
  parts: WorkParts,
  { run, checkpoint, adoption }: PendingImport,
  params: ResumeParams<S>,
): Promise<Preflight> {
  const { position, config } = checkpoint.planes;
  const place = await planNewPlace(parts, run, adoption.base);
  const notes = place === undefined || place === null ? [] : [newPlaceNote(checkpoint, place)];
  const planned = await planTakeUp({
    parts,
    run: run.id,
    current: { definition: position.definition, config },
    policy: defaultFindingPolicy,
    freshness: adoption.workflow.freshness,
    answers: params.answers ?? {},
    force: params.force ?? false,
  });
  return { ...planned, notes };
}
