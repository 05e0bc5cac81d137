// The impl workflow: its stages, the guard that counts attempts and ends a run that does not converge, and the plug-in that creates it from
// options or continues it from an imported checkpoint.

import type { Adapters } from "@holdfast/core/adapters";
import { type Position, bump, counterOf, reset } from "@holdfast/core/position";
import type { StageResult } from "@holdfast/core/transitions";
import { type Guard, type StageFunction, type Workflow, defineWorkflow } from "@holdfast/core/workflow";
import { IMPL_EXTENSION } from "@holdfast/formats/impl-json";
import { fetchImportedIssue } from "../forge.ts";
import { type WorkflowPlugin, importWithoutAgent, importedIssueNumber, namedRoles } from "../plugin.ts";
import { ciStage } from "./ci.ts";
import { fatalStage } from "./fatal.ts";
import { implStage, simplifyStage } from "./implement.ts";
import { writeCheckpointFile } from "./layout.ts";
import { implFreshness, implLimits, withLimits } from "./limits.ts";
import { type ImplOptions, parseImplOptions } from "./options.ts";
import { planInput } from "./plan.ts";
import { IMPL_PROMPTS } from "./prompts.ts";
import { pullRequestStage } from "./pull-request.ts";
import { rebaseStage } from "./rebase.ts";
import { reviewStage } from "./review.ts";
import { adoptImplState, setupStage } from "./setup.ts";
import {
  IMPL_VERSION,
  type ImplContext,
  type ImplDependencies,
  type ImplState,
  type LimitName,
  endHistory,
  implShape,
  initialImplState,
  parseImplState,
} from "./state.ts";

type Stage = (work: ImplDependencies, context: ImplContext) => ReturnType<StageFunction<ImplState>>;

const STAGES: Readonly<Record<string, Stage>> = {
  setup: setupStage,
  impl: implStage,
  review: reviewStage,
  simplify: simplifyStage,
  pr: pullRequestStage,
  ci: ciStage,
  rebase: rebaseStage,
  fatal: fatalStage,
  done: async (_, { position }) => ({ event: "done", reason: position.reason ?? "Done" }),
};

/** The workflow that turns an issue into a pull request, with the stages that its options enable. */
export function implWorkflow(options: ImplOptions, adapters: Adapters): Workflow<ImplState> {
  const shape = implShape(options);
  const work: ImplDependencies = { options, adapters };
  const used = Object.entries(STAGES).filter(([name]) => shape.stages.includes(name));
  return defineWorkflow<ImplState>({
    ...shape,
    stages: Object.fromEntries(used.map(([name, stage]) => [name, mirrored(work, stage)])),
    initialState: () => initialImplState,
    parseState: parseImplState,
    guard: implGuard(options),
    freshness: implFreshness,
    // Far beyond what the limits allow: a run that gets here is in a loop that no guard counts.
    maxStageAttempts: 100 + 20 * options.maxIterations,
  });
}

/** Writes the checkpoint file when a stage starts, because the previous stage has been saved by then. */
function mirrored(work: ImplDependencies, stage: Stage): StageFunction<ImplState> {
  return async (context) => {
    await writeCheckpointFile(work, context);
    return await stage(work, context);
  };
}

type Counted = { readonly position: Position; readonly result: StageResult<ImplState> };

/**
 * Counts the result of a stage and ends a run that does not converge. Attempts and streaks are part of the position, so
 * neither a finished implementation nor a resume resets them:
 * - `attempts.pr` and `attempts.rebase` only grow; `attempts.review` and `attempts.simplify` count failures.
 * - A passing gate ends `streaks.parse`. A new best score or a passed review ends `streaks.review`. An iteration that
 *   changed something ends `streaks.stuck`.
 */
export function implGuard(options: ImplOptions): Guard<ImplState> {
  const { transitions } = implShape(options);
  return ({ position, result }) => {
    if (result.event === "fatal") return fatal({ position, result }, result.reason);
    const counted: Counted = { position: countEvent(position, result), result };
    const reached = limitReached(counted, options) ?? entryRefused(counted, transitions[position.stage], options);
    if (reached !== null) return fatal(counted, reached.reason, reached);
    const next = transitions[position.stage]?.[result.event];
    return next === "impl" ? nextIteration(counted, options) : counted;
  };
}

function countEvent(position: Position, result: StageResult<ImplState>): Position {
  const { attempts, streaks } = position;
  switch (result.event) {
    case "impl_done":
      return { ...position, streaks: reset(streaks, "parse", "stuck") };
    case "impl_not_done":
      return {
        ...position,
        streaks: result.state?.progress === "none" ? bump(streaks, "stuck") : reset(streaks, "stuck"),
      };
    case "parse_fail":
      return { ...position, streaks: bump(reset(streaks, "stuck"), "parse") };
    case "review_pass":
      return { ...position, streaks: reset(streaks, "review") };
    case "review_fail":
      return {
        ...position,
        attempts: bump(attempts, "review"),
        // The first failure, and each one with a new best score, restarts the count at one.
        streaks: bump(improves(position, result) ? reset(streaks, "review") : streaks, "review"),
      };
    case "simp_fail":
      return { ...position, attempts: bump(attempts, "simplify") };
    case "pr_fail_fixable":
    case "pr_fail_need_rebase":
      return { ...position, attempts: bump(attempts, "pr") };
    case "rebase_ok":
      return { ...position, attempts: bump(attempts, "rebase") };
    default:
      return position;
  }
}

function improves(position: Position, result: StageResult<ImplState>): boolean {
  if (result.score === undefined) return false;
  return position.best === null || result.score > position.best.score;
}

interface Reached {
  readonly limit: LimitName;
  /** The stage in which the run continues if the limit is raised. */
  readonly stage: string;
  readonly reason: string;
}

function limitReached({ position, result }: Counted, options: ImplOptions): Reached | null {
  const { limits } = options;
  const stage = "impl";
  const streak = (name: string): number => counterOf(position.streaks, name);
  if (result.event === "parse_fail" && streak("parse") >= limits.parseStreak) {
    const reason = `Reached parse gate retry limit (${limits.parseStreak} consecutive parse failures): ${result.reason}`;
    return { limit: "parseStreak", stage, reason };
  }
  if (result.event === "review_fail" && streak("review") >= limits.reviewStreak) {
    const reason = `Review scores showed no improvement for ${limits.reviewStreak} consecutive failures: ${result.reason}`;
    return { limit: "reviewStreak", stage, reason };
  }
  if (result.event === "impl_not_done" && streak("stuck") >= limits.stuck) {
    const reason = `Stuck: no change and no completion marker for ${limits.stuck} iterations`;
    return { limit: "stuck", stage, reason };
  }
  return null;
}

/**
 * Rejects the seventh pull request attempt and the fourth rebase (default limits). A pull request that passed is not an
 * attempt, so CI fixes are free.
 */
function entryRefused(
  { position, result }: Counted,
  row: Readonly<Record<string, string>> | undefined,
  { limits }: ImplOptions,
): Reached | null {
  const next = row?.[result.event];
  if (next === "pr" && counterOf(position.attempts, "pr") >= limits.prAttempts) {
    const reason = `Reached PR retry limit (${limits.prAttempts} attempts)${lastRefusal(result.state)}`;
    return { limit: "prAttempts", stage: next, reason };
  }
  if (next === "rebase" && counterOf(position.attempts, "rebase") >= limits.rebases) {
    const reason = `Reached rebase retry limit (${limits.rebases} attempts): ${result.reason}`;
    return { limit: "rebases", stage: next, reason };
  }
  return null;
}

/** The stage that ends now succeeded; the refusal of the pull request is further back in the history. */
function lastRefusal(state: ImplState | undefined): string {
  const refused = state?.history.findLast(({ stage, result }) => stage === "pr" && result === "retry");
  return refused === undefined ? "" : `: ${refused.reason}`;
}

function nextIteration(counted: Counted, { maxIterations }: ImplOptions): Counted {
  const { position, result } = counted;
  const iteration = position.iteration + 1;
  if (iteration > maxIterations) {
    const reason = `Max iteration limit (${maxIterations}) reached: ${result.reason}`;
    return fatal(counted, reason, { limit: "maxIterations", stage: "impl" });
  }
  return { ...counted, position: { ...position, iteration } };
}

/** `reached`: the limit that ends the run, so that a resume can raise it. */
function fatal({ position, result }: Counted, reason: string, reached?: Pick<Reached, "limit" | "stage">): Counted {
  if (result.state === undefined) return { position, result: { ...result, event: "fatal", reason } };
  const ended = endHistory(result.state, reason);
  const iteration = position.iteration + (reached?.stage === "impl" ? 1 : 0);
  const stopped = reached && { limit: reached.limit, stage: reached.stage, iteration };
  const state = stopped === undefined ? ended : { ...ended, stopped };
  return { position, result: { ...result, state, event: "fatal", reason } };
}

export const implPlugin: WorkflowPlugin = {
  name: "impl",
  version: IMPL_VERSION,
  prompts: IMPL_PROMPTS,
  create(given, adapters) {
    const { options } = parseImplOptions(given);
    return { workflow: implWorkflow(options, adapters), options };
  },
  roles({ implModel, review, reviewModel, simplify }, own) {
    const impl = implModel ?? own;
    return namedRoles({
      impl,
      review: review === false ? null : (reviewModel ?? impl),
      simplify: simplify === true ? impl : null,
    });
  },
  withAgent: (options) => ({ ...options, implModel: null, reviewModel: null }),
  limits: implLimits,
  adopt({ adapters, run, checkpoint, agent, options: given, limits }) {
    const issue = importedIssueNumber(run, "impl", "issue_no");
    const { position, context } = checkpoint.planes;
    // The stage that the run is in cannot be switched off.
    const { options } = parseImplOptions({
      ...withLimits(given, limits),
      ...(position.stage === "review" ? { review: true } : {}),
      ...(position.stage === "simplify" ? { simplify: true } : {}),
      ...(position.stage === "ci" ? { waitForCi: true } : {}),
    });
    if (agent === null && options.implModel === null) throw importWithoutAgent(run);
    return {
      workflow: implWorkflow(options, adapters),
      options,
      agent,
      base: options.baseBranch,
      async check() {
        await fetchImportedIssue(adapters, issue);
      },
      async prepare(root) {
        const extension = checkpoint.planes.extensions[IMPL_EXTENSION];
        const state = await adoptImplState({ adapters, options, values: context.values, issue, extension, root });
        const { plan } = planInput(options.plan ?? state.plan ?? null);
        return { values: state, inputs: { issue: state.issue, base: state.base?.commit ?? null, plan } };
      },
    };
  },
};
