import { branchName } from "../../core/crunch/branch-name.ts";
import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import { makeLoopId } from "../../core/ralph/loop-id.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { pureSha256 } from "../../core/sha256.ts";
import { canonicalJson } from "../../core/values/index.ts";
import type { Workflow } from "../../engine/definition.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { crunchWorkflow } from "../../workflows/crunch/crunch-workflow.ts";
import { crunchOptionsJson, parseCrunchOptions } from "../../workflows/crunch/options.ts";
import type { CrunchOptions } from "../../workflows/crunch/options.ts";
import { implWorkflow } from "../../workflows/impl/impl-workflow.ts";
import { implOptionsJson, parseImplOptions } from "../../workflows/impl/options.ts";
import { loopOptionsJson, parseLoopOptions } from "../../workflows/ralph/options.ts";
import type { LoopOptions } from "../../workflows/ralph/options.ts";
import { ralphWorkflow } from "../../workflows/ralph/ralph-workflow.ts";
import type { BranchNaming, RunNaming } from "./plan-start.ts";

/** Those that are built in, by name. */
export type OwnWorkflow = "impl" | "crunch" | "ralph";

export function isOwnWorkflow(name: string): name is OwnWorkflow {
  return name === "impl" || name === "crunch" || name === "ralph";
}

export interface ChosenWorkflow {
  readonly workflow: Workflow<JsonObject>;
  /** As the run keeps them. */
  readonly options: JsonObject;
  readonly branch?: BranchNaming;
  readonly naming?: RunNaming;
  /** The id that its options name. */
  readonly id?: string;
  /** Its work is for whoever started it, so it begins on what they have checked out. */
  readonly here?: boolean;
}

/** What a new run follows. USAGE for options that it does not have. */
export function chooseWorkflow<S extends JsonObject>(
  parts: WorkParts,
  params: { readonly workflow?: OwnWorkflow | Workflow<S>; readonly options?: JsonObject },
): ChosenWorkflow {
  const given = params.options ?? {};
  if (params.workflow === undefined || params.workflow === "impl") {
    const { options } = parseImplOptions(given);
    return { workflow: anyWorkflow(implWorkflow(options, parts)), options: implOptionsJson(options) };
  }
  if (params.workflow === "crunch") {
    const options = parseCrunchOptions(given);
    const workflow = anyWorkflow(crunchWorkflow(options, parts));
    return { workflow, options: crunchOptionsJson(options), branch: crunchBranch(options) };
  }
  if (params.workflow === "ralph") {
    const options = parseLoopOptions(given);
    const workflow = anyWorkflow(ralphWorkflow(options, parts));
    const named = options.loopId === null ? {} : { id: options.loopId };
    const naming = loopNaming(options);
    return { workflow, options: loopOptionsJson(options), naming, ...named, here: !options.pullRequest };
  }
  return { workflow: anyWorkflow(params.workflow), options: given };
}

/** What a run goes on with that follows one of ours, by the options that it keeps. */
export function ownWorkflow(parts: WorkParts, run: RunSummary | undefined, options: JsonObject): Workflow<JsonObject> {
  if (run === undefined || run.workflow === "impl")
    return anyWorkflow(implWorkflow(parseImplOptions(options).options, parts));
  if (run.workflow === "crunch") return anyWorkflow(crunchWorkflow(parseCrunchOptions(options), parts));
  if (run.workflow === "ralph") return anyWorkflow(ralphWorkflow(parseLoopOptions(options), parts));
  throw new HoldfastError({
    code: "USAGE",
    message: `Run ${run.id} follows the workflow ${run.workflow}, which must be given to go on with it`,
    hint: `Name the file that defines it: \`holdfast resume ${run.id} --workflow FILE\`.`,
  });
}

/**
 * A workflow reads its own state only, and parses it when a run is taken up: whoever holds it need not know its type.
 */
export function anyWorkflow<S extends JsonObject>(workflow: Workflow<S>): Workflow<JsonObject> {
  return workflow as unknown as Workflow<JsonObject>;
}

/** `{fix|feature}/issue-{n}-{slug}`; the second run of an issue gets another one, as the first one's may still be there. */
function crunchBranch({ type }: CrunchOptions): BranchNaming {
  return ({ run, issue }) => {
    if (issue === null) return null;
    const labels = type === null ? issue.labels : [`type:${type}`];
    const again = /^issue-\d+-(\d+)$/.exec(run)?.[1];
    return `${branchName({ ...issue, labels })}${again === undefined ? "" : `-${again}`}`;
  };
}

/** Made from the loop's task and criterion, so that starting the same loop again means the same run. */
function loopNaming({ until }: LoopOptions): RunNaming {
  return ({ task, count }) => {
    const words = canonicalJson([task, until.map(({ command }) => command), count]);
    return makeLoopId({ task, hex: pureSha256(`holdfast-loop-1\n${words}`).slice(0, 8) });
  };
}
