/** The settings that runs of workflows use (agent, forge, limits, prices, error policy), with their defaults. */
import { resolve } from "node:path";
import type { AgentArgs } from "@holdfast/core/agent";
import { ASSUMED_TOKENS, type PriceTable } from "@holdfast/core/budget";
import { ALL_CHECKPOINTS, type CheckpointSwitches, type ExecutionMode } from "@holdfast/core/checkpoint";
import {
  type ErrorPolicy,
  type ErrorRule,
  type RetryPlan,
  defaultErrorPolicy,
  delaysOf,
} from "@holdfast/core/error-policy";
import type { FORMAT_NAMES } from "@holdfast/formats/format-names";
import { formatDuration, givenValues } from "@holdfast/formats/setting-values";
import { DEFAULT_LAYOUT, type LayoutSettings } from "@holdfast/workflows/plugin";
import { DEFAULT_SLOTS, type SlotSettings } from "@holdfast/workflows/built-in";
import { type RalphOptions, defaultRalphOptions } from "@holdfast/workflows/ralph/options";
import type { FileConfig, FileErrors, FileRetry } from "./schema.ts";

/** Settings for runs of a workflow: agent, forge, limits and prices. */
export interface WorkSettings {
  /** `provider:model`; null: the command line must name one. */
  readonly agent: string | null;
  /** The recording mode; docs/reproducibility.md. */
  readonly mode: ExecutionMode;
  readonly models: { readonly impl: string | null; readonly review: string | null };
  readonly agents: {
    /** Milliseconds without output after which an agent counts as hung; null: no limit. */
    readonly idleMs: number | null;
    /** Milliseconds between checkpoints while an agent works; null: none until the call has ended. */
    readonly checkpointEveryMs: number | null;
    /** The user's additional arguments for the agents' programs. */
    readonly args: AgentArgs;
    /** Environment variables that agents and gates get in addition to the default ones. */
    readonly env: readonly string[];
  };
  readonly forge: {
    /** "auto": detected from the remote. */
    readonly kind: "auto" | "local" | "github" | "gitlab" | "none";
    /** Path of the local forge; null: the remote's own directory. */
    readonly path: string | null;
    /** Host of GitHub or GitLab if the remote's URL does not name it; null: the remote's host. */
    readonly host: string | null;
  };
  readonly impl: ImplSettings;
  readonly ralph: RalphSettings;
  readonly errors: ErrorPolicy;
  readonly checkpoints: CheckpointSwitches;
  /** Kinds of effects that wait for the user's approval. */
  readonly approve: readonly string[];
  readonly budget: {
    readonly tokens: number | null;
    readonly microUsd: number | null;
    readonly milliseconds: number | null;
  };
  /** The workflows with a concurrency limit. A null limit means that any number may run. */
  readonly loops: SlotSettings;
  /** Tokens that a call of unknown usage counts as. */
  readonly assumedTokens: number;
  /** The user's prices; they take precedence over the built-in ones. */
  readonly prices: PriceTable;
  /** Another tool's layout that runs keep up to date. */
  readonly mirror: {
    readonly format: (typeof FORMAT_NAMES)[number] | null;
    /** Root of the layout; null: the run's worktree. */
    readonly directory: string | null;
  };
  readonly aiwg: LayoutSettings;
}

export interface ImplSettings {
  readonly maxIterations: number;
  readonly maxReviews: number;
  readonly limits: Readonly<Record<Limit, number>>;
  /** What happens after that many rejected reviews: open the pull request anyway, or fail. */
  readonly onMaxReviews: "proceed" | "fatal";
  readonly review: boolean;
  readonly simplify: boolean;
  readonly yolo: boolean;
  readonly waitForCi: boolean;
  readonly applyReviews: boolean;
  readonly draft: boolean;
  /** Whether pull requests say that an agent made them. */
  readonly attribution: boolean;
  readonly afterRebase: "review" | "impl";
  /** A shell command that must succeed before a review or a pull request. */
  readonly gate: string | null;
  /** Whether the gate first runs on the untouched base. */
  readonly baseGate: boolean;
  /** null: the remote's default branch. */
  readonly base: string | null;
  /** Paths of the user's prompt templates; null: the built-in one. */
  readonly prompts: Readonly<Record<PromptRole, string | null>>;
  /** null: the built-in list. */
  readonly tags: readonly string[] | null;
  readonly thresholds: Readonly<Record<Dimension, number>>;
}

interface RalphSettings {
  /** Commands that must all succeed for a loop to be done. */
  readonly until: readonly string[];
  readonly untilTimeoutMs: number;
  readonly firstCheck: boolean;
  readonly maxIterations: number;
  readonly memory: number;
  readonly memoryPolicy: "fifo" | "recency" | "relevance_weighted";
  readonly onStuck: "stop" | "ask" | "rollback";
  readonly detection: RalphOptions["detection"];
  readonly quality: RalphOptions["qualityWeights"];
  readonly tokensPerIteration: number | null;
}

const LIMITS = ["prAttempts", "rebases", "parseFailures", "reviewFailures", "stuck", "simplifications"] as const;
type Limit = (typeof LIMITS)[number];
const DIMENSIONS = ["faithful", "style", "docs", "cornerCases"] as const;
type Dimension = (typeof DIMENSIONS)[number];
const PROMPT_ROLES = ["impl", "review", "simplify", "rebase", "continue"] as const;
type PromptRole = (typeof PROMPT_ROLES)[number];

export const DEFAULT_WORK: WorkSettings = {
  agent: null,
  mode: "default",
  models: { impl: null, review: null },
  agents: { idleMs: 30 * 60_000, checkpointEveryMs: 10 * 60_000, args: {}, env: [] },
  forge: { kind: "auto", path: null, host: null },
  impl: {
    maxIterations: 10,
    maxReviews: 8,
    limits: { prAttempts: 6, rebases: 3, parseFailures: 3, reviewFailures: 4, stuck: 3, simplifications: 3 },
    onMaxReviews: "proceed",
    review: true,
    simplify: false,
    yolo: false,
    waitForCi: false,
    applyReviews: true,
    draft: false,
    attribution: true,
    afterRebase: "review",
    gate: null,
    baseGate: true,
    base: null,
    prompts: { impl: null, review: null, simplify: null, rebase: null, continue: null },
    tags: null,
    thresholds: { faithful: 90, style: 85, docs: 85, cornerCases: 85 },
  },
  ralph: {
    until: [],
    untilTimeoutMs: 10 * 60_000,
    firstCheck: true,
    maxIterations: 200,
    memory: 3,
    memoryPolicy: "fifo",
    onStuck: "stop",
    detection: defaultRalphOptions.detection,
    quality: defaultRalphOptions.qualityWeights,
    tokensPerIteration: null,
  },
  errors: defaultErrorPolicy,
  checkpoints: ALL_CHECKPOINTS,
  approve: [],
  budget: { tokens: null, microUsd: null, milliseconds: null },
  loops: DEFAULT_SLOTS,
  assumedTokens: ASSUMED_TOKENS,
  prices: {},
  mirror: { format: null, directory: null },
  aiwg: DEFAULT_LAYOUT,
};

export function mergeWork(values: FileConfig, directory: string, imported: ErrorPolicy | null): WorkSettings {
  const { models, forge, impl = {}, budget = {}, mirror, aiwg = {} } = values;
  const { maxIdle, checkpointEvery, args, env } = values.agents ?? {};
  const prompts: Partial<Record<PromptRole, string | undefined>> = impl.prompts ?? {};
  const promptOf = (role: PromptRole): string | null => {
    const file = prompts[role];
    return file === undefined ? null : resolve(directory, file);
  };
  const path = forge?.path;
  return {
    agent: values.agent ?? DEFAULT_WORK.agent,
    mode: values.mode ?? DEFAULT_WORK.mode,
    models: { ...DEFAULT_WORK.models, ...givenValues(models ?? {}) },
    agents: {
      ...DEFAULT_WORK.agents,
      ...givenValues({ idleMs: maxIdle, checkpointEveryMs: checkpointEvery, args, env }),
    },
    forge: {
      kind: forge?.kind ?? DEFAULT_WORK.forge.kind,
      path: path === undefined ? null : resolve(directory, path),
      host: forge?.host ?? null,
    },
    impl: {
      ...DEFAULT_WORK.impl,
      ...givenValues(impl),
      prompts: {
        impl: promptOf("impl"),
        review: promptOf("review"),
        simplify: promptOf("simplify"),
        rebase: promptOf("rebase"),
        continue: promptOf("continue"),
      },
      limits: { ...DEFAULT_WORK.impl.limits, ...givenValues(impl.limits ?? {}) },
      thresholds: { ...DEFAULT_WORK.impl.thresholds, ...givenValues(impl.thresholds ?? {}) },
    },
    ralph: mergeRalph(values.ralph ?? {}),
    budget: {
      tokens: budget.maxTokens ?? null,
      microUsd: budget.maxCost ?? null,
      milliseconds: budget.maxTime ?? null,
    },
    errors: mergeErrors(values.errors ?? {}, imported),
    checkpoints: { ...DEFAULT_WORK.checkpoints, ...givenValues(values.checkpoints ?? {}) },
    approve: values.approve ?? DEFAULT_WORK.approve,
    loops: { ...DEFAULT_WORK.loops, ...givenValues(values.loops ?? {}) },
    assumedTokens: budget.assumedTokens ?? DEFAULT_WORK.assumedTokens,
    prices: values.prices ?? DEFAULT_WORK.prices,
    mirror: {
      format: mirror?.format ?? null,
      directory: mirror?.directory === undefined ? null : resolve(directory, mirror.directory),
    },
    aiwg: {
      ...DEFAULT_WORK.aiwg,
      ...givenValues(aiwg),
      layout: values.layout ?? DEFAULT_WORK.aiwg.layout,
      directory: aiwg.directory === undefined ? null : resolve(directory, aiwg.directory),
    },
  };
}

function mergeRalph({ untilTimeout, ...ralph }: NonNullable<FileConfig["ralph"]>): RalphSettings {
  const base = DEFAULT_WORK.ralph;
  return {
    ...base,
    ...givenValues(ralph),
    untilTimeoutMs: untilTimeout ?? base.untilTimeoutMs,
    detection: { ...base.detection, ...givenValues(ralph.detection ?? {}) },
    quality: { ...base.quality, ...givenValues(ralph.quality ?? {}) },
  };
}

/** Keys and values in the form of the file. Values that depend on the environment are in brackets. */
export function workEntries(work: WorkSettings): readonly (readonly [string, string | number | boolean])[] {
  const { impl, ralph, budget } = work;
  return [
    ["agent", work.agent ?? "(none)"],
    ["mode", work.mode],
    ["models.impl", work.models.impl ?? "(the agent)"],
    ["models.review", work.models.review ?? "(the agent)"],
    ["agents.maxIdle", durationOrNone(work.agents.idleMs)],
    ["agents.checkpointEvery", durationOrNone(work.agents.checkpointEveryMs)],
    ["agents.args", argsText(work.agents.args)],
    ["agents.env", work.agents.env.join(", ") || "(none)"],
    ["forge.kind", work.forge.kind],
    ["forge.path", work.forge.path ?? "(the remote)"],
    ["forge.host", work.forge.host ?? "(the remote's)"],
    ["impl.maxIterations", impl.maxIterations],
    ["impl.maxReviews", impl.maxReviews],
    ["impl.onMaxReviews", impl.onMaxReviews],
    ...LIMITS.map((name) => [`impl.limits.${name}`, impl.limits[name]] as const),
    ["impl.review", impl.review],
    ["impl.simplify", impl.simplify],
    ["impl.yolo", impl.yolo],
    ["impl.waitForCi", impl.waitForCi],
    ["impl.applyReviews", impl.applyReviews],
    ["impl.draft", impl.draft],
    ["impl.attribution", impl.attribution],
    ["impl.afterRebase", impl.afterRebase],
    ["impl.gate", impl.gate ?? "(none)"],
    ["impl.baseGate", impl.baseGate],
    ["impl.base", impl.base ?? "(the remote's default)"],
    ...PROMPT_ROLES.map((role) => [`impl.prompts.${role}`, impl.prompts[role] ?? "(built in)"] as const),
    ["impl.tags", impl.tags === null ? "(built in)" : impl.tags.join(", ")],
    ...DIMENSIONS.map((name) => [`impl.thresholds.${name}`, impl.thresholds[name]] as const),
    ["ralph.until", ralph.until.join(" && ") || "(none)"],
    ["ralph.untilTimeout", formatDuration(ralph.untilTimeoutMs)],
    ["ralph.firstCheck", ralph.firstCheck],
    ["ralph.maxIterations", ralph.maxIterations],
    ["ralph.memory", ralph.memory],
    ["ralph.memoryPolicy", ralph.memoryPolicy],
    ["ralph.onStuck", ralph.onStuck],
    ...Object.entries(ralph.detection).map(([name, least]) => [`ralph.detection.${name}`, least ?? "none"] as const),
    ...Object.entries(ralph.quality).map(([name, weight]) => [`ralph.quality.${name}`, weight] as const),
    ["ralph.tokensPerIteration", ralph.tokensPerIteration ?? "none"],
    [
      "errors.retry",
      `${work.errors.retry.delaysMs.length} (${work.errors.retry.delaysMs.map(formatDuration).join(", ")})`,
    ],
    ["errors.exhausted", work.errors.exhausted],
    ["errors.fallback.agents", work.errors.fallback.agents.join(", ") || "(none)"],
    ["errors.fallback.tries", work.errors.fallback.tries],
    ["errors.rules", work.errors.rules.map(({ id }) => id).join(", ") || "(built in)"],
    ["checkpoints.artifactComplete", work.checkpoints.artifactComplete],
    ["checkpoints.beforeExternal", work.checkpoints.beforeExternal],
    ["checkpoints.beforeRisky", work.checkpoints.beforeRisky],
    ["approve", work.approve.join(", ") || "(none)"],
    ["loops.max", work.loops.max ?? "none"],
    ["loops.workflows", work.loops.workflows.join(", ")],
    ["mirror.format", work.mirror.format ?? "none"],
    ["mirror.directory", work.mirror.directory ?? "(the run's worktree)"],
    ["layout", work.aiwg.layout],
    ["aiwg.mirror", work.aiwg.mirror],
    ["aiwg.directory", work.aiwg.directory ?? "(by layout)"],
    ["aiwg.keep", work.aiwg.keep],
    ["aiwg.maxAge", work.aiwg.maxAge === null ? "never" : formatDuration(work.aiwg.maxAge * 86_400_000)],
    ["aiwg.onSuccess", work.aiwg.onSuccess],
    ["aiwg.onFailure", work.aiwg.onFailure],
    ["prices", Object.keys(work.prices).join(", ") || "(built in)"],
    ["budget.maxTokens", budget.tokens ?? "none"],
    ["budget.assumedTokens", work.assumedTokens],
    ["budget.maxCost", budget.microUsd === null ? "none" : budget.microUsd / 1e6],
    ["budget.maxTime", budget.milliseconds === null ? "none" : formatDuration(budget.milliseconds)],
  ];
}

function argsText(args: AgentArgs): string {
  const lines = Object.entries(args).map(([name, words]) => `${name}: ${words.join(" ")}`);
  return lines.join("; ") || "(none)";
}

function durationOrNone(milliseconds: number | null): string {
  return milliseconds === null ? "none" : formatDuration(milliseconds);
}

/**
 * The file takes precedence over an imported document, and that over the defaults. The file's rules come first. If the
 * file names fallback agents, `exhausted` defaults to "fallback".
 */
function mergeErrors(errors: FileErrors, imported: ErrorPolicy | null): ErrorPolicy {
  const under = imported ?? defaultErrorPolicy;
  const agents = errors.fallback?.agents ?? under.fallback.agents;
  const isOwn = errors.fallback?.agents !== undefined && agents.length > 0;
  const retry = errors.retry === undefined ? under.retry : retryOf(errors.retry, under.retry);
  return {
    rules: [...(errors.rules ?? []).map((rule) => ruleOf(rule, retry)), ...under.rules],
    retry,
    exhausted: errors.exhausted ?? (isOwn ? "fallback" : under.exhausted),
    fallback: { agents, tries: errors.fallback?.tries ?? under.fallback.tries },
  };
}

type FileRule = NonNullable<FileErrors["rules"]>[number];

function ruleOf(rule: FileRule, retry: RetryPlan): ErrorRule {
  return {
    id: rule.id,
    causes: rule.causes ?? null,
    types: rule.types ?? null,
    pattern: rule.pattern ?? null,
    action: rule.action,
    retry: rule.retry === undefined ? retry : retryOf(rule.retry, retry),
    exhausted: rule.exhausted ?? "wait",
  };
}

/** If only `jitter` is set, the delays are kept. Any other key recomputes all delays. */
function retryOf(given: FileRetry, under: RetryPlan): RetryPlan {
  const jitter = given.jitter ?? under.jitter;
  const { max, delay, multiplier, maxDelay } = given;
  if (max === undefined && delay === undefined && multiplier === undefined && maxDelay === undefined)
    return { ...under, jitter };
  return {
    delaysMs: delaysOf({
      retries: max ?? DEFAULTS.retries,
      initialMs: delay ?? DEFAULTS.initialMs,
      multiplier: multiplier ?? DEFAULTS.multiplier,
      capMs: maxDelay ?? DEFAULTS.capMs,
    }),
    jitter,
  };
}

const DEFAULTS = { retries: 5, initialMs: 2_000, multiplier: 4, capMs: 300_000 };
