import { createMasking } from "../../../system/own-secrets.ts";
import type { ExecutionConfig } from "../../../core/checkpoint/checkpoint.ts";
import type { JsonObject } from "../../../core/json.ts";
import { AGENT_LIST } from "../../../core/agent/agent-names.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Budget } from "../../../core/position/position.ts";
import type { Work } from "../../../core/run/run.ts";
import { MODEL } from "../../../config/model-name.ts";
import { milliseconds, money } from "../../../config/amount.ts";
import { EXECUTION_MODES } from "../../../core/run/execution-mode.ts";
import type { WorkSettings } from "../../../config/work-settings.ts";
import type { Input } from "../../command.ts";
import { issueNumber } from "../../find-run.ts";
import { parseCount } from "../../parse-count.ts";
import { readYolo, refuseOtherFlags } from "./flags-of-workflows.ts";
import { readCrunchOptions, shortTarget } from "./read-crunch-options.ts";
import { namedByFile, readRalphOptions } from "./read-ralph-options.ts";
import { runSpec } from "./spec.ts";

type RunInput = Input<(typeof runSpec)["flags"]>;

/** What was asked for on the command line, over what the config says. */
export interface RunRequest {
  readonly work: Work;
  /** "impl", "crunch", "ralph", or the path of a file. */
  readonly workflow: string;
  readonly agent: string | null;
  /** --agent was typed: it replaces every agent that a file names, whatever its role. */
  readonly agentTyped: boolean;
  /** Of the workflow, without the texts of files: prompts, what crunch's teams are made of, a loop's skill or flow. */
  readonly options: JsonObject;
  readonly limit: Budget["limit"];
  /** Of this session; null: as long as it takes. */
  readonly sessionMs: number | null;
  readonly mode: ExecutionConfig["mode"];
  /** null: made up where the mode needs one. */
  readonly seed: number | null;
}

export function readRequest(input: RunInput, settings: WorkSettings): RunRequest {
  const workflow = input.text("workflow") ?? "impl";
  refuseOtherFlags(input, workflow);
  const work = readWork(input, workflow);
  return {
    work,
    workflow,
    agent: modelOf("agent", input.text("agent")) ?? settings.agent,
    agentTyped: input.text("agent") !== undefined,
    options: optionsOf(workflow, work, input, settings),
    limit: { ...settings.budget, ...readLimits(input) },
    sessionMs: readSession(input),
    ...readMode(input, settings),
  };
}

/** A seed means the mode; only a mode that says otherwise is in its way. */
function readMode(input: RunInput, settings: WorkSettings): Pick<RunRequest, "mode" | "seed"> {
  const text = input.text("seed");
  const seed = text === undefined ? null : parseCount("seed", text);
  const named = EXECUTION_MODES.find((mode) => mode === input.text("mode"));
  if (seed !== null && named === "default")
    throw usage("Both --seed and --mode default were given", "A run with a seed is recorded: leave one of them out.");
  const config = seed !== null && settings.mode === "default" ? "seeded" : settings.mode;
  return { mode: named ?? config, seed };
}

function optionsOf(workflow: string, work: Work, input: RunInput, settings: WorkSettings): JsonObject {
  if (workflow === "crunch") return readCrunchOptions(input, settings);
  return workflow === "ralph" ? readRalphOptions(input, settings, work) : readOptions(input, settings);
}

/** Of the impl workflow. */
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
    review: reviewOf(input) ?? impl.review,
    simplify: input.on("enable-simp") || on("simplify", impl.simplify),
    yolo: readYolo(input, impl.yolo),
    waitForCi: on("wait-for-ci", impl.waitForCi),
    heedReviews: !input.on("ignore-reviews") && impl.heedReviews,
    draft: on("draft", impl.draft),
    afterRebase: impl.afterRebase,
    implModel: implTyped ?? (agentTyped === undefined ? models.impl : null),
    // Without a reviewer of its own the review is done by the implementer. A typed --agent beside --impl-model is the reviewer.
    reviewModel:
      modelOf("review-model", input.text("review-model")) ??
      (agentTyped === undefined ? models.review : implTyped === undefined ? null : agentTyped),
    gate,
    baseBranch: input.text("base") ?? impl.base,
    thresholds: { ...impl.thresholds },
    ...(impl.tags === null ? {} : { tags: [...impl.tags] }),
  };
}

type OptionsInput = Pick<RunInput, "on" | "text">;

/** The options of an imported run: from the config, with the agent that was typed for the resume. */
export function readAdoptedOptions(agent: string | undefined, settings: WorkSettings): JsonObject {
  return readOptions({ on: () => false, text: (name) => (name === "agent" ? agent : undefined) }, settings);
}

/** Old spellings that were used, each with what to write today. */
export function oldSpellings(input: RunInput): readonly string[] {
  const used = {
    backend: input.text("backend") !== undefined,
    "max-iter": input.text("max-iter") !== undefined,
    "enable-review": input.on("enable-review"),
    "enable-simp": input.on("enable-simp"),
    issue: input.text("issue") !== undefined,
    input: input.text("input") !== undefined,
  } as const;
  const spellings = (["backend", "max-iter", "enable-review", "enable-simp", "issue", "input"] as const)
    .filter((name) => used[name])
    .map((name) => `--${name} is an old spelling: write ${runSpec.flags[name].instead}`);
  const target = input.text("workflow") === "crunch" ? shortTarget(input) : undefined;
  return target === undefined ? spellings : [...spellings, `-t ${target} is an old spelling: write --target ${target}`];
}

/** Only what was given: a limit that is not named stays as it is. */
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

/** `--max-time`: of what is begun now, and of nothing that comes after it. */
export function readSession(input: Pick<Input<Pick<(typeof runSpec)["flags"], "max-time">>, "text">): number | null {
  const time = input.text("max-time");
  return time === undefined ? null : amount("max-time", time, milliseconds, "a duration such as 2h");
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
  throw usage(`--${flag} cannot be "${text}"`, `Give ${expected}, or none.`);
}

function readWork(input: RunInput, workflow: string): Work {
  const typed = input.operand(0) ?? input.text("issue");
  const isTarget = workflow === "crunch" && shortTarget(input) !== undefined;
  const task = isTarget ? undefined : (input.text("task") ?? input.text("input"));
  if (typed !== undefined && task !== undefined)
    throw usage("Both an issue and --task were given", "A run has one piece of work: leave one of them out.");
  if (task !== undefined) {
    if (task.trim() === "") throw usage("--task is empty", "Say in a sentence what shall be done.");
    // As it is stored: the same task is the same run.
    return { kind: "task", text: createMasking().mask(task) };
  }
  const named = workflow === "ralph" && typed === undefined ? namedByFile(input) : null;
  if (named !== null) return named;
  if (typed === undefined)
    throw usage(
      "What shall be worked on?",
      'Name an issue (`holdfast run 42`) or a task (`holdfast run --task "..."`).',
    );
  const number = issueNumber(typed);
  if (number !== undefined) return { kind: "issue", number };
  throw usage(
    `"${typed}" is no issue number`,
    `For a task in words: \`holdfast run --task ${JSON.stringify(typed)}\`.`,
  );
}

function reviewOf(input: OptionsInput): boolean | undefined {
  const yes = input.on("review") || input.on("enable-review");
  if (yes && input.on("no-review")) throw usage("Both --review and --no-review were given", "Leave one of them out.");
  return yes ? true : input.on("no-review") ? false : undefined;
}

function renamed<Now extends "impl-model" | "max-iterations", Old extends "backend" | "max-iter">(
  input: OptionsInput,
  now: Now,
  old: Old,
): string | undefined {
  const [current, former] = [input.text(now), input.text(old)];
  if (current !== undefined && former !== undefined)
    throw usage(`Both --${now} and --${old} were given`, `Leave --${old} out: it is the old spelling.`);
  return current ?? former;
}

export function modelOf(flag: string, text: string | undefined): string | undefined {
  if (text === undefined || MODEL.test(text)) return text;
  throw usage(
    `--${flag} cannot be "${text}"`,
    `Give provider or provider:model, such as claude:opus; the providers are ${AGENT_LIST}.`,
  );
}

function countOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const count = parseCount(flag, text);
  if (count > 0) return count;
  throw usage(`--${flag} 0 would do nothing`, `Give a number from 1 on.`);
}

function usage(message: string, hint: string): HoldfastError {
  return new HoldfastError({ code: "USAGE", message, hint });
}
