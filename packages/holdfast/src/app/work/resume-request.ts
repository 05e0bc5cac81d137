import { splitAgent } from "../../core/agent/agent-names.ts";
import type { ExecutionConfig } from "../../core/checkpoint/checkpoint.ts";
import type { JsonObject } from "../../core/json.ts";
import { notBegun } from "../../core/refusals.ts";
import { newestWhole } from "../../engine/conduct/newest-whole.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { anyWorkflow, ownWorkflow } from "./choose-workflow.ts";
import { configOf } from "./plan-start.ts";
import type { ResumeParams } from "./resume-params.ts";
import type { ResumeRequest } from "./resume-run.ts";

/** What a run is carried on with: what it keeps, and what is said now. */
export async function resumeRequest<S extends JsonObject>(
  parts: WorkParts,
  params: ResumeParams<S>,
): Promise<ResumeRequest<JsonObject>> {
  const run = await parts.store.getRun(params.run);
  const saved = (await newestWhole(parts.store, params.run)).checkpoint?.planes.config;
  // Of its own options nothing is known yet: the workflow would blame what nobody left out.
  if (run !== undefined && run.latest === null && params.workflow === undefined) throw notBegun(run.id);
  const config = withAgent(saved, params.agent);
  const { answers = {}, from, force = false, limit = {}, workflow, wakes } = params;
  return {
    run: params.run,
    workflow: workflow === undefined ? ownWorkflow(parts, run, config?.inputs ?? {}) : anyWorkflow(workflow),
    config: config ?? configOf({ agent: null, options: {} }),
    answers,
    from,
    force,
    limit,
    ...(wakes === undefined ? {} : { wakes }),
  };
}

function withAgent(config: ExecutionConfig | undefined, named: string | undefined): ExecutionConfig | undefined {
  if (config === undefined || named === undefined) return config;
  const { provider: agent, model } = splitAgent(named);
  return { ...config, agent, model };
}
