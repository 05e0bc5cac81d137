// The ralph workflow: its stages, transition table, iteration guard and forced resume, and the plug-in that creates it from options, gives it
// more iterations, or continues a loop that AIWG wrote, from its checkpoint and the files beside it.

import type { Adapters } from "@holdfast/core/adapters";
import type { Planes } from "@holdfast/core/checkpoint";
import type { OptionsChange } from "@holdfast/core/control-run";
import type { Freshness } from "@holdfast/core/findings";
import { type Json, type JsonObject, asJsonObject, isJsonArray, isJsonObject, sha256 } from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import type { RunSummary } from "@holdfast/core/run";
import type { StageResult, TransitionTable, WorkflowShape } from "@holdfast/core/transitions";
import { canonicalJson } from "@holdfast/core/values";
import { type RunNaming, type StageFunction, type Workflow, defineWorkflow } from "@holdfast/core/workflow";
import type { ExternalCheckpoint } from "@holdfast/formats/format";
import { LOOP_EXTENSION } from "@holdfast/formats/loop-json";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import {
  type ChangeLimit,
  type ContinuedDocument,
  type StageEntry,
  type WorkflowPlugin,
  importWithoutAgent,
  namedRoles,
} from "../plugin.ts";
import { loadTemplates } from "../prompts.ts";
import { clip, oneLine } from "../text.ts";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import { beginStage } from "./begin.ts";
import { failStage, publishStage, rollbackStage } from "./finish.ts";
import { iterateStage } from "./iterate.ts";
import type { Reflection } from "./iteration.ts";
import { writerOf } from "./loop-checkpoint.ts";
import {
  MEMORY_POLICIES,
  RALPH_PROMPTS,
  type RalphOptions,
  WORKFLOW_TYPES,
  makeLoopId,
  parseRalphOptions,
  planUnits,
} from "./options.ts";
import { reflectStage } from "./reflect.ts";
import {
  type Learning,
  MAX_LEARNINGS,
  type RalphContext,
  type RalphDependencies,
  type RalphEvent,
  type RalphState,
  initialRalphState,
  parseRalphState,
  reduceRalph,
  reduceRecorded,
} from "./state.ts";
import { verifyStage } from "./verify.ts";

type Stage = (work: RalphDependencies, context: RalphContext) => ReturnType<StageFunction<RalphState>>;

const STAGES: Readonly<Record<string, Stage>> = {
  begin: beginStage,
  iterate: iterateStage,
  verify: verifyStage,
  reflect: reflectStage,
  rollback: rollbackStage,
  publish: publishStage,
  fatal: failStage,
  limit: failStage,
};

/** The workflow that repeats a task until its criterion passes. */
export function ralphWorkflow(options: RalphOptions, adapters: Adapters): Workflow<RalphState> {
  const work: RalphDependencies = { options, adapters };
  return defineWorkflow<RalphState>({
    ...RALPH_SHAPE,
    stages: Object.fromEntries(
      Object.entries(STAGES).map(([name, stage]) => [name, (context: RalphContext) => stage(work, context)]),
    ),
    initialState: () => initialRalphState,
    parseState: parseRalphState,
    reduce: reduceRecorded,
    guard: ralphGuard(options),
    freshness: ralphFreshness(options),
    naming: loopNaming(options),
    // Far beyond what the limit allows: a run that gets here is in a loop that no guard counts.
    maxStageAttempts: 100 + 10 * options.maxIterations,
  });
}

/** A task's id is derived from the task and its criterion, so that starting the same loop again finds the same run. */
function loopNaming({ loopId, until, pullRequest }: RalphOptions): RunNaming {
  return {
    id: loopId ?? undefined,
    task({ task, count }) {
      const words = canonicalJson([task, until.map(({ command }) => command), count]);
      return makeLoopId({ task, hex: sha256(`holdfast-loop-1\n${words}`).slice(0, 8) });
    },
    fromCheckout: !pullRequest,
  };
}

const TRANSITIONS: TransitionTable = {
  begin: { begun: "iterate", criterion_pass: "done", fatal: "fatal" },
  iterate: { iterated: "verify", fatal: "fatal" },
  // The search for a checkpoint to roll back to reads "pass" and "fail" in these event names.
  verify: { verify_pass: "reflect", verify_fail: "reflect", fatal: "fatal" },
  reflect: {
    again: "iterate",
    criterion_met: "publish",
    goes_back: "rollback",
    limit_reached: "limit",
    stuck: "fatal",
    fatal: "fatal",
  },
  rollback: { went_back: "iterate", limit_reached: "limit", fatal: "fatal" },
  publish: { published: "done", push_refused: "iterate", limit_reached: "limit", fatal: "fatal" },
};

/** The table does not depend on the options, so that a run whose limit is raised uses the same table. */
export const RALPH_SHAPE: WorkflowShape = {
  name: "ralph",
  version: 1,
  initial: "begin",
  stages: [...Object.keys(TRANSITIONS), "done", "fatal", "limit"],
  events: [...new Set(Object.values(TRANSITIONS).flatMap((row) => Object.keys(row)))],
  transitions: TRANSITIONS,
  // A loop at its limit has failed; a resume gives it more iterations and does not begin again.
  ends: { done: "done", fatal: "failed", limit: "failed" },
};

/**
 * Counts an iteration in the commit that starts it: after a crash, the same iteration runs again. Never starts an
 * iteration beyond the limit, whichever stage leads to it.
 */
export function ralphGuard<S extends object>({ maxIterations }: Pick<RalphOptions, "maxIterations">) {
  return (given: { readonly position: Position; readonly result: StageResult<S> }) => {
    const { position, result } = given;
    if (RALPH_SHAPE.transitions[position.stage]?.[result.event] !== "iterate") return given;
    if (position.iteration < maxIterations)
      return { position: { ...position, iteration: position.iteration + 1 }, result };
    const reason = `${maxIterations} iterations, which is the limit: ${result.reason}`;
    return { position, result: { ...result, event: "limit_reached", reason } };
  };
}

/** A loop handles outside changes like every run. A forced resume lets it continue. */
function ralphFreshness(options: RalphOptions): Freshness {
  return {
    isOwn: () => false,
    judge: () => null,
    relocate: () => null,
    reopen({ position, values }) {
      const reopening = planForcedResume({ position, state: parseRalphState(values), options });
      if (reopening === null) return null;
      const { begins, why } = reopening;
      const enters = begins === null ? null : { stage: "iterate", iteration: begins };
      return { values: { ...reopening.values }, enters, why };
    },
    failedHint({ run, stage }) {
      if (stage === "limit") return `Allow more: \`holdfast resume ${run} --max N\`.`;
      if (stage !== "fatal") return null;
      return `To continue anyway: \`holdfast resume ${run}@latest --force\`. To go back first, name an older checkpoint of \`holdfast list ${run}\` instead of latest. If its iterations are used up too, add \`--max N\`.`;
    },
  };
}

interface Reopening {
  /** The changed part of the state. */
  readonly values: Pick<RalphState, "tries" | "interventions">;
  /** The iteration to start; null: the run continues in its present stage. */
  readonly begins: number | null;
  readonly why: string;
}

/**
 * Plans a forced resume after the end; pure. What stopped the loop does not stop it again, so it runs at least one more
 * iteration. Returns null if the run continues as it was: nothing stopped it, all units are done, or its own limit
 * applies.
 */
export function planForcedResume(params: {
  readonly position: Pick<Position, "stage" | "iteration">;
  readonly state: RalphState;
  readonly options: RalphOptions;
}): Reopening | null {
  const { state, options } = params;
  const { stage, iteration } = params.position;
  if (iteration === 0 || state.unit >= planUnits(options).length || !REOPENED_STAGES.has(stage)) return null;
  const reflected = (state.iterations.at(-1)?.number ?? 0) === iteration;
  const begins = stage === "fatal" || (stage === "reflect" && reflected) ? iteration + (reflected ? 1 : 0) : null;
  if (begins !== null && begins > options.maxIterations) return null;
  // An iteration that runs again has no findings yet.
  const at = stage === "iterate" || begins === iteration ? iteration - 1 : iteration;
  if (at === 0 && begins === null) return null;
  const { tries, interventions } = at === 0 ? state : reduceRalph(state, letContinue(at));
  const why =
    at === 0
      ? "The first iteration runs again."
      : `Findings up to iteration ${at} do not stop the loop again: the user lets it continue.`;
  return { values: { tries, interventions }, begins, why };
}

const REOPENED_STAGES: ReadonlySet<string> = new Set(["iterate", "verify", "reflect", "fatal"]);

function letContinue(at: number): RalphEvent {
  return { kind: "intervened", intervention: { kind: "answered", at, answer: "continue" } };
}

export const ralphPlugin: WorkflowPlugin = {
  name: "ralph",
  version: RALPH_SHAPE.version,
  prompts: RALPH_PROMPTS,
  create(given, adapters) {
    const options = parseRalphOptions(given);
    return { workflow: ralphWorkflow(options, adapters), options };
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
      options,
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
    options: after,
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
    options: { ...options, maxIterations: max },
    continuesAt: atLimit ? { stage: "iterate", iteration: position.iteration + 1 } : null,
    reason: `The limit is ${max} iterations in total instead of ${options.maxIterations}`,
  };
};

/** Extension with the files beside the checkpoint, which a later mirror replaces. */
const FILES_EXTENSION = "loop-files";

/**
 * null: not a loop. The document's own words for phase and agent stay in the document: they name no stage and no agent
 * of ours. `isNewest`: only the newest checkpoint ends with its loop.
 */
export function readImportedLoop(checkpoint: ExternalCheckpoint, isNewest: boolean): ContinuedDocument | null {
  const { workflow, planes, beside = {} } = checkpoint;
  const extension = planes.extensions[LOOP_EXTENSION];
  if (workflow !== "ralph_loop" || !isJsonObject(extension)) return null;
  const loop = asJsonObject(beside["state.json"]);
  const sources = [loop, asJsonObject(loop["configuration"]), planes.context.values, planes.config.inputs];
  const task = textIn(sources, ["task", "objective"]) ?? composeTask(planes, extension);
  const memory = readMemory(asJsonObject(beside["reflection-memory.json"]), extension, loop);
  const options = readOptions(sources, extension, { task, ...memory.options });
  const state = readState(checkpoint, memory);
  const iteration = state.totals.iterations;
  const end = isNewest ? endOf(loop, { options, iteration }) : null;
  return {
    work: { kind: "task", text: task },
    planes: {
      ...planes,
      position: { ...planes.position, workflow: "ralph", stage: "begin", iteration, ...end },
      context: { ...planes.context, values: state },
      inputs: { ...planes.inputs, task },
      config: { ...planes.config, agent: null, model: null, mode: "default", inputs: options },
      extensions: {
        ...planes.extensions,
        ...(Object.keys(beside).length === 0 ? {} : { [FILES_EXTENSION]: { ...beside } }),
      },
    },
  };
}

/** Only facts of the document: what it does not say comes from the user's settings when the run is resumed. */
function readOptions(sources: readonly JsonObject[], extension: JsonObject, own: JsonObject): JsonObject {
  const criterion = textIn(sources, ["completion_criteria", "completionCriteria", "completion"]);
  const max = countIn([...sources.slice(0, 2), extension], ["max_iterations", "maxIterations"]);
  const minutes = countIn(sources.slice(0, 2), ["timeout_minutes", "timeoutMinutes"]);
  return {
    workflowType: "ralph_loop",
    ...own,
    ...(criterion === null ? {} : { until: [{ command: commandOf(criterion) }] }),
    ...(max === null ? {} : { maxIterations: max }),
    ...(minutes === null ? {} : { maxMinutes: minutes }),
  };
}

/** AIWG's criteria are sentences around a command, such as "npm test passes" or "`tsc` exits with code 0". */
function commandOf(criterion: string): string {
  const [, command] = OUTCOME.exec(criterion) ?? [];
  const bare = (command ?? criterion).trim();
  return /^`[^`]+`$/.test(bare) ? bare.slice(1, -1) : bare;
}

const OUTCOME = /^(.{1,1000}?)\s+(?:passes|pass|succeeds|is green|exits (?:with )?(?:code |status )?0)\.?$/;

/** A document without a task still has the words of its id, its phase and its variables. */
function composeTask({ position, context }: Planes, extension: JsonObject): string {
  const id = textIn([extension], ["workflow_id"]) ?? "";
  const slug = id.replace(/^ralph-/, "").replace(/-(?:[a-f0-9]{8}|\d{4}-\d\d-\d\d)$/, "");
  const step = textIn([extension], ["step"]);
  const variables = Object.entries(context.values).flatMap(([name, value]) =>
    typeof value === "string" || typeof value === "number" ? [`${name}: ${value}`] : [],
  );
  const known = variables.length === 0 ? "" : ` Known: ${variables.slice(0, MOST_VARIABLES).join("; ")}.`;
  const place = `phase ${position.stage}${step === null ? "" : `, step ${step}`}`;
  return clip(`Continue the work "${slug.replaceAll("-", " ")}" (${place}).${known}`, MOST_TEXT);
}

/** A checkpoint at the end of an iteration ends it. Any other was taken during an iteration, which runs again. */
function readState({ trigger, planes }: ExternalCheckpoint, memory: LoopMemory): RalphState & JsonObject {
  const { iteration: current, attempts } = planes.position;
  const iterations = trigger === "iteration" ? current : Math.max(0, current - 1);
  return {
    ...initialRalphState,
    totals: { ...initialRalphState.totals, iterations, failed: Math.min(iterations, attempts["failures"] ?? 0) },
    memory: memory.reflections,
    learnings: memory.learnings,
  };
}

/**
 * Where a loop stands that does not continue by itself. Words of AIWG's schemas and of its programs. An end is only
 * recorded with complete options: otherwise the check of the next resume decides.
 */
function endOf(
  loop: JsonObject,
  { options, iteration }: { readonly options: JsonObject; readonly iteration: number },
): { readonly stage: "done" | "fatal" | "limit"; readonly reason: string } | null {
  if (options["until"] === undefined) return null;
  const { maxIterations } = parseRalphOptions(options);
  const status = textIn([loop], ["status"]) ?? "";
  const why = textIn([asJsonObject(loop["error_context"])], ["error_message"]);
  if (DONE.has(status)) return { stage: "done", reason: `It was ${status} before it was imported` };
  if (iteration >= maxIterations)
    return { stage: "limit", reason: `It had used all of its ${maxIterations} iterations before it was imported` };
  if (!FAILED.has(status)) return null;
  return { stage: "fatal", reason: `It was ${status} before it was imported${why === null ? "" : `: ${why}`}` };
}

const DONE: ReadonlySet<string> = new Set(["completed", "success"]);
const FAILED: ReadonlySet<string> = new Set(["failed", "aborted", "error", "budget_exhausted"]);

interface LoopMemory {
  readonly reflections: readonly Reflection[];
  readonly learnings: readonly Learning[];
  /** Size and policy of the reflection window, where the document names them. */
  readonly options: JsonObject;
}

/** The reflections of the loop's own file come first, then those in the checkpoint. */
function readMemory(file: JsonObject, extension: JsonObject, loop: JsonObject): LoopMemory {
  const inside = asJsonObject(asJsonObject(extension["agent_state"])["memory"]);
  const entries = Object.keys(file).length > 0 ? [file, ...listOf(file["window"])] : listOf(inside["reflections"]);
  const metadata = asJsonObject(file["memory_metadata"]);
  const capacity = countIn([metadata], ["omega_capacity"]);
  const policy = MEMORY_POLICIES.find((one) => one === metadata["window_policy"]);
  const reflections = entries.flatMap(reflectionOf).toSorted((a, b) => a.iteration - b.iteration);
  const texts = [loop["learnings"], loop["accumulatedLearnings"], inside["learnings"]].flatMap(learningsOf);
  const learned = reflections.flatMap(({ iteration, learnings }) => learnings.map((text) => ({ iteration, text })));
  const all = new Map([...learned, ...texts].map((one) => [one.text, one]));
  return {
    reflections: reflections.slice(-Math.min(capacity ?? 3, 10)),
    learnings: [...all.values()].slice(-MAX_LEARNINGS),
    options:
      capacity === null && policy === undefined
        ? {}
        : {
            memory: {
              ...(capacity === null ? {} : { capacity: Math.min(capacity, 10) }),
              ...(policy === undefined ? {} : { policy }),
            },
          },
  };
}

function reflectionOf(entry: Json): readonly Reflection[] {
  if (!isJsonObject(entry)) return [];
  const own = asJsonObject(entry["self_reflection"]);
  const judged = asJsonObject(entry["evaluator_output"]);
  const text = textIn([own, entry], ["reflection_text", "text"]);
  const iteration = countIn([entry], ["iteration"], 0);
  if (text === null || iteration === null) return [];
  const reward = judged["reward_signal"];
  return [
    {
      iteration,
      unitName: "loop",
      verdict: judged["passed"] === true ? "passed" : "failed",
      quality: typeof reward === "number" ? Math.min(100, Math.max(0, reward * 100)) : null,
      text,
      learnings: learningsOf(own["lessons_learned"] ?? entry["learnings"]).map((one) => one.text),
      signature: null,
      failing: listOf(judged["errors"])
        .flatMap((error) => (typeof error === "string" ? [oneLine(error, 200)] : []))
        .slice(0, MAX_LEARNINGS),
      lastSeen: iteration,
    },
  ];
}

/** A list of texts or of objects with a text, or one text with a line for each. */
function learningsOf(value: Json | undefined): readonly Learning[] {
  const entries = typeof value === "string" ? value.slice(0, MOST_TEXT).split("\n") : listOf(value);
  return entries.flatMap((entry) => {
    const said = typeof entry === "string" ? entry : textIn([asJsonObject(entry)], ["text", "learning"]);
    const text = oneLine((said ?? "").replace(/^\s*(?:#.*|[-*+]\s+|\d{1,3}[.)]\s+)/, ""), 300);
    return text === "" ? [] : [{ iteration: countIn([asJsonObject(entry)], ["iteration"], 0) ?? 0, text }];
  });
}

const MOST_TEXT = 20_000;
const MOST_VARIABLES = 50;

function listOf(value: Json | undefined): readonly Json[] {
  return isJsonArray(value) ? value : [];
}

function textIn(sources: readonly JsonObject[], names: readonly string[]): string | null {
  const found = sources
    .flatMap((source) => names.map((name) => (Object.hasOwn(source, name) ? source[name] : null)))
    .find((value): value is string => typeof value === "string" && value.trim() !== "");
  return found === undefined ? null : clip(found.replaceAll("\0", "").trim(), MOST_TEXT);
}

function countIn(sources: readonly JsonObject[], names: readonly string[], least = 1): number | null {
  const found = sources
    .flatMap((source) => names.map((name) => (Object.hasOwn(source, name) ? source[name] : null)))
    .find((value): value is number => Number.isSafeInteger(value) && Number(value) >= least);
  return found ?? null;
}
