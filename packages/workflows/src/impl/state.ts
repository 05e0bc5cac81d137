// The state of an impl run: its values, transition table, history entries and the result of a stage.

import type { Adapters } from "@holdfast/core/adapters";
import { type IssueSnapshot, issueShape } from "@holdfast/core/checkpoint";
import {
  type JsonObject,
  type Shape,
  type TypeOf,
  anyOf,
  count,
  flag,
  list,
  nullable,
  object,
  oneOf,
  optional,
  parseShape,
  text,
} from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import { issueNewsIn } from "@holdfast/core/resume-plan";
import type { StageResult, TransitionTable, WorkflowShape } from "@holdfast/core/transitions";
import type { StageContext } from "@holdfast/core/workflow";
import { EMPTY_IMPL_VALUES, type ImplHistoryEntry } from "@holdfast/formats/impl-document";
import { HoldfastError } from "@holdfast/platform/error";
import type { Base } from "../branch.ts";
import { TEMPLATES_SHAPE, type Templates, allTemplates } from "../prompts.ts";
import type { OpenedRequest } from "../pull-request.ts";
import { FACTS_SHAPE, type RepositoryFacts } from "../repository-facts.ts";
import type { ImplOptions } from "./options.ts";
import { PLAN_SHAPE, type Plan } from "./plan.ts";
import { IMPL_PROMPTS, type PromptRole } from "./prompts.ts";

// This is a type alias because TypeScript does not accept an interface as a JSON object.

export type Issue = Pick<IssueSnapshot, "number" | "title" | "body" | "labels" | "state" | "updatedAt" | "comments">;

/** The number of a task without an issue: there is no forge. */
export const NO_ISSUE = 0;

/** Such as "issue #42". */
export function issueName({ number }: Pick<Issue, "number">): string {
  return number === NO_ISSUE ? "the task" : `issue #${number}`;
}

/** As a title: "Issue #42". */
export function issueHeading(issue: Pick<Issue, "number">): string {
  return issue.number === NO_ISSUE ? "Task" : `Issue #${issue.number}`;
}

/** The values of an impl run: everything a later stage needs that the position does not count. */
export type ImplState = {
  readonly issue: Issue | null;
  readonly base: Base | null;
  /** The prompt templates in force, fixed at setup: a resumed run keeps them. */
  readonly templates: Templates | null;
  readonly progress: Progress | null;
  /** The end of the agent's output in the newest iteration. */
  readonly output: string | null;
  readonly commitReport: string | null;
  readonly finalize: PullRequestProposal | null;
  /** Every review, oldest first. */
  readonly reviews: readonly Review[];
  /** What the repository says about itself at the base. Older runs lack it. */
  readonly repository?: RepositoryFacts;
  /** The last run of the gate command. */
  readonly gate?: GateRun;
  /** The gate that failed most recently; null once it passes. */
  readonly failing: Failing | null;
  /** The branch's tip on the remote that the run pushed or built on; null if there is none. */
  readonly pushed: string | null;
  readonly pullRequest: OpenedRequest | null;
  /** Ids of people's reviews that the agent has received, so that none is sent twice. Older runs lack it. */
  readonly appliedReviews?: readonly string[];
  /** The plan that an imported document names. The plan of every other run is an option. */
  readonly plan?: Plan;
  /** The base contained the work before this run opened a pull request, and the user accepted that. Absent: no. */
  readonly inBase?: boolean;
  /** The report of a failed run. */
  readonly stuckReport: string | null;
  /** The limit that ended the run, and where the run continues if it is raised. */
  readonly stopped?: StoppedAt;
  readonly history: readonly ImplHistoryEntry[];
};

export const initialImplState: ImplState = EMPTY_IMPL_VALUES;

export function parseImplState(values: JsonObject): ImplState {
  return parseShape({ shape: STATE, value: values, what: "The state of an impl run" });
}

/** Returns the results of setup. Throws INTERNAL before that; the transition table puts setup first. */
export function requireSetup(state: ImplState): {
  readonly issue: Issue;
  readonly base: Base;
  readonly templates: Templates<PromptRole>;
} {
  const { issue, base, templates } = state;
  if (issue !== null && base !== null && templates !== null)
    return { issue, base, templates: allTemplates(IMPL_PROMPTS, templates) };
  throw new HoldfastError({ code: "INTERNAL", message: "A stage of impl began before setup was done" });
}

const TEXTS = list(text);
const PROGRESS_SHAPE = anyOf(["complete", "changed", "none", "empty"]);
/**
 * The result of an iteration; the stuck guard counts those with "none". "empty": the agent called it done, but no file
 * differs from the base.
 */
export type Progress = TypeOf<typeof PROGRESS_SHAPE>;
const PROPOSAL_SHAPE = object({ title: nullable(text), body: text });
export type PullRequestProposal = TypeOf<typeof PROPOSAL_SHAPE>;
const SCORES_SHAPE = object({ faithful: count, style: count, docs: count, cornerCases: count });
export type Scores = TypeOf<typeof SCORES_SHAPE>;
const REVIEW_SHAPE = object({
  iteration: count,
  pass: flag,
  /** null: the reply could not be read. */
  score: nullable(count),
  scores: nullable(SCORES_SHAPE),
  findings: TEXTS,
  suggestions: TEXTS,
});
export type Review = TypeOf<typeof REVIEW_SHAPE>;
const FAILING_SHAPE = object({ gate: text, detail: text });
export type Failing = TypeOf<typeof FAILING_SHAPE>;
const GATE_SHAPE = object<GateRun>({
  command: text,
  passed: flag,
  output: text,
  iteration: count,
  rebased: optional(flag),
});
export type GateRun = {
  readonly command: string;
  readonly passed: boolean;
  /** The end of its output. */
  readonly output: string;
  readonly iteration: number;
  /** The branch was rebased since, so that other files are published. Absent: no. */
  readonly rebased?: boolean;
};

const STOPPED_SHAPE = object({
  limit: anyOf([
    "maxIterations",
    "maxReviews",
    "prAttempts",
    "rebases",
    "parseStreak",
    "reviewStreak",
    "stuck",
    "simplifications",
  ]),
  stage: text,
  iteration: count,
});
export type StoppedAt = TypeOf<typeof STOPPED_SHAPE>;
export type LimitName = StoppedAt["limit"];

const STATE: Shape<ImplState> = object<ImplState>({
  issue: nullable(issueShape),
  base: nullable(object<Base>({ branch: text, commit: text })),
  templates: nullable(TEMPLATES_SHAPE),
  progress: nullable(PROGRESS_SHAPE),
  output: nullable(text),
  commitReport: nullable(text),
  finalize: nullable(PROPOSAL_SHAPE),
  reviews: list(REVIEW_SHAPE),
  repository: optional(FACTS_SHAPE),
  gate: optional(GATE_SHAPE),
  failing: nullable(FAILING_SHAPE),
  pushed: nullable(text),
  pullRequest: nullable(object<OpenedRequest>({ number: count, url: text })),
  appliedReviews: optional(TEXTS),
  inBase: optional(flag),
  plan: optional(PLAN_SHAPE),
  stuckReport: nullable(text),
  stopped: optional(STOPPED_SHAPE),
  history: list(
    object<ImplHistoryEntry>({
      stage: text,
      iteration: count,
      timestamp: text,
      result: oneOf<ImplHistoryEntry["result"]>({ success: true, failure: true, retry: true }),
      event: text,
      reason: text,
      score: nullable(count),
    }),
  ),
});

/** Every event with what the history says about its stage. "retry": the run continues, but this stage did not succeed. */
const RESULT_OF = {
  setup_done: "success",
  impl_done: "success",
  impl_not_done: "retry",
  parse_fail: "retry",
  review_pass: "success",
  review_fail: "retry",
  simp_pass: "success",
  simp_fail: "retry",
  pr_pass: "success",
  pr_fail_fixable: "retry",
  pr_fail_need_rebase: "retry",
  ci_pass: "success",
  ci_fail: "retry",
  ci_conflict: "retry",
  rebase_ok: "success",
  rebase_conflict: "failure",
  fatal: "failure",
} as const satisfies Readonly<Record<string, ImplHistoryEntry["result"]>>;
type ImplEvent = keyof typeof RESULT_OF;

// The keys of a constant record are exactly those of its type.
export const IMPL_EVENTS = Object.keys(RESULT_OF) as readonly ImplEvent[];

/** Increased when the meaning of stages changes. */
export const IMPL_VERSION = 1;

/**
 * Builds the transition table. Disabled stages are not part of it, so no run passes through a stage that does nothing.
 */
export function implShape(
  options: Pick<ImplOptions, "review" | "simplify" | "waitForCi" | "afterRebase">,
): WorkflowShape {
  const toPr = "pr";
  const toSimplify = options.simplify ? "simplify" : toPr;
  const toReview = options.review ? "review" : toSimplify;
  const afterRebase = options.afterRebase === "impl" ? "impl" : options.review ? "review" : toPr;
  const transitions: TransitionTable = {
    setup: { setup_done: "impl", fatal: "fatal" },
    impl: { impl_done: toReview, impl_not_done: "impl", parse_fail: "impl", fatal: "fatal" },
    ...(options.review ? { review: { review_pass: toSimplify, review_fail: "impl", fatal: "fatal" } } : {}),
    ...(options.simplify ? { simplify: { simp_pass: toPr, simp_fail: toPr, fatal: "fatal" } } : {}),
    pr: {
      pr_pass: options.waitForCi ? "ci" : "done",
      pr_fail_fixable: "impl",
      pr_fail_need_rebase: "rebase",
      fatal: "fatal",
    },
    ...(options.waitForCi ? { ci: { ci_pass: "done", ci_fail: "impl", ci_conflict: "rebase", fatal: "fatal" } } : {}),
    rebase: { rebase_ok: afterRebase, rebase_conflict: "fatal", fatal: "fatal" },
  };
  const used = new Set(Object.values(transitions).flatMap((row) => Object.keys(row)));
  return {
    name: "impl",
    version: IMPL_VERSION,
    initial: "setup",
    stages: [...Object.keys(transitions), "done", "fatal"],
    events: IMPL_EVENTS.filter((event) => used.has(event)),
    transitions,
    ends: { done: "done", fatal: "failed" },
  };
}

export interface Conclusion {
  readonly event: ImplEvent;
  readonly reason: string;
  readonly state: ImplState;
  /** Absent: the feedback for the next prompt remains unchanged. */
  readonly feedback?: string | null;
  readonly score?: number | null;
}

/** Ends a stage with its event, its state and one more history entry. */
export function conclude(
  context: { readonly position: Position; now(): number },
  { event, reason, state, feedback, score = null }: Conclusion,
): StageResult<ImplState> {
  const entry: ImplHistoryEntry = {
    stage: context.position.stage,
    iteration: context.position.iteration,
    timestamp: new Date(context.now()).toISOString(),
    result: RESULT_OF[event],
    event,
    reason,
    score,
  };
  return {
    event,
    reason,
    state: { ...state, history: [...state.history, entry] },
    ...(feedback === undefined ? {} : { feedback: withIssueNews(context.position, feedback) }),
    ...(score === null ? {} : { score }),
  };
}

/** Only the prompt of impl contains the feedback. Until it did, no other stage drops how the issue changed. */
function withIssueNews({ stage, feedback: before }: Position, feedback: string | null): string | null {
  const notice = stage === "impl" ? null : issueNewsIn(before);
  return notice === null ? feedback : [...(feedback === null ? [] : [feedback]), notice].join("\n\n");
}

/** Marks the newest history entry as a failure when a limit ended the run, with the true reason. */
export function endHistory(state: ImplState, reason: string): ImplState {
  const last = state.history.at(-1);
  if (last === undefined) return state;
  return { ...state, history: [...state.history.slice(0, -1), { ...last, result: "failure", reason }] };
}

/** Dependencies of every impl stage. */
export interface ImplDependencies {
  readonly options: ImplOptions;
  readonly adapters: Adapters;
}

export type ImplContext = StageContext<ImplState>;
