// The options of the ralph workflow: the loop, its units of work, quality weights, detection and layout files.

import { checkAgentName } from "@holdfast/core/agent";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { checkNames, count, flag, nullableText, optionError, record, text, within, word } from "@holdfast/core/options";
import { type RetentionPolicy, loopRetention } from "@holdfast/core/retention";
import { makeRunId } from "@holdfast/core/run";
import { HoldfastError } from "@holdfast/platform/error";
import type { LayoutSettings } from "../plugin.ts";
import { type PromptSources, type Prompts, parsePrompts, promptsJson } from "../prompts.ts";

/**
 * The types of a ralph run. All run on one workflow and differ only in their units of work (see planUnits).
 * - ralph_loop: one task, repeated until the criterion passes.
 * - flow_command: named steps in order, each with a prompt and an optional check.
 * - skill_execution: the text of one skill with its arguments.
 * - agent_task: one task with few attempts.
 */
export const WORKFLOW_TYPES = ["ralph_loop", "flow_command", "skill_execution", "agent_task"] as const;
export type WorkflowType = (typeof WORKFLOW_TYPES)[number];

/** A command that passes with exit code 0. */
export type Check = { readonly command: string; readonly timeoutMs: number };
type FlowStep = { readonly name: string; readonly prompt: string; readonly until: readonly Check[] };
/** `$ARGUMENTS` in the text is replaced by the arguments; without it they follow the text. */
type Skill = { readonly name: string; readonly text: string; readonly arguments: string };

/**
 * Which reflection is dropped when the memory is full:
 * - fifo: the oldest.
 * - recency: the one whose failure was not seen for longest.
 * - relevance_weighted: the one least related to the present failure.
 */
export const MEMORY_POLICIES = ["fifo", "recency", "relevance_weighted"] as const;
export type MemoryPolicy = (typeof MEMORY_POLICIES)[number];

export const DIMENSIONS = ["validation", "completeness", "correctness", "readability", "efficiency"] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/** null: this detection is disabled. */
export interface Detection {
  /** Number of consecutive iterations with the same failure or without any file change. */
  readonly stuck: number | null;
  /** Number of turns between the same two states: 4 is A, B, A, B. */
  readonly oscillation: number | null;
  /** Points of quality below the best iteration. */
  readonly regression: number | null;
  /** Number of newest iterations over which the cost of an iteration is averaged. */
  readonly burn: number | null;
}

type RalphPrompt = "iterate" | "continue";
/** The built-in templates are the files in prompts/. */
export const RALPH_PROMPTS: Prompts<RalphPrompt> = {
  workflow: "ralph",
  table: {
    iterate: {
      required: ["task_section", "criterion_section", "last_check_section", "memory_section", "feedback_section"],
      optional: ["iteration", "max_iterations", "files_now", "learnings_section", "best_section", "warning_section"],
    },
    continue: { required: [], optional: [] },
  },
};

/** The options of a ralph run. The checkpoint's config keeps them, so that a resumed run uses the same options. */
export interface RalphOptions {
  readonly workflowType: WorkflowType;
  readonly task: string;
  /** The criterion: all commands must exit with 0. A ralph_loop has at least one. */
  readonly until: readonly Check[];
  /** For a flow_command at least one, with unique names; otherwise empty. */
  readonly steps: readonly FlowStep[];
  /** For a skill_execution; otherwise null. */
  readonly skill: Skill | null;
  /** Total of all units. */
  readonly maxIterations: number;
  /** Attempts per unit. A ralph_loop ignores it: only maxIterations limits it. */
  readonly attempts: number;
  /** Working time of the run; null: no limit. */
  readonly maxMinutes: number | null;
  /** Tokens that an iteration may use, for the efficiency dimension; null: not measured. */
  readonly tokensPerIteration: number | null;
  readonly memory: { readonly capacity: number; readonly policy: MemoryPolicy };
  readonly detection: Detection;
  /**
   * What happens when the loop is stuck or oscillates. rollback: restores the best iteration, once for each best, then
   * stops.
   */
  readonly onStuck: "stop" | "ask" | "rollback";
  /** Relative weights: only their proportions matter. At least one is above 0. */
  readonly qualityWeights: Readonly<Record<Dimension, number>>;
  /** null: created when the run begins. */
  readonly loopId: string | null;
  /** Decides which loop gets the next free slot: the highest number. */
  readonly priority: number;
  /** `provider:model`; null: the run's default model. */
  readonly model: string | null;
  readonly yolo: boolean;
  readonly agentTimeoutMs: number | null;
  /** Whether the criterion is checked before the first iteration. If it already passes, the loop costs nothing. */
  readonly firstCheck: boolean;
  /** Whether the loop ends in a pull request or only with commits on its branch. */
  readonly pullRequest: boolean;
  readonly draft: boolean;
  /** Whether the pull request says that an agent made it. */
  readonly attribution: boolean;
  /** null: the default branch of the remote or the forge. */
  readonly baseBranch: string | null;
  readonly prompts: PromptSources<RalphPrompt>;
}

export const defaultRalphOptions: RalphOptions = {
  workflowType: "ralph_loop",
  task: "",
  until: [],
  steps: [],
  skill: null,
  maxIterations: 200,
  attempts: 3,
  maxMinutes: null,
  tokensPerIteration: null,
  memory: { capacity: 3, policy: "fifo" },
  detection: { stuck: 3, oscillation: 4, regression: 10, burn: 5 },
  onStuck: "stop",
  qualityWeights: { validation: 30, completeness: 25, correctness: 25, readability: 10, efficiency: 10 },
  loopId: null,
  priority: 0,
  model: null,
  yolo: false,
  agentTimeoutMs: null,
  firstCheck: true,
  pullRequest: false,
  draft: false,
  attribution: true,
  baseBranch: null,
  prompts: parsePrompts(RALPH_PROMPTS, {}),
};

/** Throws USAGE for an unknown name, an invalid value, or a type without its required options. */
export function parseRalphOptions(given: JsonObject): RalphOptions {
  const base = defaultRalphOptions;
  checkNames("ralph", given, Object.keys(base));
  const parsed = {
    workflowType: word(given, "workflowType", base.workflowType, WORKFLOW_TYPES),
    until: parseChecks(given, "until"),
    steps: parseSteps(given),
    skill: parseSkill(given),
    maxIterations: count(given, "maxIterations", base.maxIterations, 1),
    attempts: count(given, "attempts", base.attempts, 1),
    maxMinutes: nullableCount(given, "maxMinutes", base.maxMinutes),
    tokensPerIteration: nullableCount(given, "tokensPerIteration", base.tokensPerIteration),
    memory: parseMemory(record(given, "memory")),
    detection: parseDetection(record(given, "detection")),
    onStuck: word(given, "onStuck", base.onStuck, ["stop", "ask", "rollback"]),
    qualityWeights: parseWeights(record(given, "qualityWeights")),
    loopId: parseLoopId(given),
    priority: within(given, "priority", base.priority, { least: -1000, most: 1000 }),
    model: parseModel(given),
    yolo: flag(given, "yolo", base.yolo),
    agentTimeoutMs: nullableCount(given, "agentTimeoutMs", base.agentTimeoutMs),
    firstCheck: flag(given, "firstCheck", base.firstCheck),
    pullRequest: flag(given, "pullRequest", base.pullRequest),
    draft: flag(given, "draft", base.draft),
    attribution: flag(given, "attribution", base.attribution),
    baseBranch: nullableText(given, "baseBranch"),
    prompts: parsePrompts(RALPH_PROMPTS, given),
  };
  return { ...parsed, task: parseTask(given, parsed) };
}

/** The options as stored JSON; parsing it again gives the same options. */
export function ralphOptionsJson(options: RalphOptions): JsonObject {
  const { memory, detection, qualityWeights, prompts, ...rest } = options;
  return {
    ...rest,
    memory: { ...memory },
    detection: { ...detection },
    qualityWeights: { ...qualityWeights },
    prompts: promptsJson(prompts),
  };
}

/** A flow and a skill define their own work; their task is optional context. */
function parseTask(
  given: JsonObject,
  parsed: Pick<RalphOptions, "workflowType" | "until" | "steps" | "skill">,
): string {
  const { workflowType, until, steps, skill } = parsed;
  const task = given["task"] === undefined || given["task"] === "" ? null : text(given, "task");
  if (workflowType !== "flow_command" && steps.length > 0)
    throw optionError("steps", steps.length, `workflowType "flow_command" with it`);
  if (workflowType !== "skill_execution" && skill !== null)
    throw optionError("skill", skill.name, `workflowType "skill_execution" with it`);
  switch (workflowType) {
    case "ralph_loop":
      if (until.length === 0) throw optionError("until", null, "the command that says when the loop is done");
      return task ?? text(given, "task");
    case "agent_task":
      return task ?? text(given, "task");
    case "flow_command":
      if (steps.length === 0) throw optionError("steps", null, "the steps of the flow: name, prompt, until");
      return task ?? `Carry out the flow: ${steps.map((step) => step.name).join(", ")}`;
    case "skill_execution":
      if (skill === null) throw optionError("skill", null, "the skill: name, text, arguments");
      return task ?? `Carry out the skill ${skill.name}`;
  }
}

/** Accepts a bare string as one command. The default timeout is ten minutes. */
function parseChecks(given: JsonObject, name: string): readonly Check[] {
  const value = given[name];
  if (value === undefined || value === null) return [];
  return (isJsonArray(value) ? value : [value]).map((one) => {
    const check = typeof one === "string" ? { command: one } : asObject(name, one);
    checkNames(`ralph ${name}`, check, ["command", "timeoutMs"]);
    return { command: text(check, "command"), timeoutMs: count(check, "timeoutMs", 600_000, 1) };
  });
}

function parseSteps(given: JsonObject): readonly FlowStep[] {
  const value = given["steps"];
  if (value === undefined || value === null) return [];
  if (!isJsonArray(value)) throw optionError("steps", value, "a list of steps");
  const steps = value.map((one) => {
    const step = asObject("steps", one);
    checkNames("ralph steps", step, ["name", "prompt", "until"]);
    return { name: text(step, "name").slice(0, 100), prompt: text(step, "prompt"), until: parseChecks(step, "until") };
  });
  const twice = steps.find((step, place) => steps.findIndex((one) => one.name === step.name) < place);
  if (twice !== undefined) throw optionError("steps", twice.name, "steps with names that differ");
  return steps;
}

function parseSkill(given: JsonObject): Skill | null {
  const value = given["skill"];
  if (value === undefined || value === null) return null;
  const skill = asObject("skill", value);
  checkNames("ralph skill", skill, ["name", "text", "arguments"]);
  const args = skill["arguments"] ?? "";
  if (typeof args !== "string") throw optionError("skill.arguments", args, "a text");
  return { name: text(skill, "name").slice(0, 100), text: text(skill, "text"), arguments: args };
}

function parseMemory(given: JsonObject): RalphOptions["memory"] {
  const base = defaultRalphOptions.memory;
  checkNames("ralph memory", given, Object.keys(base));
  const capacity = count(given, "capacity", base.capacity, 1);
  if (capacity > 10) throw optionError("memory.capacity", capacity, "a whole number from 1 to 10");
  return { capacity, policy: word(given, "policy", base.policy, MEMORY_POLICIES) };
}

function parseDetection(given: JsonObject): Detection {
  const base = defaultRalphOptions.detection;
  checkNames("ralph detection", given, Object.keys(base));
  const regression = given["regression"];
  return {
    stuck: nullableCount(given, "stuck", base.stuck, 2),
    oscillation: nullableCount(given, "oscillation", base.oscillation, 4),
    regression: regression === null ? null : within(given, "regression", base.regression ?? 0, { least: 0, most: 100 }),
    burn: nullableCount(given, "burn", base.burn, 2),
  };
}

function parseWeights(given: JsonObject): RalphOptions["qualityWeights"] {
  const base = defaultRalphOptions.qualityWeights;
  checkNames("ralph qualityWeights", given, DIMENSIONS);
  const weight = (name: Dimension): number => within(given, name, base[name], { least: 0, most: 1_000_000 });
  const weights = {
    validation: weight("validation"),
    completeness: weight("completeness"),
    correctness: weight("correctness"),
    readability: weight("readability"),
    efficiency: weight("efficiency"),
  };
  if (DIMENSIONS.every((name) => weights[name] === 0))
    throw optionError("qualityWeights", given, "one above 0 at least");
  return weights;
}

function parseLoopId(given: JsonObject): string | null {
  const id = nullableText(given, "loopId");
  if (id === null || (LOOP_ID.test(id) && id.length <= 100)) return id;
  throw optionError("loopId", id, "ralph-, words of a-z and 0-9, and 8 hex digits, such as ralph-fix-tests-a1b2c3d4");
}

function parseModel(given: JsonObject): string | null {
  const model = nullableText(given, "model");
  return model === null ? null : checkAgentName("model", model);
}

function nullableCount(given: JsonObject, name: string, otherwise: number | null, least = 1): number | null {
  const value = given[name];
  if (value === undefined) return otherwise;
  return value === null ? null : count(given, name, 0, least);
}

function asObject(name: string, value: Json): JsonObject {
  if (isJsonObject(value)) return value;
  throw optionError(name, value, "an object");
}

/** A unit of work: the agent gets `instructions` repeatedly until all `checks` pass, at most `attempts` times. */
export interface Unit {
  readonly name: string;
  readonly instructions: string;
  /** Empty: only the agent's own "completed" counts. */
  readonly checks: readonly Check[];
  /** null: limited only by maxIterations. */
  readonly attempts: number | null;
}

/** The units of a run in order; never empty. Every difference between the workflow types is here. */
export function planUnits(options: RalphOptions): readonly Unit[] {
  const { workflowType, task, until, steps, skill, attempts } = options;
  switch (workflowType) {
    case "ralph_loop":
      return [{ name: "loop", instructions: task, checks: until, attempts: null }];
    case "agent_task":
      return [{ name: "task", instructions: task, checks: until, attempts }];
    case "skill_execution":
      return [{ name: skill?.name ?? "skill", instructions: skillText(options), checks: until, attempts }];
    case "flow_command":
      // The last step also has the criterion of the whole flow, because only then can it pass.
      return steps.map((step, place) => ({
        name: step.name,
        instructions: step.prompt,
        checks: place === steps.length - 1 ? [...step.until, ...until] : step.until,
        attempts,
      }));
  }
}

const PLACE = "$ARGUMENTS";

function skillText({ skill, task }: RalphOptions): string {
  if (skill === null) return task;
  if (skill.text.includes(PLACE)) return skill.text.replaceAll(PLACE, () => skill.arguments);
  return skill.arguments === "" ? skill.text : `${skill.text}\n\nArguments: ${skill.arguments}`;
}

/** The form that the published schema of loop checkpoints requires. */
export const LOOP_ID = /^ralph-[a-z0-9-]+-[a-f0-9]{8}$/;

/**
 * Builds an id like "ralph-fix-the-tests-a1b2c3d4": the first words of the task and the given eight hex digits. Always
 * matches LOOP_ID and the length of a run id. A task without a Latin letter or digit becomes "task". Throws USAGE for
 * other digits.
 */
export function makeLoopId(params: { readonly task: string; readonly hex: string }): string {
  if (!/^[a-f0-9]{8}$/.test(params.hex)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `A loop id ends with 8 lower-case hex digits, not ${JSON.stringify(params.hex)}`,
    });
  }
  return makeRunId({ work: { kind: "task", text: params.task }, random: params.hex, prefix: "ralph-" });
}

/** The retention rules of a loop's files, in the form that the store's retention planner uses. */
export function layoutRetention(settings: Omit<LayoutSettings, "mirror" | "directory">): RetentionPolicy {
  const { keep, maxAge, onSuccess, onFailure } = settings;
  return {
    ...loopRetention,
    defaultKeep: { keep, per: "run" },
    maxPerRun: keep,
    maxAgeDays: maxAge,
    onSuccess: onSuccess === "keep_latest" ? "latest_only" : "by_rules",
    onFailure: onFailure === "keep_all_recent" ? "keep_recent" : "by_rules",
    recentDays: maxAge ?? Number.MAX_SAFE_INTEGER,
  };
}
