// Steps that every crunch phase shares: entering with its state label, recording events, committing and concluding.

import type { Adapters } from "@holdfast/core/adapters";
import type { Effect, Lookup } from "@holdfast/core/effects";
import type { Forge } from "@holdfast/core/forge";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import type { StageResult } from "@holdfast/core/transitions";
import type { EffectOutcome, StageContext } from "@holdfast/core/workflow";
import { HoldfastError } from "@holdfast/platform/error";
import { commitWork, followPushed } from "../branch.ts";
import { callForge, waitOnce } from "../forge.ts";
import { type Templates, allTemplates } from "../prompts.ts";
import { type AnyStageContext, type Worktree, openWorktree, requireForge, stageTime, stageHead } from "../worktree.ts";
import {
  CRUNCH_PROMPTS,
  type CrunchOptions,
  type CrunchStage,
  type CrunchStageEvent,
  isCrunchStage,
} from "./options.ts";
import {
  type MovedLabel,
  type Phase,
  isAtOrPast,
  movedLabel,
  phaseOfLabels,
  replaceStateLabel,
  stateLabel,
} from "./phases.ts";
import type { CrunchSettings } from "./settings.ts";
import { type CrunchBase, type CrunchEvent, type CrunchIssue, type CrunchState, parseCrunchState } from "./state.ts";

/** Dependencies of every crunch stage. */
export interface CrunchDependencies {
  readonly options: CrunchOptions;
  readonly adapters: Adapters;
}

export type CrunchContext = StageContext<CrunchState>;

/**
 * Records an event once per stage attempt. Returns the event that was first recorded under this name, including its
 * times.
 */
export async function recordEvent<E extends CrunchEvent>(context: CrunchContext, name: string, event: E): Promise<E> {
  return await context.record(name, event);
}

export function isoNow(context: Pick<CrunchContext, "now">): string {
  return new Date(context.now()).toISOString();
}

/**
 * Returns the results of the first stage, and the issue as last accepted. Throws INTERNAL before that; the transition
 * table puts that stage first.
 */
export function requireSetup({ state, inputs }: CrunchContext): {
  readonly issue: CrunchIssue;
  readonly base: CrunchBase;
  readonly settings: CrunchSettings;
  readonly templates: Templates<keyof typeof CRUNCH_PROMPTS.table>;
} {
  const { base, settings } = state;
  const issue = inputs.issue ?? state.issue;
  if (issue !== null && base !== null && settings !== null)
    return { issue, base, settings, templates: allTemplates(CRUNCH_PROMPTS, state.templates) };
  throw new HoldfastError({ code: "INTERNAL", message: "A phase of crunch began before the issue was read" });
}

/** Worktree, forge and time of a phase. */
export interface Place {
  readonly worktree: Worktree;
  readonly forge: Forge;
  /** When the phase started; commits made in it have this date. */
  readonly at: string;
}

export async function findPlace(work: CrunchDependencies, context: CrunchContext): Promise<Place> {
  const forge = await requireForge(work, context);
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const isFollowed = context.position.stageAttempt.steps["branch-followed"] !== undefined;
  if (context.state.adopted === true || isFollowed) {
    await followPushed(context, worktree, { at });
    await recordEvent(context, "branch-followed", { kind: "branch_followed" });
  }
  return { forge, worktree, at };
}

/** Starts a phase: sets its state label at the forge and records the phase in the run's state. */
export async function enterPhase(
  work: CrunchDependencies,
  context: CrunchContext,
  { place, phase }: { readonly place: Place; readonly phase: CrunchStage },
): Promise<void> {
  const { issue } = requireSetup(context);
  await applyMovedLabel(work, context, { forge: place.forge, phase });
  await setStateLabel(context, place.forge, { issue: issue.number, phase });
  await recordEvent(context, "phase-entered", { kind: "phase_entered", phase, at: place.at });
}

/** The effect kind of a state label change. */
const STATE_LABEL = "state_label";

type Receipt = { readonly labels: readonly string[] };

/**
 * Sets exactly one state label, that of this phase. Reads the labels right before the write, so that other users'
 * changes are kept. A label that is already right is adopted without a write.
 */
export async function setStateLabel(
  context: AnyStageContext,
  forge: Forge,
  params: { readonly issue: number; readonly phase: Phase },
): Promise<void> {
  const { issue, phase } = params;
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await context.effect<Receipt>({
      purpose: attempt === 1 ? "state-label" : `state-label-${attempt}`,
      kind: STATE_LABEL,
      target: `${forge.name} #${issue}`,
      payload: { label: stateLabel(phase) },
      lookUp: () => lookUp(forge, params),
      lateMs: forge.lateMs,
      act: () => replace(forge, params),
    });
    if (outcome.kind === "done") return;
    const reason = `The label ${stateLabel(phase) ?? "of no phase"} could not be put on issue ${issue}: ${outcome.reason}. Put that right, then resume.`;
    await waitOnce(context, { name: `state-label-waiting-${attempt}`, for: "you", reason });
  }
}

async function lookUp(
  forge: Forge,
  { issue, phase }: { readonly issue: number; readonly phase: Phase },
): Promise<Lookup> {
  const found = await forge.getIssue(issue);
  if (found === null) return { kind: "unknown", reason: `issue ${issue} is not at ${forge.location} any more` };
  const labelled = phaseOfLabels(found.labels);
  const isRight = labelled.kind === "phase" && labelled.label === stateLabel(phase);
  return isRight ? { kind: "present", receipt: { labels: [...found.labels] } } : { kind: "absent" };
}

async function replace(
  forge: Forge,
  { issue, phase }: { readonly issue: number; readonly phase: Phase },
): Promise<EffectOutcome<Receipt>> {
  const found = await forge.getIssue(issue);
  if (found === null) return { kind: "failed", reason: "the issue is not there any more", detail: null };
  const labels = replaceStateLabel(found.labels, phase);
  try {
    await forge.setLabels(issue, labels);
  } catch (error) {
    if (!(error instanceof HoldfastError) || (error.code !== "FORGE_REFUSED" && error.code !== "FORGE_DENIED"))
      throw error;
    return { kind: "failed", reason: error.message, detail: error.code };
  }
  return { kind: "done", receipt: { labels } };
}

/**
 * Runs before the next phase's label replaces the present one. If the user moved the label, the run waits; resume then
 * follows the label or asks. A user who resumes without changing the label has accepted it.
 */
async function applyMovedLabel(
  work: CrunchDependencies,
  context: CrunchContext,
  { forge, phase }: { readonly forge: Forge; readonly phase: Phase },
): Promise<void> {
  const { issue } = requireSetup(context);
  const moved = await callForge(context, () =>
    context.step(
      "label-moved",
      async (): Promise<MovedLabel | null> => {
        const found = await forge.getIssue(issue.number);
        if (found === null) return null;
        const own = await ownLabels(work, context);
        return movedLabel({ now: found.labels, own, entering: phase, agreed: await agreedLabels(work, context) });
      },
      { title: "reading the labels of the issue" },
    ),
  );
  if (moved === null) return;
  const at = context.state.phases.at(-1)?.phase ?? "its beginning";
  const next =
    moved.follows === null
      ? `Set the right one, then resume. If you change nothing, the run continues at ${phase}.`
      : `Resume to continue at ${moved.follows}. To continue at ${phase}, set state:${at} first.`;
  const reason = `Issue #${issue.number} has ${moved.says}, which was set while the run was at ${at}. ${next}`;
  await waitOnce(context, { name: "label-moved-waiting", for: "you", reason });
}

/**
 * The labels that the run itself set last, from the effect records, which no restore rolls back. Empty if the run has
 * set none, or if the newest effect is uncertain. A forge may answer from a stale copy, so right after a change the
 * previous labels count too.
 */
async function ownLabels(
  { adapters }: CrunchDependencies,
  context: CrunchContext,
): Promise<readonly (readonly string[])[]> {
  const [newest, before] = (await adapters.store.listEffects(context.run.id))
    .filter(({ kind, state }) => kind === STATE_LABEL && state.kind !== "failed")
    .toSorted((a, b) => stageAttemptOf(b) - stageAttemptOf(a))
    .map(({ state }) => state);
  if (newest?.kind !== "done") return [];
  const own = [labelsIn(newest.receipt)];
  if (context.now() - Date.parse(newest.at) > BEHIND_MS) return own;
  return [...own, before?.kind === "done" ? labelsIn(before.receipt) : (context.state.issue?.labels ?? [])];
}

const BEHIND_MS = 10_000;

function labelsIn(receipt: Json): readonly string[] {
  const labels = isJsonObject(receipt) ? (receipt["labels"] ?? null) : null;
  return isJsonArray(labels) ? labels.filter((label) => typeof label === "string") : [];
}

/** Effect keys end with the number of the stage attempt, which only grows; clocks may go back. */
function stageAttemptOf({ key }: Effect): number {
  return Number(key.slice(key.lastIndexOf(".") + 1));
}

/** Labels that a resume reported or asked about since the run last set its own label; null if there are none. */
async function agreedLabels(
  { adapters }: CrunchDependencies,
  { run, inputs }: CrunchContext,
): Promise<readonly string[] | null> {
  let noticed = false;
  for await (const { kind, body } of adapters.store.readJournal({ run: run.id })) {
    if (kind === "effect.intended" && body["kind"] === STATE_LABEL) noticed = false;
    if (kind === "note" && body["finding"] === "issue_labels_changed") noticed = true;
  }
  return noticed ? (inputs.issue?.labels ?? null) : null;
}

const SUMMARY_CHARACTERS = 4000;

/** Commits the changes of a phase; no commit without changes. */
export async function commitPhase(
  context: CrunchContext,
  { worktree, at }: Place,
  params: { readonly phase: CrunchStage; readonly summary: string },
): Promise<{ readonly head: string; readonly moved: boolean }> {
  const { issue } = requireSetup(context);
  const before = await stageHead(context, worktree.branch);
  // Git and its readers end a commit message at a NUL.
  const body = params.summary.replaceAll("\0", "").trim().slice(0, SUMMARY_CHARACTERS).toWellFormed();
  const message = `Issue #${issue.number}, ${params.phase}: ${issue.title.trim()}\n${body === "" ? "" : `\n${body}\n`}`;
  return await commitWork(context, worktree, { step: "commit", message, before, at });
}

/** Ends a successful phase: the run continues, or stops if it has reached its target. */
export function conclude(
  { target }: Pick<CrunchOptions, "target">,
  params: {
    readonly stage: CrunchStage;
    readonly event: CrunchStageEvent;
    readonly reason: string;
    /** Absent: the feedback for the next prompt remains unchanged. */
    readonly feedback?: string | null;
  },
): StageResult<CrunchState> {
  const { stage, event, reason, feedback } = params;
  const passed = feedback === undefined ? {} : { feedback };
  if (!isAtOrPast(stage, target)) return { event, reason, ...passed };
  // After this stage a run has nothing left to do by itself, so the reason does not mention the target.
  const stopped = stage === "ready-to-merge" ? reason : `Stopped at ${stage}, its target. ${reason}`;
  return { event: "at_target", reason: stopped, ...passed };
}

export function fail(reason: string): StageResult<CrunchState> {
  return { event: "fatal", reason };
}

/** The newest phase that the run entered; null if it has entered none or is done. */
export function lastCompletedPhase(values: JsonObject): CrunchStage | null {
  const phase = parseCrunchState(values).phases.at(-1)?.phase;
  return phase !== undefined && isCrunchStage(phase) ? phase : null;
}
