// The crunch workflow: its stages, its guard against endless loops, and the plug-in that creates it from options, continues it from an
// imported checkpoint, or gives it a later target.

import type { Adapters } from "@holdfast/core/adapters";
import type { Planes } from "@holdfast/core/checkpoint";
import type { Graph } from "@holdfast/core/graph";
import { stateOf } from "@holdfast/core/graph-state";
import { type JsonObject, asJsonObject } from "@holdfast/core/json";
import { type Position, bump, counterOf } from "@holdfast/core/position";
import type { StageResult } from "@holdfast/core/transitions";
import { type RunNaming, type StageFunction, type Workflow, defineWorkflow } from "@holdfast/core/workflow";
import { HOLDFAST_MEMBER } from "@holdfast/formats/crunch-document";
import { branchNamedIn, sourceDocumentOf } from "@holdfast/formats/format";
import { type HoldfastError, usageError } from "@holdfast/platform/error";
import { fetchImportedIssue } from "../forge.ts";
import {
  type ChangeLimit,
  type StageEntry,
  type WorkflowPlugin,
  importWithoutAgent,
  importedIssueNumber,
  namedRoles,
} from "../plugin.ts";
import { adoptCrunchState } from "./adopt-state.ts";
import { checkCrunchSettings } from "./layout.ts";
import {
  CRUNCH_PROMPTS,
  CRUNCH_SHAPE,
  type CrunchOptions,
  type CrunchStage,
  isCrunchStage,
  parseCrunchOptions,
  stageAfter,
} from "./options.ts";
import { type CrunchContext, type CrunchDependencies, lastCompletedPhase } from "./phase-steps.ts";
import { branchName, crunchFreshness, isAtOrPast } from "./phases.ts";
import {
  docsStage,
  doneStage,
  e2eStage,
  enrichStage,
  implementingStage,
  readyStage,
  readyToMergeStage,
} from "./stages.ts";
import { type CrunchState, initialCrunchState, parseCrunchEvent, parseCrunchState, reduceCrunch } from "./state.ts";

type Stage = (work: CrunchDependencies, context: CrunchContext) => ReturnType<StageFunction<CrunchState>>;

const STAGES: Readonly<Record<string, Stage>> = {
  enrich: enrichStage,
  ready: readyStage,
  implementing: implementingStage,
  e2e: e2eStage,
  docs: docsStage,
  "ready-to-merge": readyToMergeStage,
  done: doneStage,
};

/** The workflow that takes an issue through its phases, most of them with a team of agents on a graph. */
export function crunchWorkflow(options: CrunchOptions, adapters: Adapters): Workflow<CrunchState> {
  const work: CrunchDependencies = { options, adapters };
  return defineWorkflow<CrunchState>({
    ...CRUNCH_SHAPE,
    stages: Object.fromEntries(
      Object.entries(STAGES).map(([name, stage]) => [name, (context: CrunchContext) => stage(work, context)]),
    ),
    initialState: () => initialCrunchState,
    parseState: parseCrunchState,
    reduce: (state, event) => reduceCrunch(state, parseCrunchEvent(event)),
    guard: crunchGuard(options),
    freshness: crunchFreshness,
    naming: { branch: crunchBranch(options) },
    // Far beyond what the limits allow: a run that gets here is in a loop that no guard counts.
    maxStageAttempts: 50 + 5 * options.limits.e2eFailures,
  });
}

/**
 * `{fix|feature}/issue-{n}-{slug}`. A second run of an issue gets another name, because the first branch may still
 * exist.
 */
function crunchBranch({ type }: CrunchOptions): NonNullable<RunNaming["branch"]> {
  return ({ run, issue }) => {
    if (issue === null) return null;
    const labels = type === null ? issue.labels : [`type:${type}`];
    const again = /^issue-\d+-(\d+)$/.exec(run)?.[1];
    return `${branchName({ ...issue, labels })}${again === undefined ? "" : `-${again}`}`;
  };
}

/**
 * Ends a run that does not converge. `attempts` counts how often each phase started and, as `e2e-failures`, how often
 * the work was sent back. Both are part of the position, so a resume resets neither.
 */
export function crunchGuard<S extends object>({ limits }: Pick<CrunchOptions, "limits">) {
  return (given: { readonly position: Position; readonly result: StageResult<S> }) => {
    const { result } = given;
    const { attempts } = given.position;
    const counted = isReturn(result.event) ? bump(attempts, "e2e-failures") : attempts;
    const failures = counterOf(counted, "e2e-failures");
    if (isReturn(result.event) && failures > limits.e2eFailures)
      return fatal(
        given,
        `The work was sent back ${failures} times, and ${limits.e2eFailures} are allowed: ${result.reason}`,
      );
    const next = CRUNCH_SHAPE.transitions[given.position.stage]?.[result.event];
    if (next === undefined || Object.hasOwn(CRUNCH_SHAPE.ends, next))
      return { position: { ...given.position, attempts: counted }, result };
    return {
      position: { ...given.position, attempts: bump(counted, next), iteration: round(given.position, next) },
      result,
    };
  };
}

function isReturn(event: string): boolean {
  return event === "e2e_fail" || event === "push_refused";
}

function round({ iteration }: Position, next: string): number {
  return next === "implementing" ? iteration + 1 : iteration;
}

function fatal<S extends object>(
  { position, result }: { readonly position: Position; readonly result: StageResult<S> },
  reason: string,
) {
  return { position, result: { ...result, event: "fatal", reason } };
}

export const crunchPlugin: WorkflowPlugin = {
  name: "crunch",
  version: CRUNCH_SHAPE.version,
  prompts: CRUNCH_PROMPTS,
  create(given, adapters) {
    const options = parseCrunchOptions(given);
    return { workflow: crunchWorkflow(options, adapters), options };
  },
  roles(options, own) {
    const models = asJsonObject(options["models"]);
    const members = Object.entries(teamOf(options)).map(([member, value]) => {
      const { role, agent } = asJsonObject(value);
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
  check: async (adapters) => checkCrunchSettings(await adapters.projectRoot()),
  /** Uses the team's rules that the run began with, if the document has them. */
  adopt({ adapters, run, checkpoint, agent, options: given, limits }) {
    const issue = importedIssueNumber(run, "crunch", "issue_number");
    if (agent === null) throw importWithoutAgent(run);
    const { planes } = checkpoint;
    const { settings } = planes.context.values;
    const options = parseCrunchOptions({ ...given, ...(settings === undefined ? {} : { settings }), ...limits });
    const { stage, iteration } = planes.position;
    const finished = finishedPhase(planes);
    if (finished !== null && finished !== "ready-to-merge" && isAtOrPast(finished, options.target))
      throw usageError(
        `Run ${run.id} has finished ${finished}, and its target is ${options.target}`,
        `Name a later phase: \`holdfast resume ${run.id} --target ready-to-merge\`.`,
      );
    if (Object.hasOwn(limits, "target") && isPast(stage, options.target))
      throw pastTarget(run.id, stage, options.target);
    return {
      workflow: crunchWorkflow(options, adapters),
      options,
      agent,
      base: options.baseBranch,
      branch: branchNamedIn(planes.extensions),
      ...(finished === null ? {} : { enters: entryAfter(finished, iteration) }),
      dropsGraph: !isExecutable(planes.position.graph),
      refusal: refusalOf(sourceDocumentOf(planes)?.document ?? {}),
      async check() {
        await fetchImportedIssue(adapters, issue);
      },
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

/** Crunch saves the states of the nodes without their agents. A graph that is complete needs none. */
function isExecutable(graph: Graph | null): boolean {
  const left = graph?.nodes.filter(({ id }) => stateOf(graph, id).status !== "complete") ?? [];
  return left.every(({ agent }) => agent !== "");
}

/**
 * The phase that a document of a stopped run names: it has finished, and is not executed again. null: the run had not
 * stopped, or another tool has changed the phase since.
 */
function finishedPhase(planes: Planes): CrunchStage | null {
  const kept = asJsonObject(sourceDocumentOf(planes)?.document?.[HOLDFAST_MEMBER]);
  if (asJsonObject(kept["position"])["stage"] !== "stopped") return null;
  const phase = lastCompletedPhase(planes.context.values);
  return phase === planes.position.stage ? phase : null;
}

/** Sets another target phase. A run that stopped at its target continues at the following phase. */
const changeTarget: ChangeLimit = ({ run, planes, value }) => {
  const { config, position, context } = planes;
  const options = parseCrunchOptions(config.inputs);
  const { target } = parseCrunchOptions({ ...config.inputs, target: value });
  if (target === options.target) return null;
  const stopped = position.stage === "stopped" ? lastCompletedPhase(context.values) : null;
  const at = stopped ?? (isCrunchStage(position.stage) ? position.stage : null);
  if (at !== null && isPast(at, target)) throw pastTarget(run.id, at, target);
  return {
    options: { ...options, target },
    continuesAt: stopped === null ? null : entryAfter(stopped, position.iteration),
    reason: `The target is ${target} instead of ${options.target}`,
  };
};

function isPast(stage: string, target: CrunchOptions["target"]): boolean {
  return isCrunchStage(stage) && stage !== target && isAtOrPast(stage, target);
}

function pastTarget(run: string, at: string, target: string): HoldfastError {
  return usageError(
    `Run ${run} is at ${at} already, which is past ${target}`,
    `To go back to an earlier state: \`holdfast resume ${run}@SEQUENCE --force\`; see \`holdfast list ${run}\`.`,
  );
}

/** The warnings of a document whose writer marked it as not resumable; null: it can be resumed. */
function refusalOf(document: JsonObject): string | null {
  const { can_resume: canResume, warnings } = asJsonObject(document["recovery_info"]);
  if (canResume !== false) return null;
  const texts = (Array.isArray(warnings) ? warnings : []).filter((text) => typeof text === "string");
  return texts.length === 0
    ? "It names no reason"
    : texts
        .map((text) => text.slice(0, 200))
        .slice(0, 20)
        .join("; ");
}

/** Where a run continues that stopped at a phase: the next one. The last phase itself waits for the merge. */
function entryAfter(stopped: CrunchStage, iteration: number): StageEntry {
  const stage = stopped === "ready-to-merge" ? stopped : stageAfter(stopped);
  return { stage, iteration: stage === "implementing" ? iteration + 1 : iteration };
}

/** The profiles of the team by name, from options that may be incomplete. */
function teamOf(options: JsonObject): JsonObject {
  return asJsonObject(asJsonObject(options["settings"])["agents"]);
}
