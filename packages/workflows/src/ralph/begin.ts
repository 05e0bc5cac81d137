// The begin stage of ralph: fixes issue, base and branch of a loop, and checks whether the criterion already passes.

import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import { sha256 } from "@holdfast/core/json";
import type { StageResult } from "@holdfast/core/transitions";
import { fetchBase, syncBranch } from "../branch.ts";
import { issueText, readIssue } from "../forge.ts";
import { loadTemplates } from "../prompts.ts";
import { OUTPUT_DIRECTORY, type Worktree, openWorktree, requireForge, stageTime } from "../worktree.ts";
import { LOOP_ID, RALPH_PROMPTS, makeLoopId } from "./options.ts";
import {
  type RalphContext,
  type RalphDependencies,
  type RalphState,
  type RepositoryState,
  outputFiles,
  recordEvent,
} from "./state.ts";
import { type RanCheck, checkText, commitChecked, hasPassed, readVerification, runChecks } from "./verify.ts";

/** Fixes what the loop works on and where, and checks whether there is anything to do. */
export async function beginStage(work: RalphDependencies, context: RalphContext): Promise<StageResult<RalphState>> {
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const issue = await findIssue(work, context);
  if (issue === "absent") return { event: "fatal", reason: "The issue is not at the forge" };
  const found = await findPlace(work, context, { worktree, at });
  if (found.kind === "impossible") return { event: "fatal", reason: found.reason };
  await worktree.outputs.hide(OUTPUT_DIRECTORY);
  if (issue !== null) await worktree.outputs.write(outputFiles.issue(issue.number), issueText(issue));
  const { prompts } = work.options;
  const templates = await context.step("templates", () => loadTemplates(RALPH_PROMPTS, prompts, worktree.outputs), {
    title: "reading the prompt templates",
  });
  await recordEvent(context, { kind: "begun", loopId: loopIdOf(work, context) });

  const checked = await firstCheck(work, context, { worktree, at });
  const inputs = { ...(issue === null ? {} : { issue }), base: found.place.base?.commit ?? null };
  return { ...checked, state: { ...context.state, ...found.place, templates }, inputs, trigger: "stage" };
}

async function findIssue(work: RalphDependencies, context: RalphContext): Promise<IssueSnapshot | "absent" | null> {
  if (context.run.work.kind !== "issue") return null;
  return (await readIssue(context, context.run.work.number, () => requireForge(work, context))) ?? "absent";
}

type Found =
  | { readonly kind: "found"; readonly place: RepositoryState }
  | { readonly kind: "impossible"; readonly reason: string };

/** Without a pull request, the loop depends on nothing outside this repository and queries neither forge nor remote. */
async function findPlace(
  work: RalphDependencies,
  context: RalphContext,
  params: { readonly worktree: Worktree; readonly at: string },
): Promise<Found> {
  const { worktree, at } = params;
  const { branch } = worktree;
  const place: RepositoryState = { began: null, base: null, pushed: null, pullRequest: context.state.pullRequest };
  const began = () => context.step("began", () => branch.head(), { title: "reading the branch" });
  if (!work.options.pullRequest) return { kind: "found", place: { ...place, began: await began() } };
  const forge = await requireForge(work, context);
  const base = await fetchBase(context, { branch, forge, named: work.options.baseBranch });
  if (base.kind !== "found") return { kind: "impossible", reason: base.reason };
  const synced = await syncBranch(context, worktree, { base: base.base, at });
  if (synced.kind !== "synced") return { kind: "impossible", reason: synced.reason };
  return { kind: "found", place: { ...place, began: await began(), base: base.base, pushed: synced.pushed } };
}

/** A run id in the form of a loop id is the loop id. Otherwise the loop id is derived from the run id. */
function loopIdOf({ options }: RalphDependencies, { run }: RalphContext): string {
  if (options.loopId !== null) return options.loopId;
  return LOOP_ID.test(run.id) ? run.id : makeLoopId({ task: run.id, hex: sha256(run.id).slice(0, 8) });
}

/** A criterion that passes before the first iteration ends the loop without spending tokens. */
async function firstCheck(
  work: RalphDependencies,
  context: RalphContext,
  { worktree, at }: { readonly worktree: Worktree; readonly at: string },
): Promise<StageResult<RalphState>> {
  const { options } = work;
  const begun: StageResult<RalphState> = { event: "begun", reason: "The loop begins" };
  if (!options.firstCheck || options.until.length === 0) return begun;
  const ran = await runChecks(work, context, worktree, options.until);
  if (ran.every(hasPassed)) {
    await commitChecked(context, worktree, { ran, at });
    return { event: "criterion_pass", reason: `The criterion passes already: ${ran.map(checkText).join(", ")}` };
  }
  const missing = ran.find(cannotRun);
  const stop = missing === undefined ? null : await askAboutMissing(context, missing);
  if (stop !== null) return { event: "fatal", reason: stop };
  const results = ran
    .filter((one) => !hasPassed(one))
    .map(checkText)
    .join(", ");
  return { ...begun, reason: `The loop begins: ${results}`, feedback: feedbackOf(ran) };
}

/** The first iteration has no previous one whose check output its prompt could include. */
function feedbackOf(ran: readonly RanCheck[]): string {
  const { checks } = readVerification({ number: 0, planned: ran.length, ended: ran });
  const outputs = checks
    .filter((check) => !hasPassed(check))
    .map((check) => `${checkText(check)}:\n\n${check.excerpt.replaceAll(/^/gm, "    ")}`);
  return ["Output of the commands before the first iteration:", ...outputs].join("\n\n");
}

/**
 * Exit codes of shells for a program that is missing or not executable. This is usually a typing error, which no agent
 * can fix.
 */
function cannotRun({ kind, code }: RanCheck): boolean {
  return kind === "not_started" || code === 126 || code === 127;
}

async function askAboutMissing(context: RalphContext, missing: RanCheck): Promise<string | null> {
  const answer = await context.decide({
    name: "criterion-cannot-run",
    question: `The criterion cannot be run: ${checkText(missing)} (${lastLine(missing.output)}). Continue because the work will add it, or stop?`,
    options: ["continue", "stop"],
  });
  return answer === "continue" ? null : `Stopped by the user: ${checkText(missing)}`;
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.slice(0, 200) ?? "";
}
