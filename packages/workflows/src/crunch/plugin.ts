// The crunch workflow as a plug-in: created from options, continued from an imported checkpoint, and given a later target.

import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import { usageError } from "@holdfast/platform/error";
import {
  type ChangeLimit,
  type WorkflowPlugin,
  importWithoutAgent,
  importedIssueNumber,
  namedRoles,
} from "../plugin.ts";
import { crunchOptionsJson, isCrunchStage, parseCrunchOptions, stageAfter } from "./options.ts";
import { lastCompletedPhase } from "./phase-steps.ts";
import { isAtOrPast } from "./phases.ts";
import { adoptCrunchState, crunchWorkflow } from "./workflow.ts";

export const crunchPlugin: WorkflowPlugin = {
  name: "crunch",
  create(given, adapters) {
    const options = parseCrunchOptions(given);
    return { workflow: crunchWorkflow(options, adapters), options: crunchOptionsJson(options) };
  },
  roles(options, own) {
    const models = objectIn(options["models"]);
    const members = Object.entries(teamOf(options)).map(([member, value]) => {
      const { role, agent } = objectIn(value);
      return [member, models[member] ?? models[String(role)] ?? agent ?? own] as const;
    });
    return namedRoles(Object.fromEntries(members));
  },
  // A run keeps its team's profiles in its state, and an agent by name takes precedence over them.
  withAgent: (options, agent) => ({
    ...options,
    models: Object.fromEntries(Object.keys(teamOf(options)).map((name) => [name, agent])),
  }),
  limits: { target: (params) => changeTarget(params) },
  /** Uses the default options, and the team's rules that the run began with. */
  adopt({ adapters, run, checkpoint, agent }) {
    const issue = importedIssueNumber(run, "crunch", "issue_number");
    if (agent === null) throw importWithoutAgent(run);
    const { planes } = checkpoint;
    const { settings } = planes.context.values;
    const options = parseCrunchOptions(settings === undefined ? {} : { settings });
    return {
      workflow: crunchWorkflow(options, adapters),
      options: crunchOptionsJson(options),
      agent,
      base: options.baseBranch,
      async prepare(root) {
        const state = await adoptCrunchState({ adapters, options, planes, issue, root });
        return {
          values: state,
          inputs: { issue: planes.inputs.issue ?? state.issue, base: state.base?.commit ?? null },
        };
      },
    };
  },
};

/** Sets another target phase. A run that stopped at its target continues at the following phase. */
const changeTarget: ChangeLimit = ({ run, planes, value }) => {
  const { config, position, context } = planes;
  const options = parseCrunchOptions(config.inputs);
  const { target } = parseCrunchOptions({ ...config.inputs, target: value });
  if (target === options.target) return null;
  const stopped = position.stage === "stopped" ? lastCompletedPhase(context.values) : null;
  const at = stopped ?? (isCrunchStage(position.stage) ? position.stage : null);
  if (at !== null && at !== target && isAtOrPast(at, target))
    throw usageError(
      `Run ${run.id} is at ${at} already, which is past ${target}`,
      `To go back to an earlier state: \`holdfast resume ${run.id}@SEQUENCE --force\`; see \`holdfast list ${run.id}\`.`,
    );
  return {
    options: crunchOptionsJson({ ...options, target }),
    continuesAt: stopped === null ? null : entryOf(stageAfter(stopped), position.iteration),
    reason: `The target is ${target} instead of ${options.target}`,
  };
};

function entryOf(stage: string, iteration: number): { readonly stage: string; readonly iteration: number } {
  return { stage, iteration: stage === "implementing" ? iteration + 1 : iteration };
}

/** The profiles of the team by name, from options that may be incomplete. */
function teamOf(options: JsonObject): JsonObject {
  return objectIn(objectIn(options["settings"])["agents"]);
}

function objectIn(value: Json | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}
