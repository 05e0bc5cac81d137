import type { Adapters } from "@holdfast/core/adapters";
import type { Effect, Lookup } from "@holdfast/core/effects";
import type { Forge } from "@holdfast/core/forge";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import type { StageResult } from "@holdfast/core/transitions";
import type { EffectOutcome, StageContext } from "@holdfast/core/workflow";
import { HoldfastError } from "@holdfast/platform/error";
import { commitWork } from "../branch.ts";
import { callForge, waitOnce } from "../forge.ts";
import { type AnyStageContext, type Worktree, openWorktree, requireForge, stageTime } from "../worktree.ts";
import { type CrunchOptions, type CrunchStage, type CrunchStageEvent, isCrunchStage } from "./options.ts";
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

/** What every stage of crunch works with. */
export interface CrunchDependencies {
  readonly options: CrunchOptions;
  readonly parts: Adapters;
}

export type CrunchContext = StageContext<CrunchState>;

/** One event, once in this visit whatever happens: answers with what was recorded under the name first, its times included. */
export async function tell<E extends CrunchEvent>(context: CrunchContext, name: string, event: E): Promise<E> {
  return await context.record(name, event);
}

export function isoNow(context: Pick<CrunchContext, "now">): string {
  return new Date(context.now()).toISOString();
}

/** What the first stage found; of the issue what was last agreed on. INTERNAL before that: the table lets no other stage come first. */
export function requireSetup({ state, inputs }: CrunchContext): {
  readonly issue: CrunchIssue;
  readonly base: CrunchBase;
  readonly settings: CrunchSettings;
} {
  const { base, settings } = state;
  const issue = inputs.issue ?? state.issue;
  if (issue !== null && base !== null && settings !== null) return { issue, base, settings };
  throw new HoldfastError({ code: "INTERNAL", message: "A phase of crunch began before the issue was read" });
}

/** What a phase works with. */
export interface Place {
  readonly worktree: Worktree;
  readonly forge: Forge;
  /** When the phase was entered; commits made in it have this date. */
  readonly at: string;
}

export async function findPlace(work: CrunchDependencies, context: CrunchContext): Promise<Place> {
  const forge = await requireForge(work, context);
  return { forge, worktree: await openWorktree(work, context), at: await stageTime(context) };
}

/** What every phase begins with: the label that tells others, and a line in the run's own book. */
export async function enterPhase(
  work: CrunchDependencies,
  context: CrunchContext,
  { place, phase }: { readonly place: Place; readonly phase: CrunchStage },
): Promise<void> {
  const { issue } = requireSetup(context);
  await applyMovedLabel(work, context, { forge: place.forge, phase });
  await setStateLabel(context, place.forge, { issue: issue.number, phase });
  await tell(context, "phase-entered", { kind: "phase_entered", phase, at: place.at });
}

/** Kind of the effect. */
const STATE_LABEL = "state_label";

type Receipt = { readonly labels: readonly string[] };

/**
 * Exactly one state label, this phase's. The labels are read right before they are written, so what others changed meanwhile stays; one that
 * is right already is adopted and nothing is written.
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
    await waitOnce(context, { name: `state-label-parked-${attempt}`, on: "person", reason });
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
 * Before the label of the next phase replaces the one that is there. One that a person moved meanwhile says where the work is to go on: the run parks, and is
 * taken up as by every resume, which follows the label or asks. Whoever resumes with it as it is has been heard.
 */
async function applyMovedLabel(
  work: CrunchDependencies,
  context: CrunchContext,
  { forge, phase }: { readonly forge: Forge; readonly phase: Phase },
): Promise<void> {
  const { issue } = requireSetup(context);
  const moved = await callForge(context, () =>
    context.step("label-moved", async (): Promise<MovedLabel | null> => {
      const found = await forge.getIssue(issue.number);
      if (found === null) return null;
      const own = await ownLabels(work, context);
      return movedLabel({ now: found.labels, own, entering: phase, agreed: await agreedLabels(work, context) });
    }),
  );
  if (moved === null) return;
  const at = context.state.phases.at(-1)?.phase ?? "its beginning";
  const next =
    moved.follows === null
      ? `Put the right one there, then resume; as it is, the run goes on at ${phase}.`
      : `Resume, and the run goes on at ${moved.follows}; put state:${at} there first, and it goes on at ${phase}.`;
  const reason = `Issue #${issue.number} carries ${moved.says}, set by somebody while the run was at ${at}. ${next}`;
  await waitOnce(context, { name: "label-moved-parked", on: "person", reason });
}

/**
 * By the ledger, which goes back with no restore. None where the run has set none yet, or one may have come about that nobody knows of. A forge may
 * answer from a copy that is behind: right after a change, what was there before is the run's own too.
 */
async function ownLabels(
  { parts }: CrunchDependencies,
  context: CrunchContext,
): Promise<readonly (readonly string[])[]> {
  const [newest, before] = (await parts.store.listEffects(context.run.id))
    .filter(({ kind, state }) => kind === STATE_LABEL && state.kind !== "failed")
    .toSorted((a, b) => visitOf(b) - visitOf(a))
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

/** Keys end with the number of the visit, which only ever grows; clocks do not. */
function visitOf({ key }: Effect): number {
  return Number(key.slice(key.lastIndexOf(".") + 1));
}

/** What a person was told of, or asked about, when the run was taken up since it set its own label last; null: nothing. */
async function agreedLabels(
  { parts }: CrunchDependencies,
  { run, inputs }: CrunchContext,
): Promise<readonly string[] | null> {
  let heard = false;
  for await (const { kind, body } of parts.store.readJournal({ run: run.id })) {
    if (kind === "effect.intended" && body["kind"] === STATE_LABEL) heard = false;
    if (kind === "note" && body["finding"] === "issue_labels_changed") heard = true;
  }
  return heard ? (inputs.issue?.labels ?? null) : null;
}

const SUMMARY_CHARACTERS = 4000;

/** What a phase has made of the files becomes one commit; nothing when it has made nothing. */
export async function commitPhase(
  context: CrunchContext,
  { worktree, at }: Place,
  params: { readonly phase: CrunchStage; readonly summary: string },
): Promise<{ readonly head: string; readonly moved: boolean }> {
  const { issue } = requireSetup(context);
  const before = await context.step("head", () => worktree.branch.head());
  // A NUL ends a commit message early for every reader of it.
  const body = params.summary.replaceAll("\0", "").trim().slice(0, SUMMARY_CHARACTERS).toWellFormed();
  const message = `Issue #${issue.number}, ${params.phase}: ${issue.title.trim()}\n${body === "" ? "" : `\n${body}\n`}`;
  return await commitWork(context, worktree, { step: "commit", message, before, at });
}

/** How a phase that succeeded ends: it leads on, or it was as far as the run was to go. */
export function conclude(
  { target }: Pick<CrunchOptions, "target">,
  params: {
    readonly stage: CrunchStage;
    readonly event: CrunchStageEvent;
    readonly reason: string;
    /** Absent: what the next prompt is told stays as it is. */
    readonly feedback?: string | null;
  },
): StageResult<CrunchState> {
  const { stage, event, reason, feedback } = params;
  const told = feedback === undefined ? {} : { feedback };
  if (!isAtOrPast(stage, target)) return { event, reason, ...told };
  // Nothing is left that a run could do by itself: that it stops there needs no word.
  const stopped = stage === "ready-to-merge" ? reason : `Stopped at ${stage}, its target. ${reason}`;
  return { event: "at_target", reason: stopped, ...told };
}

export function fail(reason: string): StageResult<CrunchState> {
  return { event: "fatal", reason };
}

/** The last phase that a run has carried out; null: none yet. */
export function lastCompletedPhase(values: JsonObject): CrunchStage | null {
  const phase = parseCrunchState(values).phases.at(-1)?.phase;
  return phase !== undefined && isCrunchStage(phase) ? phase : null;
}
