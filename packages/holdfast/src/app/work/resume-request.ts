import { splitAgent } from "../../core/agent/agent-names.ts";
import type { ExecutionConfig } from "../../core/checkpoint/checkpoint.ts";
import { isJsonObject } from "../../core/json.ts";
import type { JsonObject } from "../../core/json.ts";
import { notBegun } from "../../core/refusals.ts";
import { newestWhole } from "../../engine/conduct/newest-whole.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { anyWorkflow, isOwnWorkflow, ownWorkflow } from "./choose-workflow.ts";
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
  const ours = run !== undefined && isOwnWorkflow(run.workflow) && params.workflow === undefined;
  const config = withAgent(saved, params.agent, ours);
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

/** Another agent takes every role: those that the options of one of our workflows name are replaced too. */
function withAgent(
  config: ExecutionConfig | undefined,
  named: string | undefined,
  ours: boolean,
): ExecutionConfig | undefined {
  if (config === undefined || named === undefined) return config;
  const { provider: agent, model } = splitAgent(named);
  return { ...config, agent, model, inputs: ours ? replaceAgents(config.inputs, named) : config.inputs };
}

function replaceAgents(inputs: JsonObject, named: string): JsonObject {
  const roles = ["implModel", "reviewModel", "model"].filter((role) => typeof inputs[role] === "string");
  const cleared = Object.fromEntries(roles.map((role) => [role, null]));
  if (!isJsonObject(inputs["models"])) return { ...inputs, ...cleared };
  // A crunch run keeps its team's profiles in its state, where an agent by name beats them.
  const settings = isJsonObject(inputs["settings"]) ? inputs["settings"] : {};
  const team = isJsonObject(settings["agents"]) ? Object.keys(settings["agents"]) : [];
  return { ...inputs, ...cleared, models: Object.fromEntries(team.map((name) => [name, named])) };
}
