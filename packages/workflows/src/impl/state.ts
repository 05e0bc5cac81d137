import type { Adapters } from "@holdfast/core/adapters";
import { type IssueSnapshot, issueShape } from "@holdfast/core/checkpoint";
import {
  type JsonObject,
  type Shape,
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
import type { StageResult, TransitionTable, WorkflowShape } from "@holdfast/core/transitions";
import type { StageContext } from "@holdfast/core/workflow";
import { EMPTY_IMPL_VALUES, type ImplHistoryEntry } from "@holdfast/formats/impl-document";
import { HoldfastError } from "@holdfast/platform/error";
import type { Base } from "../branch.ts";
import type { OpenedRequest } from "../pull-request.ts";
import type { Dimension, ImplOptions, PromptRole } from "./options.ts";

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

export type Issue = Pick<IssueSnapshot, "number" | "title" | "body" | "labels" | "state" | "updatedAt">;
/** What an iteration left behind; the stuck guard counts those that left nothing. "empty": it was called done, and no file differs from the base. */
export type Progress = "complete" | "changed" | "none" | "empty";
export type PullRequestProposal = { readonly title: string | null; readonly body: string };
export type Scores = Readonly<Record<Dimension, number>>;
export type Review = {
  readonly iteration: number;
  readonly pass: boolean;
  /** null: the reply could not be read. */
  readonly score: number | null;
  readonly scores: Scores | null;
  readonly findings: readonly string[];
  readonly suggestions: readonly string[];
};
export type Failing = { readonly gate: string; readonly detail: string };

/** The values of an `impl` run: all that a later stage needs and that is not counted in the position. */
export type ImplState = {
  readonly issue: Issue | null;
  readonly base: Base | null;
  readonly templates: Readonly<Record<PromptRole, string>> | null;
  readonly progress: Progress | null;
  /** The agent's last words of the newest iteration, cut. */
  readonly output: string | null;
  readonly commitReport: string | null;
  readonly finalize: PullRequestProposal | null;
  /** Every review, oldest first. */
  readonly reviews: readonly Review[];
  /** The gate that said no most recently, until it says yes. */
  readonly failing: Failing | null;
  /** What the remote has because we pushed it, or because it was there and we built on it. */
  readonly pushed: string | null;
  readonly pullRequest: OpenedRequest | null;
  /** Reviews of people that were told to the agent, by their ids: none is told twice. Older runs lack it. */
  readonly heeded?: readonly string[];
  /** The base contained the work before this run opened a pull request, and the user accepted that. Absent: no. */
  readonly inBase?: boolean;
  /** Of a run that gave up. */
  readonly stuckReport: string | null;
  readonly history: readonly ImplHistoryEntry[];
};

export const initialImplState: ImplState = EMPTY_IMPL_VALUES;

export function parseImplState(values: JsonObject): ImplState {
  return parseShape({ shape: STATE, value: values, what: "The state of an impl run" });
}

/** What setup found. INTERNAL before that: the table lets no other stage come first. */
export function requireSetup(state: ImplState): {
  readonly issue: Issue;
  readonly base: Base;
  readonly templates: Readonly<Record<PromptRole, string>>;
} {
  const { issue, base, templates } = state;
  if (issue !== null && base !== null && templates !== null) return { issue, base, templates };
  throw new HoldfastError({ code: "INTERNAL", message: "A stage of impl began before setup was done" });
}

const TEXTS = list(text);
const STATE: Shape<ImplState> = object<ImplState>({
  issue: nullable(issueShape),
  base: nullable(object<Base>({ branch: text, commit: text })),
  templates: nullable(object<Record<PromptRole, string>>({ impl: text, review: text, simplify: text, rebase: text })),
  progress: nullable(oneOf<Progress>({ complete: true, changed: true, none: true, empty: true })),
  output: nullable(text),
  commitReport: nullable(text),
  finalize: nullable(object<PullRequestProposal>({ title: nullable(text), body: text })),
  reviews: list(
    object<Review>({
      iteration: count,
      pass: flag,
      score: nullable(count),
      scores: nullable(object<Scores>({ faithful: count, style: count, docs: count, cornerCases: count })),
      findings: TEXTS,
      suggestions: TEXTS,
    }),
  ),
  failing: nullable(object<Failing>({ gate: text, detail: text })),
  pushed: nullable(text),
  pullRequest: nullable(object<OpenedRequest>({ number: count, url: text })),
  heeded: optional(TEXTS),
  inBase: optional(flag),
  stuckReport: nullable(text),
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

export const IMPL_EVENTS = [
  "setup_done",
  "impl_done",
  "impl_not_done",
  "parse_fail",
  "review_pass",
  "review_fail",
  "simp_pass",
  "simp_fail",
  "pr_pass",
  "pr_fail_fixable",
  "pr_fail_need_rebase",
  "ci_pass",
  "ci_fail",
  "ci_conflict",
  "rebase_ok",
  "rebase_conflict",
  "fatal",
] as const;
type ImplEvent = (typeof IMPL_EVENTS)[number];

/** Stages that are switched off are not in the machine at all: nothing passes through a stage that does nothing. */
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
    ...(options.simplify ? { simplify: { simp_pass: toPr, simp_fail: "impl", fatal: "fatal" } } : {}),
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
    version: 1,
    initial: "setup",
    stages: [...Object.keys(transitions), "done", "fatal"],
    events: IMPL_EVENTS.filter((event) => used.has(event)),
    transitions,
    ends: { done: "done", fatal: "fatal" },
  };
}

/** Total, so that a new event cannot be forgotten. "retry": the run goes on, but this did not succeed. */
const RESULT_OF: Readonly<Record<ImplEvent, ImplHistoryEntry["result"]>> = {
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
};

export interface Conclusion {
  readonly event: ImplEvent;
  readonly reason: string;
  readonly state: ImplState;
  /** Absent: what the next prompt is told stays as it is. */
  readonly feedback?: string | null;
  readonly score?: number | null;
}

/** How a stage ends: its event with the state and one more line of history. */
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
    ...(feedback === undefined ? {} : { feedback }),
    ...(score === null ? {} : { score }),
  };
}

/** A limit made the newest entry the last one: it says so, with the true reason. */
export function endHistory(state: ImplState, reason: string): ImplState {
  const last = state.history.at(-1);
  if (last === undefined) return state;
  return { ...state, history: [...state.history.slice(0, -1), { ...last, result: "failure", reason }] };
}

/** What every stage of impl works with. */
export interface ImplDependencies {
  readonly options: ImplOptions;
  readonly parts: Adapters;
}

export type ImplContext = StageContext<ImplState>;
