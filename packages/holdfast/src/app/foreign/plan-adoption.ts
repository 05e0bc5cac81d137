import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { RunSummary } from "../../core/run/run.ts";
import type { Workflow } from "../../engine/definition.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { adoptCrunchState } from "../../workflows/crunch/adopt-state.ts";
import { crunchWorkflow } from "../../workflows/crunch/crunch-workflow.ts";
import { crunchOptionsJson, parseCrunchOptions } from "../../workflows/crunch/options.ts";
import { adoptImplState } from "../../workflows/impl/adopt-state.ts";
import { implWorkflow } from "../../workflows/impl/impl-workflow.ts";
import { implOptionsJson, parseImplOptions } from "../../workflows/impl/options.ts";
import { loopOptionsJson, parseLoopOptions } from "../../workflows/ralph/options.ts";
import { ralphWorkflow } from "../../workflows/ralph/ralph-workflow.ts";
import { OUTPUT_DIRECTORY } from "../../workflows/worktree.ts";
import { configOf } from "../work/plan-start.ts";
import type { Adoption } from "./adopt-import.ts";
import { importedOf } from "./imported.ts";

/** What an imported run is carried on with: its document says nothing of either. */
export interface AdoptParams {
  /** `provider:model`. */
  readonly agent: string | null;
  /** The workflow's own. */
  readonly options: JsonObject;
}

/** How an imported run goes on. Without a workflow of its name, an error that says what can be done with it. */
export function planAdoption(
  parts: WorkParts,
  run: RunSummary,
  checkpoint: Checkpoint,
  params: AdoptParams & { readonly workflow: Workflow<JsonObject> | undefined },
): Adoption {
  const { workflow, agent } = params;
  if (workflow !== undefined) {
    return {
      workflow,
      config: configOf({ agent, options: params.options }),
      base: null,
      prepare: async ({ planes }) => ({ values: planes.context.values, inputs: {} }),
    };
  }
  if (run.workflow === "ralph") return loopAdoption(parts, run, checkpoint, params);
  if (run.workflow === "crunch") return crunchAdoption(parts, run, checkpoint, params);
  if (run.workflow !== "impl") throw noWorkflow(run, checkpoint);
  return implAdoption(parts, run, checkpoint, params);
}

function implAdoption(parts: WorkParts, run: RunSummary, checkpoint: Checkpoint, params: AdoptParams): Adoption {
  const { work } = run;
  const { stage } = checkpoint.planes.position;
  if (work.kind !== "issue")
    throw new HoldfastError({
      code: "USAGE",
      message: `Imported run ${run.id} names no issue, and the impl workflow carries an issue to a pull request`,
      hint: `Give its document the number of the issue (issue_no) and import it again.`,
    });
  // A stage that the run stands at cannot be switched off under it.
  const given = {
    ...params.options,
    ...(stage === "review" ? { review: true } : {}),
    ...(stage === "simplify" ? { simplify: true } : {}),
    ...(stage === "ci" ? { waitForCi: true } : {}),
  };
  const { options } = parseImplOptions(given);
  if (params.agent === null && options.implModel === null)
    throw new HoldfastError({
      code: "USAGE",
      message: `Imported run ${run.id} names no agent that could go on with the work`,
      hint: "Name one with --agent (command:./my-agent), or as `agent:` in holdfast.config.yaml.",
    });
  const workflow = implWorkflow(options, parts);
  return {
    // It parses its own state: whoever holds it need not know its type.
    workflow: workflow as unknown as Workflow<JsonObject>,
    config: configOf({ agent: params.agent, options: implOptionsJson(options) }),
    base: options.baseBranch,
    async prepare({ planes }, workspace) {
      if (workspace === undefined) throw noRepository(run.id);
      const { values } = planes.context;
      const state = await adoptImplState({ parts, options, values, issue: work.number, root: workspace.root });
      const { issue, base } = state;
      return { values: state, inputs: { issue, base: base?.commit ?? null } };
    },
  };
}

/** With the options that crunch has by default: those of the config are impl's. The rules of the team are the ones that it began with. */
function crunchAdoption(parts: WorkParts, run: RunSummary, checkpoint: Checkpoint, params: AdoptParams): Adoption {
  const { work } = run;
  if (work.kind !== "issue")
    throw new HoldfastError({
      code: "USAGE",
      message: `Imported run ${run.id} names no issue, and the crunch workflow carries an issue from one state label to the next`,
      hint: "Give its document the number of the issue (issue_number) and import it again.",
    });
  if (params.agent === null)
    throw new HoldfastError({
      code: "USAGE",
      message: `Imported run ${run.id} names no agent that could go on with the work`,
      hint: "Name one with --agent (command:./my-agent), or as `agent:` in holdfast.config.yaml.",
    });
  const { settings } = checkpoint.planes.context.values;
  const options = parseCrunchOptions(settings === undefined ? {} : { settings });
  return {
    // As for impl.
    workflow: crunchWorkflow(options, parts) as unknown as Workflow<JsonObject>,
    config: configOf({ agent: params.agent, options: crunchOptionsJson(options) }),
    base: options.baseBranch,
    async prepare({ planes }, workspace) {
      if (workspace === undefined) throw noRepository(run.id);
      const found = { parts, options, planes, issue: work.number, root: workspace.root };
      const state = await adoptCrunchState(found);
      return { values: state, inputs: { issue: planes.inputs.issue ?? state.issue, base: state.base?.commit ?? null } };
    },
  };
}

/** With the options and the state that it had: Holdfast wrote both. What was never committed where it ran is not in a new worktree. */
function loopAdoption(parts: WorkParts, run: RunSummary, checkpoint: Checkpoint, params: AdoptParams): Adoption {
  const { config } = checkpoint.planes;
  const kept = config.agent === null ? null : [config.agent, config.model].filter((part) => part !== null).join(":");
  const options = parseLoopOptions(config.inputs);
  const agent = params.agent ?? kept;
  if (agent === null && options.model === null)
    throw new HoldfastError({
      code: "USAGE",
      message: `Imported run ${run.id} names no agent that could go on with the work`,
      hint: "Name one with --agent (command:./my-agent), or as `agent:` in holdfast.config.yaml.",
    });
  return {
    // As for impl.
    workflow: ralphWorkflow(options, parts) as unknown as Workflow<JsonObject>,
    config: { ...configOf({ agent, options: loopOptionsJson(options) }), mode: config.mode },
    base: options.baseBranch,
    async prepare({ planes }, workspace) {
      if (workspace === undefined) throw noRepository(run.id);
      await parts.outputs(workspace.root).hide(OUTPUT_DIRECTORY);
      return { values: planes.context.values, inputs: {} };
    },
  };
}

function noWorkflow(run: RunSummary, checkpoint: Checkpoint): HoldfastError {
  const { stage } = checkpoint.planes.position;
  const format = importedOf(checkpoint.planes)?.format ?? "its format";
  return new HoldfastError({
    code: "USAGE",
    message:
      stage === "none"
        ? `Run ${run.id} was imported from ${format}, which keeps values and no place in a workflow`
        : `Run ${run.id} was imported from ${format} and stands at "${stage}"; no workflow of Holdfast's own goes on from there`,
    hint: [
      `With a workflow of yours that has a stage "${stage}": \`holdfast resume ${run.id} --workflow FILE\`.`,
      `See it with \`holdfast show ${run.id}\`, give it back with \`holdfast export ${run.id} --to ${format}\`,`,
      `or go on saving by hand with \`holdfast checkpoint --run ${run.id}\`.`,
    ].join(" "),
    data: { run: run.id, format, stage },
  });
}

function noRepository(run: string): HoldfastError {
  return new HoldfastError({
    code: "NOT_A_REPOSITORY",
    message: `Imported run ${run} works on files, and there is no git repository here`,
    hint: "Resume it inside a clone of the repository that the work is about.",
  });
}
