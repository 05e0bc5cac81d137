// The ralph workflow as a plug-in: created from options, continued from an imported checkpoint, and given more iterations.

import { HoldfastError } from "@holdfast/platform/error";
import { type ChangeLimit, type WorkflowPlugin, importWithoutAgent, namedRoles } from "../plugin.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import { ralphOptionsJson, parseRalphOptions } from "./options.ts";
import { ralphWorkflow } from "./workflow.ts";

export const ralphPlugin: WorkflowPlugin = {
  name: "ralph",
  create(given, adapters) {
    const options = parseRalphOptions(given);
    return { workflow: ralphWorkflow(options, adapters), options: ralphOptionsJson(options) };
  },
  roles: ({ model }, own) => namedRoles({ agent: model ?? own }),
  withAgent: (options) => ({ ...options, model: null }),
  limits: { max: (params) => changeIterations(params) },
  async follow({ layout: settings, ...followed }) {
    if (!settings.mirror) return null;
    const { mirrorLoopLayout } = await import("./layout-upkeep.ts");
    return await mirrorLoopLayout({ ...followed, settings });
  },
  /** Uses the loop's own options and state, which Holdfast wrote. Uncommitted work of the original worktree is not in a new one. */
  adopt({ adapters, run, checkpoint, agent: given }) {
    const { config, context } = checkpoint.planes;
    const stored =
      config.agent === null ? null : [config.agent, config.model].filter((part) => part !== null).join(":");
    const options = parseRalphOptions(config.inputs);
    const agent = given ?? stored;
    if (agent === null && options.model === null) throw importWithoutAgent(run);
    return {
      workflow: ralphWorkflow(options, adapters),
      options: ralphOptionsJson(options),
      agent,
      base: options.baseBranch,
      async prepare(root) {
        await adapters.outputs(root).hide(OUTPUT_DIRECTORY);
        return { values: context.values, inputs: {} };
      },
    };
  },
};

/** Sets the total number of iterations. A loop that stopped at its limit then continues. */
const changeIterations: ChangeLimit = ({ run, planes, value }) => {
  const { config, position } = planes;
  const options = parseRalphOptions(config.inputs);
  const { maxIterations: max } = parseRalphOptions({ ...config.inputs, maxIterations: value });
  const atLimit = run.state.kind === "failed" && position.stage === "limit";
  if (max <= position.iteration && (atLimit || max < position.iteration))
    throw new HoldfastError({
      code: "USAGE",
      message: `Run ${run.id} is at iteration ${position.iteration} already, so a total of ${max} allows no more`,
      hint: `Give a number above ${position.iteration}.`,
    });
  if (max === options.maxIterations && !atLimit) return null;
  return {
    options: ralphOptionsJson({ ...options, maxIterations: max }),
    continuesAt: atLimit ? { stage: "iterate", iteration: position.iteration + 1 } : null,
    reason: `The limit is ${max} iterations in total instead of ${options.maxIterations}`,
  };
};
