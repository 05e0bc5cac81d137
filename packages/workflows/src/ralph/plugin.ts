// The ralph workflow as a plug-in: created from options, continued from an imported checkpoint, and given more iterations.

import type { Position } from "@holdfast/core/position";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type ChangeLimit, type StageEntry, type WorkflowPlugin, importWithoutAgent, namedRoles } from "../plugin.ts";
import { loadTemplates } from "../prompts.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import { writerOf } from "./loop-checkpoint.ts";
import { RALPH_PROMPTS, WORKFLOW_TYPES, parseRalphOptions, ralphOptionsJson } from "./options.ts";
import { type RalphState, parseRalphState } from "./state.ts";
import { RALPH_SHAPE, ralphWorkflow } from "./workflow.ts";

export const ralphPlugin: WorkflowPlugin = {
  name: "ralph",
  prompts: RALPH_PROMPTS,
  create(given, adapters) {
    const options = parseRalphOptions(given);
    return { workflow: ralphWorkflow(options, adapters), options: ralphOptionsJson(options) };
  },
  roles: ({ model }, own) => namedRoles({ agent: model ?? own }),
  withAgent: (options) => ({ ...options, model: null }),
  limits: { max: (params) => changeIterations(params) },
  /** The document has one of the workflow's stages and its complete state and options. */
  recognize({ workflow, planes }) {
    const { position, context, config } = planes;
    if (!WORKFLOW_TYPES.some((type) => type === workflow) || !RALPH_SHAPE.stages.includes(position.stage)) return null;
    try {
      parseRalphState(context.values);
      return { kind: "task", text: parseRalphOptions(config.inputs).task };
    } catch (error) {
      if (error instanceof HoldfastError) return null;
      throw error;
    }
  },
  writtenBy: writerOf,
  /** Uses the loop's own options and state, which Holdfast wrote. Uncommitted work of the original worktree is not in a new one. */
  adopt({ adapters, run, checkpoint, agent: given, limits }) {
    const { planes } = checkpoint;
    const { config, context } = planes;
    const stored =
      config.agent === null ? null : [config.agent, config.model].filter((part) => part !== null).join(":");
    const { max } = limits;
    const raised = max === undefined ? null : changeIterations({ run, planes, value: max });
    const options = parseRalphOptions(raised?.options ?? config.inputs);
    const agent = given ?? stored;
    if (agent === null && options.model === null) throw importWithoutAgent(run);
    return {
      workflow: ralphWorkflow(options, adapters),
      options: ralphOptionsJson(options),
      agent,
      base: options.baseBranch,
      enters: raised?.continuesAt ?? entryOf(planes.position, parseRalphState(context.values)),
      async prepare(root) {
        const outputs = adapters.outputs(root);
        await outputs.hide(OUTPUT_DIRECTORY);
        // A document must not choose the words of the prompts.
        const templates = await loadTemplates(RALPH_PROMPTS, options.prompts, outputs);
        return { values: { ...context.values, templates }, inputs: {} };
      },
    };
  },
};

/** The document at the end of an iteration names that iteration, and the run continues with the next one. */
function entryOf({ stage, iteration }: Position, { iterations }: RalphState): StageEntry {
  const ended = stage === "iterate" && iterations.at(-1)?.number === iteration;
  return { stage, iteration: ended ? iteration + 1 : iteration };
}

/** Sets the total number of iterations. A loop that stopped at its limit then continues. */
const changeIterations: ChangeLimit = ({ run, planes, value }) => {
  const { config, position } = planes;
  const options = parseRalphOptions(config.inputs);
  const { maxIterations: max } = parseRalphOptions({ ...config.inputs, maxIterations: value });
  const atLimit = run.state.kind === "failed" && position.stage === "limit";
  if (max <= position.iteration && (atLimit || max < position.iteration))
    throw usageError(
      `Run ${run.id} is at iteration ${position.iteration} already, so a total of ${max} allows no more`,
      `Give a number above ${position.iteration}.`,
    );
  if (max === options.maxIterations && !atLimit) return null;
  return {
    options: ralphOptionsJson({ ...options, maxIterations: max }),
    continuesAt: atLimit ? { stage: "iterate", iteration: position.iteration + 1 } : null,
    reason: `The limit is ${max} iterations in total instead of ${options.maxIterations}`,
  };
};
