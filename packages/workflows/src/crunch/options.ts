// The options of the crunch workflow and its transition table.

import { checkAgentName } from "@holdfast/core/agent";
import { type JsonObject, parseShape } from "@holdfast/core/json";
import { nullableText, optionError, record, text } from "@holdfast/core/options";
import type { TransitionTable, WorkflowShape } from "@holdfast/core/transitions";
import { type OptionsOf, countOption, flagOption, groupOption, readOptions } from "../options.ts";
import { type Prompts, parsePrompts } from "../prompts.ts";
import { parseGate } from "../worktree.ts";
import { defaultCrunchSettings } from "./default-settings.ts";
import { ISSUE_TYPES, parsePhase } from "./phases.ts";
import { type CrunchSettings, SETTINGS_SHAPE } from "./settings.ts";

type CrunchPrompt = "node" | "conflict" | "debate" | "continue";
/** The built-in templates are the files in prompts/. */
export const CRUNCH_PROMPTS: Prompts<CrunchPrompt> = {
  workflow: "crunch",
  table: {
    node: {
      required: ["about", "task_section", "deliver_section", "rule", "issue_section", "feedback_section", "reply_form"],
      optional: [
        "issue_no",
        "phase",
        "language_note",
        "outputs_section",
        "broadcasts_section",
        "findings_section",
        "answers_section",
        "decisions_section",
        "knowledge_section",
        "retry_section",
      ],
    },
    conflict: { required: ["files", "task", "diff_section", "reply_form"], optional: [] },
    continue: { required: [], optional: [] },
    debate: { required: ["topic", "positions", "position_form"], optional: ["about", "round"] },
  },
};

const OPTIONS = {
  /** The last phase to execute; "done" waits until the pull request is merged. */
  target: parseTarget,
  /** null: from the issue's labels, or a feature by default. */
  type: parseType,
  /** Maximum number of nodes that run in parallel. */
  maxParallel: countOption(3, 1),
  /** `provider:model` by role or by agent; an entry for the agent takes precedence. */
  models: parseModels,
  yolo: flagOption(false),
  gate: (given: JsonObject) => parseGate("crunch", given),
  /** null: the default branch of the remote or the forge. */
  baseBranch: nullableText,
  draft: flagOption(false),
  /** Whether the pull request says that an agent made it. */
  attribution: flagOption(true),
  limits: groupOption("crunch limits", {
    /** How often the end-to-end check may send the work back. */
    e2eFailures: countOption(3, 0),
    /** How often the failed nodes of a phase run again before the run accepts the failure or asks the user. */
    replays: countOption(1, 0),
  }),
  /** Agents, team, weights, veto rules and graphs: the user's files merged over the built-in settings. */
  settings: parseSettings,
  prompts: (given: JsonObject) => parsePrompts(CRUNCH_PROMPTS, given),
} as const;

/** The options of a crunch run. The checkpoint's config keeps them, so that a resumed run uses the same options. */
export type CrunchOptions = OptionsOf<typeof OPTIONS>;

export const defaultCrunchOptions: CrunchOptions = readOptions("crunch", OPTIONS, {});

/** Throws USAGE for an unknown name or an invalid value. */
export function parseCrunchOptions(given: JsonObject): CrunchOptions {
  return readOptions("crunch", OPTIONS, given);
}

/** Accepts "validation", the former name of e2e. */
function parseTarget(given: JsonObject): CrunchStage | "done" {
  const value = given["target"];
  if (value === undefined || value === null) return "ready-to-merge";
  const phase = typeof value === "string" ? parsePhase(value) : null;
  if (phase !== null && (phase === "done" || isCrunchStage(phase))) return phase;
  throw optionError("target", value, [...CRUNCH_STAGES, "done"]);
}

function parseType(given: JsonObject): "bug" | "feature" | null {
  const value = given["type"];
  if (value === undefined || value === null) return null;
  if (value === "bug" || value === "feature") return value;
  throw optionError(
    "type",
    value,
    ISSUE_TYPES.filter((type) => type !== "decomposition"),
  );
}

function parseModels(given: JsonObject): Readonly<Record<string, string>> {
  const models = record(given, "models");
  return Object.fromEntries(
    Object.keys(models).map((name) => [name, checkAgentName(`models.${name}`, text(models, name))]),
  );
}

function parseSettings(given: JsonObject): CrunchSettings {
  const value = given["settings"];
  if (value === undefined || value === null) return defaultCrunchSettings;
  return parseShape({ shape: SETTINGS_SHAPE, value, what: "The settings of crunch" });
}

/** Stages at which a run can stop: crunch's phases, as far as a run executes them. */
const CRUNCH_STAGES = ["enrich", "ready", "implementing", "e2e", "docs", "ready-to-merge"] as const;
export type CrunchStage = (typeof CRUNCH_STAGES)[number];

const CRUNCH_STAGE_EVENTS = [
  "enriched",
  "accepted",
  "implemented",
  "e2e_pass",
  "e2e_fail",
  "documented",
  "push_refused",
  "merged",
  /** The run has reached its target. */
  "at_target",
  "fatal",
] as const;
export type CrunchStageEvent = (typeof CRUNCH_STAGE_EVENTS)[number];

const TRANSITIONS: TransitionTable = {
  enrich: { enriched: "ready", at_target: "stopped", fatal: "fatal" },
  ready: { accepted: "implementing", at_target: "stopped", fatal: "fatal" },
  implementing: { implemented: "e2e", at_target: "stopped", fatal: "fatal" },
  e2e: { e2e_pass: "docs", e2e_fail: "implementing", at_target: "stopped", fatal: "fatal" },
  docs: { documented: "ready-to-merge", at_target: "stopped", fatal: "fatal" },
  "ready-to-merge": { merged: "done", push_refused: "implementing", at_target: "stopped", fatal: "fatal" },
};

/** The table does not depend on the options, so that a run whose target is raised uses the same table. */
export const CRUNCH_SHAPE: WorkflowShape = {
  name: "crunch",
  version: 1,
  initial: "enrich",
  stages: [...Object.keys(TRANSITIONS), "stopped", "done", "fatal"],
  events: CRUNCH_STAGE_EVENTS,
  transitions: TRANSITIONS,
  // A run at its target has succeeded although the issue is not done. `stopped` records where it ended.
  ends: { stopped: "done", done: "done", fatal: "failed" },
};

/** The stage after a successful one, where a run that stopped there continues. */
export function stageAfter(stage: CrunchStage): CrunchStage | "done" {
  return CRUNCH_STAGES[CRUNCH_STAGES.indexOf(stage) + 1] ?? "done";
}

export function isCrunchStage(stage: string): stage is CrunchStage {
  return CRUNCH_STAGES.some((one) => one === stage);
}
