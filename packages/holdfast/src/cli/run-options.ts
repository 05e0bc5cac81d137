/** Turns flags and settings into the request to start a run: workflow, agent, options, limits and mode. */
import { basename, dirname } from "node:path";
import { AGENT_LIST } from "@holdfast/core/agent";
import { EXECUTION_MODES, type ExecutionConfig } from "@holdfast/core/checkpoint";
import { choiceHint } from "@holdfast/core/options";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import { createMasking } from "@holdfast/core/mask";
import type { Budget } from "@holdfast/core/position";
import type { Work } from "@holdfast/core/run";
import { MODEL, milliseconds, money } from "@holdfast/formats/setting-values";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type BuiltInName, DEFAULT_WORKFLOW } from "@holdfast/workflows/built-in";
import { parsePhase } from "@holdfast/workflows/crunch/phases";
import type { ImplSettings, WorkSettings } from "../config/work-settings.ts";
import type { Flags, Input } from "./command.ts";
import type { Consent } from "./consent.ts";
import { issueNumber } from "./operands.ts";
import { parseCount } from "./parse-arguments.ts";
import { readYolo, rejectOtherWorkflowFlags, runSpec } from "./run-flags.ts";

type RunInput = Input<(typeof runSpec)["flags"]>;

/** The values from the command line, over those of the config. */
export interface RunRequest {
  readonly work: Work;
  /** "impl", "crunch", "ralph", or the path of a file. */
  readonly workflow: string;
  readonly agent: string | null;
  /** The user typed --agent: it replaces every agent that a file names, in every role. */
  readonly agentTyped: boolean;
  /** Options of the workflow, without the contents of files: prompts, crunch's team settings, a loop's skill or flow. */
  readonly options: JsonObject;
  readonly limit: Budget["limit"];
  /** Limit of this session in milliseconds. */
  readonly sessionMs?: number;
  readonly mode: ExecutionConfig["mode"];
  /** null: generated if the mode needs one. */
  readonly seed: number | null;
}

export function readRequest(input: RunInput, settings: WorkSettings): RunRequest {
  const workflow = input.text("workflow") ?? DEFAULT_WORKFLOW;
  rejectOtherWorkflowFlags(input, workflow);
  const work = readWork(input, workflow);
  return {
    work,
    workflow,
    agent: modelOf("agent", input.text("agent")) ?? settings.agent,
    agentTyped: input.text("agent") !== undefined,
    options: optionsOf(workflow, work, input, settings),
    limit: { ...settings.budget, ...readLimits(input) },
    ...readSession(input),
    ...readMode(input, settings),
  };
}

/** A seed implies mode "seeded" unless another recording mode is set. An explicit --mode default conflicts with it. */
function readMode(input: RunInput, settings: WorkSettings): Pick<RunRequest, "mode" | "seed"> {
  const text = input.text("seed");
  const seed = text === undefined ? null : parseCount("seed", text);
  const named = EXECUTION_MODES.find((mode) => mode === input.text("mode"));
  if (seed !== null && named === "default")
    throw usageError("Both --seed and --mode default were given", "A run with a seed is recorded: remove one of them.");
  const config = seed !== null && settings.mode === "default" ? "seeded" : settings.mode;
  return { mode: named ?? config, seed };
}

function optionsOf(workflow: string, work: Work, input: RunInput, settings: WorkSettings): JsonObject {
  if (workflow === "crunch") return readCrunchOptions(input, settings);
  return workflow === "ralph" ? readRalphOptions(input, settings, work) : readOptions(input, settings);
}

/** Options of the impl workflow. */
function readOptions(input: OptionsInput, settings: WorkSettings): JsonObject {
  const { impl, models } = settings;
  const on = (name: "simplify" | "draft" | "wait-for-ci", fallback: boolean): boolean => input.on(name) || fallback;
  const gate = input.text("gate") ?? impl.gate;
  const implTyped = modelOf("impl-model", renamed(input, "impl-model", "backend"));
  const agentTyped = modelOf("agent", input.text("agent"));
  return {
    maxIterations: countOf("max-iterations", renamed(input, "max-iterations", "max-iter")) ?? impl.maxIterations,
    maxReviews: countOf("max-reviews", input.text("max-reviews")) ?? impl.maxReviews,
    onMaxReviews: impl.onMaxReviews,
    limits: limitsOf(impl.limits),
    review: reviewOf(input) ?? impl.review,
    simplify: input.on("enable-simp") || on("simplify", impl.simplify),
    yolo: readYolo(input, impl.yolo),
    waitForCi: on("wait-for-ci", impl.waitForCi),
    applyReviews: !input.on("ignore-reviews") && impl.applyReviews,
    draft: on("draft", impl.draft),
    attribution: impl.attribution,
    afterRebase: impl.afterRebase,
    implModel: implTyped ?? (agentTyped === undefined ? models.impl : null),
    // Without a reviewer of its own, the implementer does the review. A typed --agent together with --impl-model is the
    // reviewer.
    reviewModel:
      modelOf("review-model", input.text("review-model")) ??
      (agentTyped === undefined ? models.review : implTyped === undefined ? null : agentTyped),
    gate,
    baseGate: impl.baseGate,
    baseBranch: input.text("base") ?? impl.base,
    thresholds: { ...impl.thresholds },
    ...(impl.tags === null ? {} : { tags: [...impl.tags] }),
  };
}

type OptionsInput = Pick<RunInput, "on" | "text">;

/** The options of an imported run: from the config, with the agent that the user typed for the resume. */
export function readImportedRunOptions(
  workflow: string,
  agent: string | undefined,
  settings: WorkSettings,
): JsonObject {
  const typed = {
    on: () => false,
    text: (name: string) => (name === "agent" ? agent : undefined),
    texts: () => [],
    operand: () => undefined,
  };
  if (workflow === "ralph") return loopSettings(settings);
  return workflow === "crunch" ? readCrunchOptions(typed, settings) : readOptions(typed, settings);
}

/** Old spellings that the user typed, each with the current one. */
export function deprecatedFlags(input: RunInput): readonly string[] {
  const flags: Flags = runSpec.flags;
  const typed: { on(flag: string): boolean } = input;
  const spellings = Object.entries(flags).flatMap(([name, { instead }]) =>
    instead !== undefined && typed.on(name) ? [`--${name} is deprecated: use ${instead}`] : [],
  );
  const target = input.text("workflow") === "crunch" ? shortTarget(input) : undefined;
  return target === undefined ? spellings : [...spellings, `-t ${target} is deprecated: use --target ${target}`];
}

/** The settings of impl's rare limits, by the names of the options. */
function limitsOf({ parseFailures, reviewFailures, ...limits }: ImplSettings["limits"]): JsonObject {
  return { ...limits, parseStreak: parseFailures, reviewStreak: reviewFailures };
}

/** Limits that `resume` and `run --resume` can raise. */
const COMMON_LIMITS = ["max", "max-iterations", "max-reviews"] as const;

/** Limits that only `resume` can raise; a new run has them from the config. */
export const RARE_LIMITS = [
  "max-pr-attempts",
  "max-rebases",
  "max-parse-failures",
  "max-review-failures",
  "max-stuck",
  "max-simplifications",
] as const;

/** Limits of the run's workflow that were typed for a resume, by the name of their flag. */
export function readWorkflowLimits<Rare extends (typeof RARE_LIMITS)[number] = never>(
  input: {
    text(name: "target" | (typeof COMMON_LIMITS)[number] | Rare): string | undefined;
    texts(name: "until"): readonly string[];
  },
  rare: readonly Rare[] = [],
): JsonObject {
  const counts = [...COMMON_LIMITS, ...rare].map((flag) => given(flag, countOf(flag, input.text(flag))));
  const until = input.texts("until");
  if (until.some((command) => command.trim() === "")) throw emptyCheck();
  return Object.assign({}, given("target", input.text("target")), until.length === 0 ? {} : { until }, ...counts);
}

/** Only the typed limits: a limit that is not named does not change. */
export function readLimits(
  input: Pick<Input<Pick<(typeof runSpec)["flags"], "max-tokens" | "max-cost" | "max-total-time">>, "text">,
): Partial<Budget["limit"]> {
  const tokens = input.text("max-tokens");
  const cost = input.text("max-cost");
  const time = input.text("max-total-time");
  return {
    ...(tokens === undefined ? {} : { tokens: tokens === "none" ? null : (countOf("max-tokens", tokens) ?? null) }),
    ...(cost === undefined ? {} : { microUsd: amount("max-cost", cost, money, "US dollars such as 2.50") }),
    ...(time === undefined
      ? {}
      : { milliseconds: amount("max-total-time", time, milliseconds, "a duration such as 2h") }),
  };
}

/** The flags that `readLimits` reads as these limits, each with a leading blank. */
export function limitFlags({ tokens, microUsd, milliseconds: time }: Partial<Budget["limit"]>): string {
  const flag = (name: string, value: number | null | undefined, text: (value: number) => string): string =>
    value === undefined ? "" : ` --${name} ${value === null ? "none" : text(value)}`;
  return [
    flag("max-tokens", tokens, String),
    flag("max-cost", microUsd, (value) => String(value / 1_000_000)),
    flag("max-total-time", time, (value) => `${Math.ceil(value / 1000)}s`),
  ].join("");
}

/** `--max-time`: applies to this session only. */
export function readSession(input: Pick<Input<Pick<(typeof runSpec)["flags"], "max-time">>, "text">): {
  readonly sessionMs?: number;
} {
  const time = input.text("max-time");
  const sessionMs = time === undefined ? null : amount("max-time", time, milliseconds, "a duration such as 2h");
  return sessionMs === null ? {} : { sessionMs };
}

function amount(
  flag: string,
  text: string,
  parse: (text: string) => number | undefined,
  expected: string,
): number | null {
  if (text === "none") return null;
  const parsed = parse(text);
  if (parsed !== undefined) return parsed;
  throw usageError(`--${flag} cannot be "${text}"`, `Give ${expected}, or none.`);
}

function readWork(input: RunInput, workflow: string): Work {
  const typed = input.operand(0) ?? input.text("issue");
  const isTarget = workflow === "crunch" && shortTarget(input) !== undefined;
  const task = isTarget ? undefined : (input.text("task") ?? input.text("input"));
  if (typed !== undefined && task !== undefined)
    throw usageError("Both an issue and --task were given", "A run works on one of them: remove the other.");
  if (task !== undefined) {
    if (task.trim() === "") throw usageError("--task is empty", "Describe the work in a sentence.");
    // Masked as the store does: the same task is the same run.
    return { kind: "task", text: createMasking().mask(task) };
  }
  const named = workflow === "ralph" && typed === undefined ? namedByFile(input) : null;
  if (named !== null) return named;
  if (typed === undefined)
    throw usageError(
      "Neither an issue nor a task was given",
      'Name an issue (`holdfast run 42`) or a task (`holdfast run --task "..."`).',
    );
  const number = issueNumber(typed);
  if (number !== undefined) return { kind: "issue", number };
  throw usageError(
    `"${typed}" is not an issue number`,
    `For a task in words: \`holdfast run --task ${JSON.stringify(typed)}\`.`,
  );
}

function reviewOf(input: OptionsInput): boolean | undefined {
  const yes = input.on("review") || input.on("enable-review");
  if (yes && input.on("no-review"))
    throw usageError("Both --review and --no-review were given", "Leave one of them out.");
  return yes ? true : input.on("no-review") ? false : undefined;
}

function renamed<Now extends "impl-model" | "max-iterations", Old extends "backend" | "max-iter">(
  input: OptionsInput,
  now: Now,
  old: Old,
): string | undefined {
  const [current, former] = [input.text(now), input.text(old)];
  if (current !== undefined && former !== undefined)
    throw usageError(`Both --${now} and --${old} were given`, `Leave --${old} out: it is the old spelling.`);
  return current ?? former;
}

export function modelOf(flag: string, text: string | undefined): string | undefined {
  if (text === undefined || MODEL.test(text)) return text;
  throw usageError(
    `--${flag} cannot be "${text}"`,
    `Give provider or provider:model, such as claude:opus; the providers are ${AGENT_LIST}.`,
  );
}

function countOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const count = parseCount(flag, text);
  if (count > 0) return count;
  throw usageError(`--${flag} 0 would do nothing`, `Give a number of 1 or more.`);
}

/**
 * Options of the crunch workflow, without the files of the repository. Settings that impl and crunch share are
 * configured once.
 */
function readCrunchOptions(
  input: Pick<RunInput, "on" | "text" | "texts" | "operand">,
  { impl }: WorkSettings,
): JsonObject {
  const parallel = input.text("max-parallel");
  return {
    ...given("target", input.text("target") ?? shortTarget(input)),
    ...given("type", input.text("type")),
    ...(parallel === undefined ? {} : { maxParallel: parseCount("max-parallel", parallel) }),
    models: readModels(input.texts("model")),
    yolo: readYolo(input, impl.yolo),
    draft: input.on("draft") || impl.draft,
    attribution: impl.attribution,
    gate: input.text("gate") ?? impl.gate,
    baseBranch: input.text("base") ?? impl.base,
  };
}

/**
 * Crunch's own users write `-t ready` with an issue to name the target phase. Any other text is a task, which conflicts
 * with the issue.
 */
function shortTarget(input: Pick<RunInput, "text" | "operand">): string | undefined {
  const task = input.text("task");
  const issue = input.operand(0) ?? input.text("issue");
  return task !== undefined && issue !== undefined && parsePhase(task) !== null ? task : undefined;
}

function readModels(texts: readonly string[]): JsonObject {
  return Object.fromEntries(
    texts.map((text) => {
      const [, who, model] = /^([a-z0-9-]+)=(.+)$/.exec(text) ?? [];
      if (who !== undefined && model !== undefined) return [who, model];
      throw usageError(
        `--model cannot be "${text}"`,
        "Give a role or an agent and a model, such as quality=claude:haiku or dev-go=codex:gpt-5.",
      );
    }),
  );
}

function given(name: string, value: Json | undefined): JsonObject {
  return value === undefined ? {} : { [name]: value };
}

/**
 * Options of the ralph workflow, without the contents of files. An issue ends in a pull request, a task only on
 * request.
 */
function readRalphOptions(input: RunInput, settings: WorkSettings, work: Work): JsonObject {
  const { impl, ralph } = settings;
  const max = input.text("max") ?? input.text("max-iterations");
  if (input.text("max") !== undefined && input.text("max-iterations") !== undefined)
    throw usageError("Both --max and --max-iterations were given", "They mean the same: remove one of them.");
  return {
    ...loopSettings(settings),
    workflowType: typeOf(input),
    until: readChecks(input, ralph),
    ...given("maxIterations", countOf("max", max)),
    ...given("attempts", countOf("attempts", input.text("attempts"))),
    onStuck: input.text("on-stuck") ?? ralph.onStuck,
    firstCheck: !input.on("no-first-check") && ralph.firstCheck,
    pullRequest: work.kind === "issue" || input.on("pr"),
    draft: input.on("draft") || impl.draft,
    attribution: impl.attribution,
    baseBranch: input.text("base") ?? impl.base,
    yolo: readYolo(input, impl.yolo),
  };
}

/** Options of the ralph workflow that the config sets. */
function loopSettings({ impl, ralph }: WorkSettings): JsonObject {
  return {
    until: ralph.until.map((command) => ({ command, timeoutMs: ralph.untilTimeoutMs })),
    maxIterations: ralph.maxIterations,
    memory: { capacity: ralph.memory, policy: ralph.memoryPolicy },
    onStuck: ralph.onStuck,
    detection: { ...ralph.detection },
    qualityWeights: { ...ralph.quality },
    tokensPerIteration: ralph.tokensPerIteration,
    firstCheck: ralph.firstCheck,
    draft: impl.draft,
    baseBranch: impl.base,
    yolo: impl.yolo,
  };
}

/** The work if only a file names it: a skill or a flow, by its name. */
function namedByFile(input: Pick<RunInput, "text">): Work | null {
  const skill = input.text("skill");
  if (skill !== undefined) return { kind: "task", text: `Run the skill ${nameOf(skill)}` };
  const flow = input.text("flow");
  return flow === undefined ? null : { kind: "task", text: `Run the flow ${nameOf(flow)}` };
}

/** Read once, when the run starts: it continues with the same text even if the file changes. */
export async function readRalphFiles(
  input: Pick<RunInput, "text">,
  read: (path: string) => Promise<string>,
): Promise<JsonObject> {
  const [skill, flow] = [input.text("skill"), input.text("flow")];
  const given = input.text("task") ?? "";
  if (skill !== undefined) return { skill: { name: nameOf(skill), text: await read(skill), arguments: given } };
  if (flow === undefined) return {};
  const text = await read(flow);
  if (!/\.(?:ya?ml|json)$/i.test(flow))
    return { steps: [{ name: nameOf(flow), prompt: text.replaceAll("$ARGUMENTS", given) }] };
  const { parseYaml } = await import("@holdfast/platform/yaml");
  const parsed = parseYaml(text);
  const [fault] = parsed.ok ? [] : parsed.faults;
  if (!parsed.ok) throw usageError(`${flow} cannot be read: ${fault?.message ?? "it is not YAML"}`, STEPS);
  // YAML.parse returns JSON, except for values that the options' own parser rejects by name.
  const value = parsed.value as Json;
  const steps = isJsonObject(value) ? value["steps"] : value;
  if (steps === undefined) throw usageError(`${flow} has no steps`, STEPS);
  return { steps };
}

const STEPS = "Give a list `steps:`, each with a name, a prompt and optionally until; see docs/ralph.md.";

/** `--skill` and `--flow` imply the type. */
function typeOf(input: RunInput): string {
  const [skill, flow] = [input.text("skill"), input.text("flow")];
  if (skill !== undefined && flow !== undefined)
    throw usageError("Both --skill and --flow were given", "A run has one of them: remove the other.");
  const named = skill !== undefined ? "skill_execution" : flow !== undefined ? "flow_command" : undefined;
  const type = input.text("type") ?? named ?? "ralph_loop";
  if (!TYPES.includes(type))
    throw usageError(`--type cannot be "${type}" with the ralph workflow`, choiceHint(type, TYPES));
  if (named !== undefined && type !== named)
    throw usageError(
      `--type ${type} does not go with --${named === "flow_command" ? "flow" : "skill"}`,
      "Leave --type out.",
    );
  if (type === "skill_execution" && skill === undefined)
    throw usageError("--type skill_execution needs a skill", "Name its file: --skill .claude/skills/NAME/SKILL.md.");
  if (type === "flow_command" && flow === undefined)
    throw usageError(
      "--type flow_command needs a flow",
      "Name its file: --flow steps.yaml, or a command such as --flow .claude/commands/NAME.md.",
    );
  return type;
}

const TYPES: readonly string[] = ["ralph_loop", "flow_command", "skill_execution", "agent_task"];

function readChecks(input: RunInput, ralph: WorkSettings["ralph"]): readonly JsonObject[] {
  const typed = input.texts("until");
  const commands = typed.length > 0 ? typed : ralph.until;
  if (commands.some((command) => command.trim() === "")) throw emptyCheck();
  if (commands.length === 0 && typeOf(input) === "ralph_loop")
    throw usageError(
      "A loop needs a check: --until is missing",
      'Give a command that succeeds when the work is done: --until "npm test". For a single task: --type agent_task.',
    );
  return commands.map((command) => ({ command, timeoutMs: ralph.untilTimeoutMs }));
}

function emptyCheck(): HoldfastError {
  return usageError("--until is empty", 'Give the command that checks the work, such as --until "npm test".');
}

/** `.claude/skills/review/SKILL.md` is "review", `release.yaml` is "release". */
function nameOf(path: string): string {
  const name = basename(path).replace(/\.[a-z]+$/i, "");
  return name === "SKILL" ? basename(dirname(path)) : name;
}

/** The option `prompts` of a run. The run stores the texts and keeps them, even if a file changes. */
export async function promptsOf(
  consent: Pick<Consent, "promptFiles">,
  workflow: BuiltInName,
  settings?: Pick<ImplSettings, "prompts">,
): Promise<JsonObject> {
  const { readPrompts } = await import("../config/workflow-settings.ts");
  const own = await readPrompts(workflow, await consent.promptFiles(), settings?.prompts ?? {});
  return Object.fromEntries(Object.entries(own).map(([name, { text }]) => [name, { text }]));
}
