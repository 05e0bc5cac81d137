import { wasAccepted } from "./accepted.ts";
import type { Accepted } from "./accepted.ts";
import { FINDING_KINDS, VERDICTS } from "./finding.ts";
import type { Finding, FindingKind, FindingPolicy, Verdict } from "./finding.ts";
import type { Answers, Judgement, ResumeAction, ResumePlan } from "./resume.ts";
import { actionsFor } from "./resume-actions.ts";
import type { RunState } from "../run/run.ts";
import { canonicalJson } from "../values/index.ts";

/**
 * What a resume would do, from all that was found, in whatever order it was found. The worst finding decides. An answer turns a
 * question into a warning, never a refusal into anything; what was accepted before is not asked again.
 */
export function planResume(params: {
  readonly run: string;
  readonly state: RunState;
  /** The checkpoint to go on from; null: there is none. */
  readonly from: ResumeFrom | null;
  readonly findings: readonly Finding[];
  readonly policy: FindingPolicy;
  /** What the run's workflow says of a finding instead of the policy; null: nothing. */
  readonly verdictOf?: (finding: Finding) => Verdict | null;
  readonly answers: Answers;
  /** As the checkpoint has them. */
  readonly accepted: Accepted;
  /** Take up a run that has ended. Needs a chosen checkpoint. */
  readonly force: boolean;
}): ResumePlan {
  const { run, state, from } = params;
  if (from === null) {
    return { kind: "nothing", why: `Run ${run} has no checkpoint`, hint: "Start it anew with `holdfast run`." };
  }
  const reopens = (state.kind === "done" || state.kind === "fatal") && params.force && from.kind === "chosen";
  if (state.kind === "done" && !reopens) {
    // Whoever names a checkpoint wants to go back to it: "done" would leave them where they are without a word.
    if (from.kind === "chosen") {
      const at = `${run}@${from.sequence}`;
      const why = `Run ${run} is done since ${state.at}, and is not taken back to checkpoint ${from.sequence} unasked`;
      const hint = `Try another way from there in a run of its own: \`holdfast fork ${at}\`; or take this one up again: \`holdfast resume ${at} --force\`.`;
      return { kind: "refuse", judgements: [], why, hint };
    }
    return { kind: "done", judgements: [], actions: [], why: `Run ${run} is done since ${state.at}` };
  }
  if (state.kind === "fatal" && !reopens) {
    const why = `Run ${run} ended at ${state.at}: ${state.reason}`;
    const hint = `Choose where to begin again: \`holdfast resume ${run}@SEQUENCE --force\`.`;
    return { kind: "refuse", judgements: [], why, hint };
  }
  const judgements = setMootAside(inOrder(params.findings).map((finding) => judge(finding, params)));
  return decide({ run, judgements, goesBack: goesBack(from, reopens) });
}

export type ResumeFrom =
  | { readonly kind: "newest" }
  /** Newer ones cannot be used. */
  | { readonly kind: "newest_intact"; readonly sequence: number; readonly why: string }
  | { readonly kind: "chosen"; readonly sequence: number };

function decide(params: {
  readonly run: string;
  readonly judgements: readonly Judgement[];
  readonly goesBack: readonly ResumeAction[];
}): ResumePlan {
  const { run, judgements } = params;
  const verdict = worstOf(judgements.map((one) => one.verdict));
  const standing = judgements.filter((one) => one.verdict === verdict);
  const why = standing.map((one) => one.finding.summary).join("; ");
  const kinds = [...new Set(standing.map((one) => one.finding.kind))];
  switch (verdict) {
    case "refuse":
      return { kind: "refuse", judgements, why, hint: kinds.map((kind) => MEND[kind] ?? MEND_BY_HAND).join(" ") };
    case "ask": {
      const flags = kinds.map((kind) => `--accept ${kind}`).join(" ");
      const hint = `Look at what changed, then go on with \`holdfast resume ${run} ${flags}\`.`;
      // Safe whatever the answer will be, and by then it may be too late.
      const safe = actionsFor(judgements.map((one) => ({ ...one, decision: "by_policy" })));
      return { kind: "ask", judgements, actions: safe.filter((action) => action.kind === "keep_tips"), why, hint };
    }
    case "warn":
    case "resume": {
      const actions = [...actionsFor(judgements)];
      if (actions.some((action) => action.kind === "finish")) {
        const ending = new Set(["keep_tips", "finish"]);
        // What else changed is told beside it; it is not why there is nothing left to do.
        const merged = judgements.find(({ finding }) => finding.kind === "pull_request_merged")?.finding.summary;
        return { kind: "done", judgements, actions: actions.filter((one) => ending.has(one.kind)), why: merged ?? why };
      }
      const place = actions.findIndex((action) => !BEFORE_GOING_BACK.has(action.kind));
      actions.splice(place < 0 ? actions.length : place, 0, ...params.goesBack);
      return { kind: verdict, judgements, actions };
    }
  }
}

const BEFORE_GOING_BACK: ReadonlySet<ResumeAction["kind"]> = new Set([
  "keep_tips",
  "quarantine",
  "recreate_branch",
  "recreate_worktree",
  "finish_restore",
]);

function goesBack(from: ResumeFrom, reopens: boolean): readonly ResumeAction[] {
  switch (from.kind) {
    case "newest":
      return [];
    case "newest_intact": {
      const why = `The run goes back to checkpoint ${from.sequence}: ${from.why}.`;
      return [{ kind: "go_back", sequence: from.sequence, reopens, why }];
    }
    case "chosen": {
      const why = `The run goes back to checkpoint ${from.sequence}, as chosen${reopens ? ", and is taken up again" : ""}.`;
      return [{ kind: "go_back", sequence: from.sequence, reopens, why }];
    }
  }
}

function judge(
  finding: Finding,
  params: {
    readonly policy: FindingPolicy;
    readonly verdictOf?: (finding: Finding) => Verdict | null;
    readonly answers: Answers;
    readonly accepted: Accepted;
  },
): Judgement {
  if (wasAccepted(params.accepted, finding)) return { finding, verdict: "resume", decision: "accepted_before" };
  const verdict = params.verdictOf?.(finding) ?? params.policy[finding.kind];
  const answer = params.answers[finding.kind];
  if (verdict === "refuse") return { finding, verdict, decision: "open" };
  if (answer === "put_back" && finding.kind === "files_changed") return { finding, verdict: "warn", decision: answer };
  if (answer === "accept") return { finding, verdict: verdict === "ask" ? "warn" : verdict, decision: "accepted" };
  return { finding, verdict, decision: verdict === "ask" ? "open" : "by_policy" };
}

/**
 * A merge closes the issue, moves the base and takes the branch with it. With the work in it, none of that is a question any more;
 * what is not in it still is one.
 */
function setMootAside(judgements: readonly Judgement[]): readonly Judgement[] {
  const merged = judgements.find(({ finding }) => finding.kind === "pull_request_merged");
  if (merged === undefined || merged.verdict === "ask" || merged.verdict === "refuse") return judgements;
  return judgements.map((one) => {
    const matters = one.finding.kind === "work_not_merged" || one.verdict !== "ask";
    return matters ? one : { ...one, verdict: "warn", decision: "moot" };
  });
}

function inOrder(findings: readonly Finding[]): readonly Finding[] {
  const keyed = findings.map((finding) => ({ finding, text: canonicalJson([finding.actual, finding.expected]) }));
  const place = (kind: FindingKind): number => FINDING_KINDS.indexOf(kind);
  return keyed
    .toSorted(
      (a, b) => place(a.finding.kind) - place(b.finding.kind) || (a.text < b.text ? -1 : a.text > b.text ? 1 : 0),
    )
    .map(({ finding }) => finding);
}

function worstOf(verdicts: readonly Verdict[]): Verdict {
  return VERDICTS[Math.max(0, ...verdicts.map((verdict) => VERDICTS.indexOf(verdict)))] ?? "refuse";
}

const MEND_BY_HAND = "Mend it, then resume again.";
const MEND: Readonly<Partial<Record<FindingKind, string>>> = {
  lease_held: "Wait for the process that holds the run, or stop it with `holdfast stop`.",
  tree_missing: "Run `holdfast verify` to see what is whole, and fetch the missing objects from another clone.",
  issue_mismatch: "Start a run of its own for the other issue.",
};
