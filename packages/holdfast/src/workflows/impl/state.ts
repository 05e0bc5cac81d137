import { HoldfastError } from "../../core/error.ts";
import type { IssueSnapshot } from "../../core/checkpoint/checkpoint.ts";
import { NO_IMPL_VALUES } from "../../core/impl-values.ts";
import type { ImplHistoryEntry } from "../../core/impl-values.ts";
import { issueShape } from "../../core/checkpoint/issue-shape.ts";
import type { JsonObject } from "../../core/json.ts";
import { count, flag, list, nullable, object, oneOf, optional, parseShape, text } from "../../core/shape.ts";
import type { Shape } from "../../core/shape.ts";
import type { Base } from "../publish/find-base.ts";
import type { OpenedRequest } from "../publish/open-pull-request.ts";
import type { Dimension, PromptRole } from "./options.ts";

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

export type Issue = Pick<IssueSnapshot, "number" | "title" | "body" | "labels" | "state" | "updatedAt">;
/** What an iteration left behind; the stuck guard counts those that left nothing. "empty": it was called done, and no file differs from the base. */
export type Progress = "complete" | "changed" | "none" | "empty";
export type Finalize = { readonly title: string | null; readonly body: string };
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
  readonly finalize: Finalize | null;
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

export const initialImplState: ImplState = NO_IMPL_VALUES;

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
  finalize: nullable(object<Finalize>({ title: nullable(text), body: text })),
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
