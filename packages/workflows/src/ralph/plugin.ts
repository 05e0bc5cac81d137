// The ralph workflow as a plug-in: created from options, continued from an imported checkpoint, and given more iterations.

import type { OptionsChange } from "@holdfast/core/control-run";
import { type JsonObject, isJsonArray } from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import type { RunSummary } from "@holdfast/core/run";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type ChangeLimit, type StageEntry, type WorkflowPlugin, importWithoutAgent, namedRoles } from "../plugin.ts";
import { loadTemplates } from "../prompts.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import { readImportedLoop } from "./imported-loop.ts";
import { writerOf } from "./loop-checkpoint.ts";
import { RALPH_PROMPTS, type RalphOptions, WORKFLOW_TYPES, parseRalphOptions, ralphOptionsJson } from "./options.ts";
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
  limits: { max: (params) => changeIterations(params), until: (params) => changeCriterion(params) },
  /** A document of ours has one of the workflow's stages and its complete state and options. */
  recognize(checkpoint, isNewest) {
    const { position, context, config } = checkpoint.planes;
    if (!WORKFLOW_TYPES.some((type) => type === checkpoint.workflow)) return null;
    if (!RALPH_SHAPE.stages.includes(position.stage)) return readImportedLoop(checkpoint, isNewest);
    try {
      parseRalphState(context.values);
      return { work: { kind: "task", text: parseRalphOptions(config.inputs).task }, planes: checkpoint.planes };
    } catch (error) {
      if (error instanceof HoldfastError) return readImportedLoop(checkpoint, isNewest);
      throw error;
    }
  },
  writtenBy: writerOf,
  /**
   * Uses the loop's own options and state. A document of another tool has only some options; the rest are those of the
   * settings. Uncommitted work of the original worktree is not in a new one.
   */
  adopt({ adapters, run, checkpoint, agent: given, options: settings, limits }) {
    const { config, context, position } = checkpoint.planes;
    const stored =
      config.agent === null ? null : [config.agent, config.model].filter((part) => part !== null).join(":");
    const { max, until = null } = limits;
    const inputs: JsonObject = { ...settings, ...config.inputs, ...(until === null ? {} : { until }) };
    const checks = inputs["until"] ?? [];
    if (inputs["workflowType"] === "ralph_loop" && isJsonArray(checks) && checks.length === 0)
      throw importWithoutCheck(run);
    const planes = { ...checkpoint.planes, config: { ...config, inputs } };
    const raised = max === undefined ? null : changeIterations({ run, planes, value: max });
    const options = parseRalphOptions(raised?.options ?? inputs);
    const agent = given ?? stored;
    if (agent === null && options.model === null) throw importWithoutAgent(run);
    const state = parseRalphState(context.values);
    const enters = entryOf(position, state, raised);
    if (enters.stage === "begin" && enters.iteration >= options.maxIterations) throw importAtLimit(run, options);
    return {
      workflow: ralphWorkflow(options, adapters),
      options: ralphOptionsJson(options),
      agent,
      base: options.baseBranch,
      enters,
      reopens: raised !== null && raised.continuesAt !== null,
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

/**
 * The document at the end of an iteration names that iteration, and the run continues with the next one. A loop that
 * has no id here has not begun here: it begins, which counts no iteration, wherever it stood.
 */
function entryOf(
  { stage, iteration }: Position,
  { iterations, loopId }: RalphState,
  raised: OptionsChange | null,
): StageEntry {
  if (loopId === null) return { stage: "begin", iteration };
  if (raised !== null && raised.continuesAt !== null) return raised.continuesAt;
  const ended = stage === "iterate" && iterations.at(-1)?.number === iteration;
  return { stage, iteration: ended ? iteration + 1 : iteration };
}

function importWithoutCheck({ id }: Pick<RunSummary, "id">): HoldfastError {
  return usageError(
    `Imported run ${id} names no check, and a loop needs one`,
    `Give the command that succeeds when the work is done: \`holdfast resume ${id} --until "npm test"\`, or \`ralph.until\` in holdfast.config.yaml.`,
  );
}

function importAtLimit({ id }: Pick<RunSummary, "id">, { maxIterations }: RalphOptions): HoldfastError {
  return usageError(
    `Imported run ${id} has used all of its ${maxIterations} iterations`,
    `Allow more: \`holdfast resume ${id} --max N\`.`,
  );
}

/** Sets the check commands. Only the next checks use them. */
const changeCriterion: ChangeLimit = ({ planes, value }) => {
  const before = parseRalphOptions(planes.config.inputs);
  const after = parseRalphOptions({ ...planes.config.inputs, until: value });
  const said = ({ until }: RalphOptions): string => until.map(({ command }) => command).join(" && ");
  if (said(before) === said(after)) return null;
  return {
    options: ralphOptionsJson(after),
    continuesAt: null,
    reason: `The check is ${said(after)} instead of ${said(before)}`,
  };
};

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
