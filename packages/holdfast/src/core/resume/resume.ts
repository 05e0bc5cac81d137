import type { IssueSnapshot } from "../checkpoint/checkpoint.ts";
import type { Finding, FindingKind, Verdict } from "./finding.ts";
import type { Json, JsonObject } from "../json.ts";

/** What a person says to a finding. "put_back" fits files alone: the checkpoint's take their place, and these are kept. */
export type Answer = "accept" | "put_back";
export type Answers = Readonly<Partial<Record<FindingKind, Answer>>>;

/** A finding with what was decided about it. */
export interface Judgement {
  readonly finding: Finding;
  /** After answers and earlier decisions. */
  readonly verdict: Verdict;
  /** "moot": the pull request was merged, so it does not matter any more. */
  readonly decision: "accepted_before" | "accepted" | "put_back" | "by_policy" | "moot" | "open";
}

export type IssueChange = Partial<Pick<IssueSnapshot, "title" | "body" | "labels" | "state">>;

/** One thing to do before the run goes on, with the reason in a sentence. All may be done again and end in the same place. */
export type ResumeAction = { readonly why: string } & (
  | { readonly kind: "keep_tips"; readonly commits: readonly string[] }
  | { readonly kind: "quarantine"; readonly sequence: number }
  | { readonly kind: "recreate_branch"; readonly branch: string; readonly commit: string }
  | { readonly kind: "recreate_worktree" }
  | { readonly kind: "finish_restore" }
  | { readonly kind: "go_back"; readonly sequence: number; readonly reopens: boolean }
  | { readonly kind: "take_issue"; readonly change: IssueChange; readonly feedback: string }
  /** The stage that the work was moved to by somebody; it begins a stay of its own there. */
  | { readonly kind: "move_stage"; readonly stage: string; readonly iteration?: number }
  /** The workflow's own, of those named here; the others stay. */
  | { readonly kind: "change_values"; readonly values: JsonObject }
  | { readonly kind: "take_settings" }
  | { readonly kind: "take_files" }
  | { readonly kind: "remember"; readonly finding: FindingKind; readonly actual: Json }
  | { readonly kind: "put_files_back" }
  | { readonly kind: "finish" }
  /** Nothing to do here; said so that nobody wonders. */
  | { readonly kind: "go_on" }
);

export type ResumePlan =
  | {
      /** "warn": somebody should read what is done. */
      readonly kind: "resume" | "warn";
      readonly judgements: readonly Judgement[];
      readonly actions: readonly ResumeAction[];
    }
  | {
      /** Only `actions` that make nothing worse whatever the answer is. */
      readonly kind: "ask";
      readonly judgements: readonly Judgement[];
      readonly actions: readonly ResumeAction[];
      readonly why: string;
      readonly hint: string;
    }
  | {
      readonly kind: "refuse";
      readonly judgements: readonly Judgement[];
      readonly why: string;
      readonly hint: string;
    }
  | {
      /** Without actions: it was done before, and nothing is changed. */
      readonly kind: "done";
      readonly judgements: readonly Judgement[];
      readonly actions: readonly ResumeAction[];
      readonly why: string;
    }
  | { readonly kind: "nothing"; readonly why: string; readonly hint: string };
