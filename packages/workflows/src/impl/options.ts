// The options of the impl workflow: their types, defaults, parsing and deprecated spellings.

import type { JsonObject } from "@holdfast/core/json";
import { nullableText, optionError, score, texts } from "@holdfast/core/options";
import { usageError } from "@holdfast/platform/error";
import {
  type OptionsOf,
  countOption,
  flagOption,
  groupOption,
  modelOption,
  nullableCountOption,
  readOptions,
  wordOption,
} from "../options.ts";
import { parsePrompts } from "../prompts.ts";
import { parseGate } from "../worktree.ts";
import { parsePlan } from "./plan.ts";
import { IMPL_PROMPTS } from "./prompts.ts";

export const DIMENSIONS = ["faithful", "style", "docs", "cornerCases"] as const;
export type Dimension = (typeof DIMENSIONS)[number];

const TAGS = [
  "feat",
  "bugfix",
  "docs",
  "test",
  "refactor",
  "chore",
  "agent.skill",
  "agent.command",
  "agent.settings",
  "agent.workflow",
  "review",
  "sdk",
  "cli",
];

const OPTIONS = {
  maxIterations: countOption(10, 1),
  maxReviews: countOption(8, 1),
  /** What happens when `maxReviews` reviews have failed: continue to the pull request, or fail. */
  onMaxReviews: wordOption("proceed", ["proceed", "fatal"]),
  yolo: flagOption(false),
  waitForCi: flagOption(false),
  /** Whether the ci stage sends a person's change request back to implementation. */
  applyReviews: flagOption(true),
  implModel: modelOption,
  /** null: the same as implModel. */
  reviewModel: modelOption,
  review: flagOption(true),
  simplify: flagOption(false),
  simplifyFiles: countOption(3, 1),
  afterRebase: wordOption("review", ["review", "impl"]),
  thresholds: groupOption("impl thresholds", {
    faithful: scoreOption(90),
    style: scoreOption(85),
    docs: scoreOption(85),
    cornerCases: scoreOption(85),
  } satisfies Record<Dimension, unknown>),
  tags: parseTags,
  gate: (given: JsonObject) => parseGate("impl", given),
  /** Whether the gate first runs on the untouched base, before any agent call. */
  baseGate: flagOption(true),
  /** The user's plan, part of every implementation prompt. */
  plan: parsePlan,
  /** null: the default branch of the remote or the forge. */
  baseBranch: nullableText,
  draft: flagOption(false),
  /** Whether the pull request says that an agent made it. */
  attribution: flagOption(true),
  prompts: (given: JsonObject) => parsePrompts(IMPL_PROMPTS, given),
  agentTimeoutMs: nullableCountOption(null),
  ci: groupOption("impl ci", {
    /** First pause between two polls; it doubles up to one minute. */
    pollMs: countOption(5_000, 1),
    /** If checks are pending for longer than this, the run waits for CI. */
    timeoutMs: countOption(3_600_000, 1),
    /** Whether the repository requires a branch to be up to date before a merge. */
    rebaseWhenBehind: flagOption(false),
  }),
  limits: groupOption("impl limits", {
    prAttempts: countOption(6, 1),
    rebases: countOption(3, 0),
    parseStreak: countOption(3, 1),
    reviewStreak: countOption(4, 1),
    stuck: countOption(3, 1),
    simplifications: countOption(3, 0),
  }),
} as const;

/** The options of an impl run. The checkpoint's config keeps them, so that a resumed run uses the same options. */
export type ImplOptions = OptionsOf<typeof OPTIONS>;

export const defaultImplOptions: ImplOptions = readOptions("impl", OPTIONS, {});

/** Throws USAGE for an unknown name or an invalid value. Accepts old spellings and lists them in `warnings`. */
export function parseImplOptions(given: JsonObject): {
  readonly options: ImplOptions;
  readonly warnings: readonly string[];
} {
  const { current, warnings } = deprecatedSpellings(given);
  return { options: readOptions("impl", OPTIONS, current), warnings };
}

function scoreOption(otherwise: number) {
  return (given: JsonObject, name: string): number => score(given, name, otherwise);
}

function parseTags(given: JsonObject): readonly string[] {
  const tags = texts(given, "tags", TAGS);
  const bad = tags.find((tag) => !/^[^\s[\]]+$/.test(tag));
  if (bad !== undefined || tags.length === 0) throw optionError("tags", bad ?? [], "words without spaces and brackets");
  return tags;
}

/** Maps old spellings to current ones. */
const RENAMED: Readonly<Record<string, string>> = {
  backend: "implModel",
  maxIter: "maxIterations",
  enableReview: "review",
  enableSimp: "simplify",
};

/** Throws USAGE if both spellings of one option are given, because choosing one would be a guess. */
function deprecatedSpellings(given: JsonObject): {
  readonly current: JsonObject;
  readonly warnings: readonly string[];
} {
  const warnings: string[] = [];
  const entries = Object.entries(given).map(([name, value]) => {
    const current = Object.hasOwn(RENAMED, name) ? RENAMED[name] : undefined;
    if (current === undefined) return [name, value] as const;
    if (Object.hasOwn(given, current)) {
      throw usageError(
        `The impl workflow was given both ${name} and ${current}`,
        `Leave ${name} out: it is the old spelling of ${current}.`,
      );
    }
    warnings.push(`${name} is the old spelling of ${current}`);
    return [current, value] as const;
  });
  return { current: Object.fromEntries(entries), warnings };
}
