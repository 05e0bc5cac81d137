// The options of the impl workflow: their types, defaults, parsing and deprecated spellings.

import { checkAgentName } from "@holdfast/core/agent";
import type { JsonObject } from "@holdfast/core/json";
import { checkNames, count, flag, nullableText, optionError, record, score, texts, word } from "@holdfast/core/options";
import { usageError } from "@holdfast/platform/error";
import { type PromptSources, parsePrompts, promptsJson } from "../prompts.ts";
import { parseGate } from "../worktree.ts";
import { type Plan, parsePlan } from "./plan.ts";
import { IMPL_PROMPTS, type PromptRole } from "./prompts.ts";

export type Dimension = "faithful" | "style" | "docs" | "cornerCases";

interface ImplLimits {
  readonly prAttempts: number;
  readonly rebases: number;
  readonly parseStreak: number;
  readonly reviewStreak: number;
  readonly stuck: number;
  readonly simplifications: number;
}

/** The options of an impl run. The checkpoint's config keeps them, so that a resumed run uses the same options. */
export interface ImplOptions {
  readonly maxIterations: number;
  readonly maxReviews: number;
  /** What happens when `maxReviews` reviews have failed: continue to the pull request, or fail. */
  readonly onMaxReviews: "proceed" | "fatal";
  readonly yolo: boolean;
  readonly waitForCi: boolean;
  /** Whether the ci stage sends a person's change request back to implementation. */
  readonly applyReviews: boolean;
  /** `provider:model`; null: the run's default model. */
  readonly implModel: string | null;
  /** null: the same as implModel. */
  readonly reviewModel: string | null;
  readonly review: boolean;
  readonly simplify: boolean;
  readonly simplifyFiles: number;
  readonly afterRebase: "review" | "impl";
  readonly thresholds: Readonly<Record<Dimension, number>>;
  readonly tags: readonly string[];
  readonly gate: { readonly command: string; readonly timeoutMs: number } | null;
  /** Whether the gate first runs on the untouched base, before any agent call. */
  readonly baseGate: boolean;
  /** The user's plan, part of every implementation prompt. */
  readonly plan: Plan | null;
  /** null: the default branch of the remote or the forge. */
  readonly baseBranch: string | null;
  readonly draft: boolean;
  /** Whether the pull request says that an agent made it. */
  readonly attribution: boolean;
  readonly prompts: PromptSources<PromptRole>;
  readonly agentTimeoutMs: number | null;
  readonly ci: CiOptions;
  readonly limits: ImplLimits;
}

interface CiOptions {
  /** First pause between two polls; it doubles up to one minute. */
  readonly pollMs: number;
  /** If checks are pending for longer than this, the run waits for CI. */
  readonly timeoutMs: number;
  /** Whether the repository requires a branch to be up to date before a merge. */
  readonly rebaseWhenBehind: boolean;
}

export const DIMENSIONS = ["faithful", "style", "docs", "cornerCases"] as const satisfies readonly Dimension[];

export const defaultImplOptions: ImplOptions = {
  maxIterations: 10,
  maxReviews: 8,
  onMaxReviews: "proceed",
  yolo: false,
  waitForCi: false,
  applyReviews: true,
  implModel: null,
  reviewModel: null,
  review: true,
  simplify: false,
  simplifyFiles: 3,
  afterRebase: "review",
  thresholds: { faithful: 90, style: 85, docs: 85, cornerCases: 85 },
  tags: [
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
  ],
  gate: null,
  baseGate: true,
  plan: null,
  baseBranch: null,
  draft: false,
  attribution: true,
  prompts: parsePrompts(IMPL_PROMPTS, {}),
  agentTimeoutMs: null,
  ci: { pollMs: 5_000, timeoutMs: 3_600_000, rebaseWhenBehind: false },
  limits: { prAttempts: 6, rebases: 3, parseStreak: 3, reviewStreak: 4, stuck: 3, simplifications: 3 },
};

/** Throws USAGE for an unknown name or an invalid value. Accepts old spellings and lists them in `warnings`. */
export function parseImplOptions(given: JsonObject): {
  readonly options: ImplOptions;
  readonly warnings: readonly string[];
} {
  const { current, warnings } = deprecatedSpellings(given);
  const base = defaultImplOptions;
  checkNames("impl", current, Object.keys(base));
  const options: ImplOptions = {
    maxIterations: count(current, "maxIterations", base.maxIterations, 1),
    maxReviews: count(current, "maxReviews", base.maxReviews, 1),
    onMaxReviews: word(current, "onMaxReviews", base.onMaxReviews, ["proceed", "fatal"]),
    yolo: flag(current, "yolo", base.yolo),
    waitForCi: flag(current, "waitForCi", base.waitForCi),
    applyReviews: flag(current, "applyReviews", base.applyReviews),
    implModel: model(current, "implModel"),
    reviewModel: model(current, "reviewModel"),
    review: flag(current, "review", base.review),
    simplify: flag(current, "simplify", base.simplify),
    simplifyFiles: count(current, "simplifyFiles", base.simplifyFiles, 1),
    afterRebase: word(current, "afterRebase", base.afterRebase, ["review", "impl"]),
    thresholds: parseThresholds(record(current, "thresholds")),
    tags: parseTags(current),
    gate: parseGate("impl", current),
    baseGate: flag(current, "baseGate", base.baseGate),
    plan: parsePlan(current),
    baseBranch: nullableText(current, "baseBranch"),
    draft: flag(current, "draft", base.draft),
    attribution: flag(current, "attribution", base.attribution),
    prompts: parsePrompts(IMPL_PROMPTS, current),
    agentTimeoutMs: current["agentTimeoutMs"] == null ? null : count(current, "agentTimeoutMs", 0, 1),
    ci: parseCi(record(current, "ci")),
    limits: parseLimits(record(current, "limits")),
  };
  return { options, warnings };
}

/** The options as stored JSON; parsing it again gives the same options. */
export function implOptionsJson(options: ImplOptions): JsonObject {
  const { thresholds, gate, plan, prompts, ci, limits, ...rest } = options;
  return {
    ...rest,
    thresholds: { ...thresholds },
    gate: gate === null ? null : { ...gate },
    plan: plan === null ? null : { ...plan },
    prompts: promptsJson(prompts),
    ci: { ...ci },
    limits: { ...limits },
  };
}

function model(given: JsonObject, name: string): string | null {
  const value = nullableText(given, name);
  return value === null ? null : checkAgentName(name, value);
}

function parseThresholds(given: JsonObject): ImplOptions["thresholds"] {
  checkNames("impl thresholds", given, DIMENSIONS);
  const base = defaultImplOptions.thresholds;
  return {
    faithful: score(given, "faithful", base.faithful),
    style: score(given, "style", base.style),
    docs: score(given, "docs", base.docs),
    cornerCases: score(given, "cornerCases", base.cornerCases),
  };
}

function parseTags(given: JsonObject): readonly string[] {
  const tags = texts(given, "tags", defaultImplOptions.tags);
  const bad = tags.find((tag) => !/^[^\s[\]]+$/.test(tag));
  if (bad !== undefined || tags.length === 0) throw optionError("tags", bad ?? [], "words without spaces and brackets");
  return tags;
}

function parseCi(given: JsonObject): CiOptions {
  const base = defaultImplOptions.ci;
  checkNames("impl ci", given, Object.keys(base));
  return {
    pollMs: count(given, "pollMs", base.pollMs, 1),
    timeoutMs: count(given, "timeoutMs", base.timeoutMs, 1),
    rebaseWhenBehind: flag(given, "rebaseWhenBehind", base.rebaseWhenBehind),
  };
}

function parseLimits(given: JsonObject): ImplLimits {
  const base = defaultImplOptions.limits;
  checkNames("impl limits", given, Object.keys(base));
  return {
    prAttempts: count(given, "prAttempts", base.prAttempts, 1),
    rebases: count(given, "rebases", base.rebases, 0),
    parseStreak: count(given, "parseStreak", base.parseStreak, 1),
    reviewStreak: count(given, "reviewStreak", base.reviewStreak, 1),
    stuck: count(given, "stuck", base.stuck, 1),
    simplifications: count(given, "simplifications", base.simplifications, 0),
  };
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
