// The options of the ralph workflow: the loop, its units of work, quality weights, detection and layout files.

import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { checkNames, count, nullableText, optionError, text } from "@holdfast/core/options";
import { type RetentionPolicy, loopRetention } from "@holdfast/core/retention";
import { makeRunId } from "@holdfast/core/run";
import { usageError } from "@holdfast/platform/error";
import type { LayoutSettings } from "../plugin.ts";
import {
  type OptionsOf,
  countOption,
  flagOption,
  groupOption,
  modelOption,
  nullableCountOption,
  readOptions,
  withinOption,
  wordOption,
} from "../options.ts";
import { type Prompts, parsePrompts } from "../prompts.ts";

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

const MOST_WEIGHT = 1_000_000;

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

const regressionPoints = withinOption(10, 0, 100);
const readDetection = groupOption("ralph detection", {
  /** Number of consecutive iterations with the same failure or without any file change. */
  stuck: nullableCountOption(3, 2),
  /** Number of turns between the same two states: 4 is A, B, A, B. */
  oscillation: nullableCountOption(4, 4),
  /** Points of quality below the best iteration. */
  regression: (given: JsonObject, name: string) => (given[name] === null ? null : regressionPoints(given, name)),
  /** Number of newest iterations over which the cost of an iteration is averaged. */
  burn: nullableCountOption(5, 2),
});
/** null: this detection is disabled. */
export type Detection = ReturnType<typeof readDetection>;

const readWeights = groupOption("ralph qualityWeights", {
  validation: withinOption(30, 0, MOST_WEIGHT),
  completeness: withinOption(25, 0, MOST_WEIGHT),
  correctness: withinOption(25, 0, MOST_WEIGHT),
  readability: withinOption(10, 0, MOST_WEIGHT),
  efficiency: withinOption(10, 0, MOST_WEIGHT),
} satisfies Record<Dimension, unknown>);

const OPTIONS = {
  workflowType: wordOption("ralph_loop", WORKFLOW_TYPES),
  task: (given: JsonObject, name: string) => (given[name] === undefined || given[name] === "" ? "" : text(given, name)),
  /** The criterion: all commands must exit with 0. A ralph_loop has at least one. */
  until: parseChecks,
  /** For a flow_command at least one, with unique names; otherwise empty. */
  steps: parseSteps,
  /** For a skill_execution; otherwise null. */
  skill: parseSkill,
  /** Total of all units. */
  maxIterations: countOption(200, 1),
  /** Attempts per unit. A ralph_loop ignores it: only maxIterations limits it. */
  attempts: countOption(3, 1),
  /** Working time of the run; null: no limit. */
  maxMinutes: nullableCountOption(null),
  /** Tokens that an iteration may use, for the efficiency dimension; null: not measured. */
  tokensPerIteration: nullableCountOption(null),
  memory: groupOption("ralph memory", { capacity: parseCapacity, policy: wordOption("fifo", MEMORY_POLICIES) }),
  detection: readDetection,
  /**
   * What happens when the loop is stuck or oscillates. rollback: restores the best iteration, once for each best, then
   * stops.
   */
  onStuck: wordOption("stop", ["stop", "ask", "rollback"]),
  /** Relative weights: only their proportions matter. At least one is above 0. */
  qualityWeights: parseWeights,
  /** null: created when the run begins. */
  loopId: parseLoopId,
  /** Decides which loop gets the next free slot: the highest number. */
  priority: withinOption(0, -1000, 1000),
  model: modelOption,
  yolo: flagOption(false),
  agentTimeoutMs: nullableCountOption(null),
  /** Whether the criterion is checked before the first iteration. If it already passes, the loop costs nothing. */
  firstCheck: flagOption(true),
  /** Whether the loop ends in a pull request or only with commits on its branch. */
  pullRequest: flagOption(false),
  draft: flagOption(false),
  /** Whether the pull request says that an agent made it. */
  attribution: flagOption(true),
  /** null: the default branch of the remote or the forge. */
  baseBranch: nullableText,
  prompts: (given: JsonObject) => parsePrompts(RALPH_PROMPTS, given),
} as const;

/** The options of a ralph run. The checkpoint's config keeps them, so that a resumed run uses the same options. */
export type RalphOptions = OptionsOf<typeof OPTIONS>;

/** The task and the work of the workflow type have no default. */
export const defaultRalphOptions: RalphOptions = readOptions("ralph", OPTIONS, {});

/** Throws USAGE for an unknown name, an invalid value, or a type without its required options. */
export function parseRalphOptions(given: JsonObject): RalphOptions {
  const options = readOptions("ralph", OPTIONS, given);
  return { ...options, task: taskOf(given, options) };
}

/** A flow and a skill define their own work; their task is optional context. */
function taskOf(given: JsonObject, options: RalphOptions): string {
  const { workflowType, task, until, steps, skill } = options;
  if (workflowType !== "flow_command" && steps.length > 0)
    throw optionError("steps", steps.length, `workflowType "flow_command" with it`);
  if (workflowType !== "skill_execution" && skill !== null)
    throw optionError("skill", skill.name, `workflowType "skill_execution" with it`);
  switch (workflowType) {
    case "ralph_loop":
      if (until.length === 0) throw optionError("until", null, "the command that says when the loop is done");
      return text(given, "task");
    case "agent_task":
      return text(given, "task");
    case "flow_command":
      if (steps.length === 0) throw optionError("steps", null, "the steps of the flow: name, prompt, until");
      return task || `Carry out the flow: ${steps.map((step) => step.name).join(", ")}`;
    case "skill_execution":
      if (skill === null) throw optionError("skill", null, "the skill: name, text, arguments");
      return task || `Carry out the skill ${skill.name}`;
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

function parseCapacity(given: JsonObject): number {
  const capacity = count(given, "capacity", 3, 1);
  if (capacity <= 10) return capacity;
  throw optionError("memory.capacity", capacity, "a whole number from 1 to 10");
}

function parseWeights(given: JsonObject, name: string): ReturnType<typeof readWeights> {
  const weights = readWeights(given, name);
  if (DIMENSIONS.some((dimension) => weights[dimension] > 0)) return weights;
  throw optionError(name, given[name] ?? null, "one above 0 at least");
}

function parseLoopId(given: JsonObject): string | null {
  const id = nullableText(given, "loopId");
  if (id === null || (LOOP_ID.test(id) && id.length <= 100)) return id;
  throw optionError("loopId", id, "ralph-, words of a-z and 0-9, and 8 hex digits, such as ralph-fix-tests-a1b2c3d4");
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
    throw usageError(`A loop id ends with 8 lower-case hex digits, not ${JSON.stringify(params.hex)}`);
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
