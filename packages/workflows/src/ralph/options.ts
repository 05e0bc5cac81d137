import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import {
  checkOptions,
  count,
  flag,
  nullableText,
  optionError,
  record,
  text,
  within,
  word,
} from "@holdfast/core/options";
import { type RetentionPolicy, loopRetention } from "@holdfast/core/retention";
import { makeRunId } from "@holdfast/core/run";
import { HoldfastError } from "@holdfast/platform/error";

/** What a run of `ralph` is told: the loop itself, and what becomes of its work. Kept in the checkpoint's config. */
export interface LoopOptions extends RalphOptions {
  /** Is the criterion asked before the first iteration? One that holds already costs nothing then. */
  readonly firstCheck: boolean;
  /** Does it end in a pull request, or with the commits on its branch? */
  readonly pullRequest: boolean;
  readonly draft: boolean;
  /** null: as the remote or the forge says. */
  readonly baseBranch: string | null;
}

/** USAGE for a name that nobody reads and for a value that does not fit. */
export function parseLoopOptions(given: JsonObject): LoopOptions {
  const { firstCheck: _first, pullRequest: _request, draft: _draft, baseBranch: _base, ...loop } = given;
  return {
    ...parseRalphOptions(loop),
    firstCheck: flag(given, "firstCheck", true),
    pullRequest: flag(given, "pullRequest", false),
    draft: flag(given, "draft", false),
    baseBranch: nullableText(given, "baseBranch"),
  };
}

/** What is persisted: parsed once more it gives the same options. */
export function loopOptionsJson(options: LoopOptions): JsonObject {
  const { firstCheck, pullRequest, draft, baseBranch, ...loop } = options;
  return { ...ralphOptionsJson(loop), firstCheck, pullRequest, draft, baseBranch };
}

/**
 * What a run is for. All four run on one workflow: what differs is which units of work they are made of (see planUnits).
 * ralph_loop: one task, again and again until the criterion holds. flow_command: named steps in their order, each with a prompt and, where
 * it has one, a check of its own. skill_execution: the text of one skill with its arguments. agent_task: one task with few tries.
 */
export const WORKFLOW_TYPES = ["ralph_loop", "flow_command", "skill_execution", "agent_task"] as const;
export type WorkflowType = (typeof WORKFLOW_TYPES)[number];

/** A command whose exit code 0 means yes. */
export type Check = { readonly command: string; readonly timeoutMs: number };
type FlowStep = { readonly name: string; readonly prompt: string; readonly until: readonly Check[] };
/** `$ARGUMENTS` in the text stands for the arguments; where it does not occur they follow the text. */
type Skill = { readonly name: string; readonly text: string; readonly arguments: string };

/** fifo: the oldest goes. recency: the one whose failure was longest not seen goes. relevance_weighted: the one that has least to do with the present failure. */
export const MEMORY_POLICIES = ["fifo", "recency", "relevance_weighted"] as const;
export type MemoryPolicy = (typeof MEMORY_POLICIES)[number];

export const DIMENSIONS = ["validation", "completeness", "correctness", "readability", "efficiency"] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/** null: not looked for. */
export interface Detection {
  /** So many iterations in a row with the same failure, or without any change of files. */
  readonly stuck: number | null;
  /** So many turns between the same two states: 4 is A, B, A, B. */
  readonly oscillation: number | null;
  /** So many points of quality below the best iteration. */
  readonly regression: number | null;
  /** So many newest iterations are the measure of what one more costs. */
  readonly burn: number | null;
}

/** What a run of `ralph` is told. Kept in the checkpoint's config, so a resumed run goes on with the same. */
export interface RalphOptions {
  readonly workflowType: WorkflowType;
  readonly task: string;
  /** The criterion: all of them exit with 0. A ralph_loop has at least one. */
  readonly until: readonly Check[];
  /** Of a flow_command, at least one, with names that differ; else empty. */
  readonly steps: readonly FlowStep[];
  /** Of a skill_execution; else null. */
  readonly skill: Skill | null;
  /** In all, whatever the units. */
  readonly maxIterations: number;
  /** How often one unit is tried, except that of a ralph_loop, which only maxIterations bounds. */
  readonly attempts: number;
  /** Working time of the run; null: no limit. */
  readonly maxMinutes: number | null;
  /** What an iteration may reasonably take, for the dimension efficiency; null: that is not judged. */
  readonly tokensPerIteration: number | null;
  readonly memory: { readonly capacity: number; readonly policy: MemoryPolicy };
  readonly detection: Detection;
  /** When it is stuck or goes back and forth. rollback: once to the best iteration, then stop. */
  readonly onStuck: "stop" | "ask" | "rollback";
  /** Relative: only their proportions matter. At least one is above 0. */
  readonly qualityWeights: Readonly<Record<Dimension, number>>;
  /** null: made when the run begins. */
  readonly loopId: string | null;
  /** Which loop goes first when there is room for one more: the higher number. */
  readonly priority: number;
  /** `provider:model`; null: the run's own. */
  readonly model: string | null;
  readonly yolo: boolean;
  readonly agentTimeoutMs: number | null;
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
};

/** USAGE for a name that nobody reads, for a value that does not fit, and for a type that lacks what it needs. */
export function parseRalphOptions(given: JsonObject): RalphOptions {
  const base = defaultRalphOptions;
  checkOptions("ralph", given, Object.keys(base));
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
  };
  return { ...parsed, task: parseTask(given, parsed) };
}

/** What is persisted: parsed once more it gives the same options. */
export function ralphOptionsJson(options: RalphOptions): JsonObject {
  const { memory, detection, qualityWeights, ...rest } = options;
  return { ...rest, memory: { ...memory }, detection: { ...detection }, qualityWeights: { ...qualityWeights } };
}

/** A flow and a skill say by themselves what is to be done; a task is what they serve. */
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

/** A bare text is one command; the timeout is ten minutes unless told. */
function parseChecks(given: JsonObject, name: string): readonly Check[] {
  const value = given[name];
  if (value === undefined || value === null) return [];
  return (isJsonArray(value) ? value : [value]).map((one) => {
    const check = typeof one === "string" ? { command: one } : asObject(name, one);
    checkOptions(`ralph ${name}`, check, ["command", "timeoutMs"]);
    return { command: text(check, "command"), timeoutMs: count(check, "timeoutMs", 600_000, 1) };
  });
}

function parseSteps(given: JsonObject): readonly FlowStep[] {
  const value = given["steps"];
  if (value === undefined || value === null) return [];
  if (!isJsonArray(value)) throw optionError("steps", value, "a list of steps");
  const steps = value.map((one) => {
    const step = asObject("steps", one);
    checkOptions("ralph steps", step, ["name", "prompt", "until"]);
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
  checkOptions("ralph skill", skill, ["name", "text", "arguments"]);
  const args = skill["arguments"] ?? "";
  if (typeof args !== "string") throw optionError("skill.arguments", args, "a text");
  return { name: text(skill, "name").slice(0, 100), text: text(skill, "text"), arguments: args };
}

function parseMemory(given: JsonObject): RalphOptions["memory"] {
  const base = defaultRalphOptions.memory;
  checkOptions("ralph memory", given, Object.keys(base));
  const capacity = count(given, "capacity", base.capacity, 1);
  if (capacity > 10) throw optionError("memory.capacity", capacity, "a whole number from 1 to 10");
  return { capacity, policy: word(given, "policy", base.policy, MEMORY_POLICIES) };
}

function parseDetection(given: JsonObject): Detection {
  const base = defaultRalphOptions.detection;
  checkOptions("ralph detection", given, Object.keys(base));
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
  checkOptions("ralph qualityWeights", given, DIMENSIONS);
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
  if (model === null || /^[^:\s]+:\S/.test(model)) return model;
  throw optionError("model", model, "`provider:model`, such as `scripted:demo.yaml`");
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

/** A piece of work: an agent is told `instructions` again and again until all of `checks` say yes, `attempts` times at most. */
export interface Unit {
  readonly name: string;
  readonly instructions: string;
  /** Empty: the agent's own "completed" is all there is. */
  readonly checks: readonly Check[];
  /** null: as often as maxIterations allows. */
  readonly attempts: number | null;
}

/** What the run is made of, in order; never empty. All that differs between the types of workflow is here. */
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
      // The criterion of the whole flow is the last step's too: only there can it hold.
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

/** As the published schema of loop checkpoints wants it. */
export const LOOP_ID = /^ralph-[a-z0-9-]+-[a-f0-9]{8}$/;

/**
 * "ralph-fix-the-tests-a1b2c3d4": the first words of the task, then the eight hex digits that were given (core makes up none). Always
 * fits LOOP_ID and a run id's length, whatever the task holds; one without a Latin letter or digit is called "task". USAGE for other digits.
 */
export function makeLoopId(params: { readonly task: string; readonly hex: string }): string {
  if (!/^[a-f0-9]{8}$/.test(params.hex)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `A loop id ends with 8 lower-case hex digits, not ${JSON.stringify(params.hex)}`,
    });
  }
  return `ralph-${makeRunId({ work: { kind: "task", text: params.task }, random: params.hex })}`;
}

/** What of a loop is also written where other tools look for it, and how much of it stays there. */
export interface LoopLayoutSettings {
  readonly mirror: boolean;
  /** Where `.aiwg` is; null: the main worktree, without a repository where one stands. */
  readonly directory: string | null;
  readonly keep: number;
  /** Days; null: age never drops. */
  readonly maxAge: number | null;
  readonly onSuccess: "keep_latest" | "by_rules";
  readonly onFailure: "keep_all_recent" | "by_rules";
}

/** As published. */
export const DEFAULT_LOOP_LAYOUT: LoopLayoutSettings = {
  mirror: true,
  directory: null,
  keep: 5,
  maxAge: 30,
  onSuccess: "keep_latest",
  onFailure: "keep_all_recent",
};

/** The rules that the files of a loop are kept by: the store's own planner knows them too. */
export function layoutRetention(settings: Omit<LoopLayoutSettings, "mirror" | "directory">): RetentionPolicy {
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

/** Runs whose number at work at once is limited. */
export interface SlotSettings {
  /** null: no limit. */
  readonly max: number | null;
  /** Names of their workflows. */
  readonly workflows: readonly string[];
}

export const DEFAULT_SLOTS: SlotSettings = { max: 4, workflows: ["ralph"] };
