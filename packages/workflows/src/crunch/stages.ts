// The stages of crunch, from enrich to done.

import type { Forge } from "@holdfast/core/forge";
import type { StageResult } from "@holdfast/core/transitions";
import { REFUSAL_RESPONSE, checkRemoteBranch, fetchBase, pushBranch, syncBranch } from "../branch.ts";
import { callForge, issueNumber, readIssue } from "../forge.ts";
import { loadTemplates } from "../prompts.ts";
import { type OpenedRequest, openPullRequest } from "../pull-request.ts";
import { formBody, formTitle, inCode } from "../pull-request-text.ts";
import { readRepositoryFacts } from "../repository-facts.ts";
import { OUTPUT_DIRECTORY, type Worktree, requireForge, runGateCommand, stageTime } from "../worktree.ts";
import { truncateStart, oneLine } from "../text.ts";
import {
  type CrunchContext,
  type CrunchDependencies,
  type Place,
  commitPhase,
  conclude,
  enterPhase,
  fail,
  findPlace,
  recordEvent,
  requireSetup,
  setStateLabel,
} from "./phase-steps.ts";
import { CRUNCH_PROMPTS } from "./options.ts";
import { type Phase, isAtOrPast, parsePhase, phaseOfLabels, typeOfLabels } from "./phases.ts";
import { editsFiles, planPhaseGraph } from "./plan-team.ts";
import { captureResolution, runPhase } from "./run-phase.ts";
import type { GraphPhase } from "./settings.ts";
import { type CrunchIssue, type CrunchState, sortOutputs } from "./state.ts";

/** Prepares the issue for implementation: the team analyses it and writes a specification and a plan. */
export async function enrichStage(work: CrunchDependencies, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  const setup = await setUp(work, context, place);
  if (setup.kind === "impossible") return fail(setup.reason);
  const { issue, base } = requireSetup(context);
  const inputs = { inputs: { issue, base: base.commit } };
  const done = (reason: string) => ({
    ...conclude(work.options, { stage: "enrich", event: "enriched", reason }),
    ...inputs,
  });
  const plan = await settleEntry(context, planEntry(issue));
  if (plan.kind === "over") return { ...fail(plan.reason), ...inputs };
  if (plan.kind === "enriched") return done(`Issue #${issue.number} is at ${plan.phase} by its label`);
  await enterPhase(work, context, { place, phase: "enrich" });
  const end = await runPhase(work, context, { phase: "enrich", place });
  if (end.kind === "given_up") return { ...fail(end.reason), ...inputs };
  return done(`Issue #${issue.number} is enriched${end.remark}`);
}

async function settleEntry(context: CrunchContext, plan: EntryPlan): Promise<SettledEntry> {
  if (plan.kind !== "ask") return plan;
  const { issue } = requireSetup(context);
  const answer = await context.decide({
    name: "which-phase",
    question: `Issue #${issue.number} has labels of several phases: ${plan.phases.join(", ")}. Which one is right?`,
    options: plan.phases,
  });
  return entryAt(issue.number, parsePhase(answer) ?? "enrich");
}

/** No agent works in this stage. Its label shows that the issue can be implemented. */
export async function readyStage(work: CrunchDependencies, context: CrunchContext): Promise<StageResult<CrunchState>> {
  await enterPhase(work, context, { place: await findPlace(work, context), phase: "ready" });
  const { issue } = requireSetup(context);
  return conclude(work.options, {
    stage: "ready",
    event: "accepted",
    reason: `Issue #${issue.number} is ready to be implemented`,
  });
}

/** Runs one round of implementation, with the feedback of the previous end-to-end check. */
export async function implementingStage(
  work: CrunchDependencies,
  context: CrunchContext,
): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  await enterPhase(work, context, { place, phase: "implementing" });
  const end = await runPhase(work, context, { phase: "implementing", place });
  if (end.kind === "given_up") return fail(end.reason);
  const { moved } = await commitPhase(context, place, { phase: "implementing", summary: end.summary });
  const empty = await explainEmptyBranch(work, context, { place, phase: "implementing", summary: end.summary });
  if (empty !== null) return fail(empty);
  const what = moved ? "is implemented" : "is implemented without any change to the files";
  return conclude(work.options, {
    stage: "implementing",
    event: "implemented",
    reason: `Round ${context.position.iteration} ${what}${end.remark}`,
    feedback: null,
  });
}

/**
 * Checks the whole: first the user's gate command, then the team's checks. A failure sends the work back to
 * implementation.
 */
export async function e2eStage(work: CrunchDependencies, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  await enterPhase(work, context, { place, phase: "e2e" });
  const { gate } = work.options;
  const verdict = await runGateCommand(work, context, place.worktree, { gate, commitAt: place.at });
  if (verdict.kind === "failed") return { event: "e2e_fail", reason: verdict.reason, feedback: verdict.detail };
  const end = await runPhase(work, context, { phase: "e2e", place });
  if (end.kind === "given_up") return fail(end.reason);
  await commitPhase(context, place, { phase: "e2e", summary: end.summary });
  if (end.failing !== null) return { event: "e2e_fail", reason: end.failing.reason, feedback: end.failing.detail };
  const checked = gate === null ? "The team's checks passed" : "The gate command and the team's checks passed";
  return conclude(work.options, { stage: "e2e", event: "e2e_pass", reason: checked + end.remark, feedback: null });
}

/** Updates the documentation for the users of the change. */
export async function docsStage(work: CrunchDependencies, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  await enterPhase(work, context, { place, phase: "docs" });
  const end = await runPhase(work, context, { phase: "docs", place });
  if (end.kind === "given_up") return fail(end.reason);
  const { moved } = await commitPhase(context, place, { phase: "docs", summary: end.summary });
  const empty = await explainEmptyBranch(work, context, { place, phase: "docs", summary: end.summary });
  if (empty !== null) return fail(empty);
  const reason = `${moved ? "The documents are up to date" : "The documents need no change"}${end.remark}`;
  return conclude(work.options, { stage: "docs", event: "documented", reason });
}

/** Pushes the branch and opens a pull request. The merge is left to people. */
export async function readyToMergeStage(
  work: CrunchDependencies,
  context: CrunchContext,
): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  const opened = work.options.target === "done" ? openedBefore(context) : null;
  if (opened !== null) return await awaitMerge(context, place, opened);
  await enterPhase(work, context, { place, phase: "ready-to-merge" });
  const { head } = await commitPhase(context, place, { phase: "ready-to-merge", summary: "" });
  const remote = await checkRemoteBranch(context, place.worktree, { head });
  if (remote.kind === "stop") return fail(remote.reason);
  const pushed = await pushBranch(context, place.worktree, { head, expected: remote.expected });
  if (pushed.kind === "refused") {
    const reason = `The push to ${pushed.remote} was refused (${pushed.refusal.cause}): ${pushed.refusal.message.trim()}`;
    if (REFUSAL_RESPONSE[pushed.refusal.cause] !== "fixable") return fail(reason);
    return { event: "push_refused", reason, feedback: `${reason}.` };
  }
  const outcome = await open(work, context, place);
  if (outcome.kind === "refused") return fail(outcome.reason);
  const { request } = outcome;
  await recordEvent(context, "pull-request-opened", { kind: "pull_request_opened", pullRequest: request });
  if (work.options.target === "done") return await awaitMerge(context, place, request);
  const reason = `Pull request #${request.number} is open: ${request.url}`;
  return conclude(work.options, { stage: "ready-to-merge", event: "merged", reason });
}

/**
 * The pull request of a run that had stopped at it and now has the target done. Its branch may be merged and deleted, so
 * nothing is pushed again.
 */
function openedBefore({ state, position }: CrunchContext): CrunchState["pullRequest"] {
  const isEntered = position.stageAttempt.steps["phase-entered"] !== undefined;
  return !isEntered && state.phases.at(-1)?.phase === "ready-to-merge" ? state.pullRequest : null;
}

type Open =
  | { readonly kind: "open"; readonly request: OpenedRequest }
  | { readonly kind: "refused"; readonly reason: string };

async function open(work: CrunchDependencies, context: CrunchContext, { forge, worktree }: Place): Promise<Open> {
  const { base, issue } = requireSetup(context);
  const { attribution, gate } = work.options;
  const facts = await context.step(
    "repository",
    () => readRepositoryFacts(worktree.branch, { commit: base.commit, forge: forge.name }),
    { title: "reading the repository's conventions" },
  );
  const opened = await openPullRequest(context, forge, {
    purpose: "pull-request",
    title: formTitle({
      proposed: facts.titles.form === null ? null : issue.title,
      otherwise: issue.title,
      issue: issue.number,
      form: facts.titles.form ?? "plain",
      tags: [(work.options.type ?? typeOfLabels(issue.labels)) === "bug" ? "fix" : "feat", ...facts.titles.tags],
    }),
    body: formBody({
      words: pullRequestWords(context.state),
      template: facts.template?.text ?? null,
      tested: [
        gate === null
          ? "Holdfast ran no tests: no gate command is configured."
          : `The e2e phase requires ${inCode(gate.command)} to pass.`,
      ],
      issue: issue.number,
      madeBy: attribution ? context.run.id : null,
    }),
    head: worktree.branch.name,
    base: base.branch,
    draft: work.options.draft,
  });
  if (opened.kind === "open") return opened;
  return { kind: "refused", reason: `No pull request could be opened: ${opened.reason}` };
}

/** Waits for the user each time the pull request is still open. After the merge, a resume ends the run. */
async function awaitMerge(
  context: CrunchContext,
  { forge }: Place,
  request: Pick<OpenedRequest, "number" | "url">,
): Promise<StageResult<CrunchState>> {
  const found = await callForge(context, () => forge.getPullRequest(request.number));
  const name = `Pull request #${request.number}`;
  switch (found?.state) {
    case "merged":
      return { event: "merged", reason: `${name} is merged` };
    case "open":
      return await context.wait({
        for: "you",
        reason: `${name} is open and waits to be merged: ${request.url}. Merge it, then resume.`,
      });
    case "closed":
      return fail(`${name} was closed without being merged`);
    case undefined:
      return fail(`${name} is not there any more`);
  }
}

/** Runs after the merge: sets the final label and captures what the run learned. */
export async function doneStage(work: CrunchDependencies, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const forge = await requireForge(work, context);
  const { issue } = requireSetup(context);
  await setStateLabel(context, forge, { issue: issue.number, phase: "done" });
  const at = await stageTime(context);
  await recordEvent(context, "phase-entered", { kind: "phase_entered", phase: "done", at });
  await captureResolution(context, at);
  return { event: "done", reason: context.position.reason ?? "Done" };
}

type Setup = { readonly kind: "ready" } | { readonly kind: "impossible"; readonly reason: string };

/** Reads the issue, the team's settings and the base of the branch once. All of them are fixed from here on. */
async function setUp(
  work: CrunchDependencies,
  context: CrunchContext,
  params: { readonly worktree: Worktree; readonly forge: Forge; readonly at: string },
): Promise<Setup> {
  const { worktree, forge, at } = params;
  const { branch } = worktree;
  const issue = await readIssue(context, issueNumber(context), async () => forge);
  if (issue === null)
    return { kind: "impossible", reason: `Issue ${issueNumber(context)} is not at ${forge.name} (${forge.location})` };
  const found = await fetchBase(context, { branch, forge, named: work.options.baseBranch });
  if (found.kind !== "found") return { kind: "impossible", reason: found.reason };
  const synced = await syncBranch(context, worktree, { base: found.base, at });
  if (synced.kind !== "synced") return { kind: "impossible", reason: synced.reason };
  await worktree.outputs.hide(OUTPUT_DIRECTORY);
  await recordEvent(context, "issue-read", { kind: "issue_read", issue });
  const { settings, prompts } = work.options;
  const templates = await context.step("templates", () => loadTemplates(CRUNCH_PROMPTS, prompts, worktree.outputs), {
    title: "reading the prompt templates",
  });
  await recordEvent(context, "settings-read", { kind: "settings_read", settings });
  await recordEvent(context, "templates-read", { kind: "templates_read", templates });
  await recordEvent(context, "branch-made", { kind: "branch_made", branch: branch.name, base: found.base });
  return { kind: "ready" };
}

type EntryPlan = SettledEntry | { readonly kind: "ask"; readonly phases: readonly Phase[] };

type SettledEntry =
  | { readonly kind: "enrich" }
  /** The label says that the issue is already enriched. */
  | { readonly kind: "enriched"; readonly phase: Phase }
  | { readonly kind: "over"; readonly reason: string };

/**
 * Decides from the labels where a run starts. A new run has none of the work that later labels claim, so it starts at
 * implementing at the latest.
 */
export function planEntry(issue: Pick<CrunchIssue, "number" | "labels" | "state">): EntryPlan {
  if (issue.state === "closed") return { kind: "over", reason: `Issue ${issue.number} is closed` };
  const labelled = phaseOfLabels(issue.labels);
  if (labelled.kind === "several") return { kind: "ask", phases: labelled.phases };
  return entryAt(issue.number, labelled.phase);
}

function entryAt(issue: number, phase: Phase): SettledEntry {
  if (phase === "done") return { kind: "over", reason: `Issue ${issue} is done, as its label says` };
  return isAtOrPast(phase, "ready") ? { kind: "enriched", phase } : { kind: "enrich" };
}

/**
 * Explains early why there is nothing to open a pull request for: the branch has no commit beyond its base, and no
 * later phase changes files. Returns null if the run can continue.
 */
async function explainEmptyBranch(
  { options }: CrunchDependencies,
  context: CrunchContext,
  params: { readonly place: Place; readonly phase: "implementing" | "docs"; readonly summary: string },
): Promise<string | null> {
  const { place, phase, summary } = params;
  if (!isAtOrPast(options.target, "ready-to-merge")) return null;
  if (LATER[phase].some((later) => mayEdit(context, later, place.at))) return null;
  const { base } = requireSetup(context);
  const { branch } = place.worktree;
  const isEmpty = await context.step(
    "empty",
    async () => branch.isAncestor({ ancestor: await branch.head(), of: base.commit }),
    { title: "looking for changes" },
  );
  if (!isEmpty) return null;
  const quoted = summary.trim() === "" ? "" : ` What the team said:\n${truncateStart(summary.trim(), SAID_CHARACTERS)}`;
  return `No agent has changed a file, and none will in the phases after ${phase}: there is nothing to open a pull request for.${quoted}`;
}

const SAID_CHARACTERS = 1000;

const LATER: Readonly<Record<"implementing" | "docs", readonly GraphPhase[]>> = {
  implementing: ["e2e", "docs"],
  docs: [],
};

function mayEdit(context: CrunchContext, phase: GraphPhase, at: string): boolean {
  const { settings, issue } = requireSetup(context);
  const { team } = context.state;
  if (team === null) return false;
  const template = settings.graphs[phase];
  const { labels } = issue;
  const graph = planPhaseGraph({ phase, template, team, agents: settings.agents, labels, attempt: 1, at });
  return graph.nodes.some((node) => editsFiles(graph, node));
}

/** Characters of a line in the pull request's body. */
const MOST = 300;

/** What each agent did and what was decided. */
function pullRequestWords(state: CrunchState): string {
  const outputs = sortOutputs(state.outputs).map(
    ({ phase, agent, summary }) => `- ${phase}, ${agent}: ${oneLine(summary, MOST)}`,
  );
  const decisions = state.conflicts.flatMap(({ topic, resolution }) =>
    resolution === null ? [] : [`- ${oneLine(topic, MOST)}: ${oneLine(resolution.choice, MOST)} (${resolution.how})`],
  );
  return [
    ...section("What the team did", outputs),
    ...section("What was decided where opinions differed", decisions),
  ].join("\n");
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : [`## ${title}`, "", ...lines, ""];
}
