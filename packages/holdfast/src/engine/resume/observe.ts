import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import type { Effect } from "../../core/effect/effect.ts";
import { compareSettings } from "../../core/resume/finding.ts";
import type { Finding, Setting } from "../../core/resume/finding.ts";
import { reliedOn } from "../../core/resume/relied-on.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { foldSince } from "../../core/journal/since-checkpoint.ts";
import { observeJournal } from "./observe-journal.ts";
import { observeForge } from "./observe-forge.ts";
import { observePlace } from "./observe-place.ts";
import { observeRemote } from "./observe-remote.ts";
import type { WorkParts } from "../work-parts.ts";

/**
 * Everything that is not as the checkpoint has it: no finding hides another, and what could not be asked is a finding too. Looks
 * only (a fetch apart). What the run itself did after the checkpoint is no difference.
 */
export async function observeWorld(params: {
  readonly parts: WorkParts;
  readonly run: RunSummary;
  /** What the run goes on from. */
  readonly checkpoint: Checkpoint;
  /** What branch and files are compared with, when the run goes on from an older one; absent: the same. */
  readonly newest?: Checkpoint;
  /** What would carry the run on. */
  readonly current: Setting;
}): Promise<readonly Finding[]> {
  const { parts, run, checkpoint } = params;
  const { position, config } = checkpoint.planes;
  const relied = reliedOn(checkpoint.planes);
  const newest = params.newest ?? checkpoint;
  const entries = await Array.fromAsync(parts.store.readJournal({ run: run.id, after: newest.entry }));
  const since = foldSince({ visit: newest.planes.position.visit, entries });
  const effects = await parts.store.listEffects(run.id);
  const place = await observePlace({ parts, run, checkpoint: newest, since });
  const forge = await observeForge({ parts, run, relied, effects, place });
  const journal = await observeJournal(parts.store, run.id);
  const remote = await observeRemote({ parts, relied, place, merged: forge.merged, seen: since.seen });
  return [
    ...forge.findings,
    ...place.findings,
    ...journal,
    ...remote,
    ...compareSettings({ saved: { definition: position.definition, config }, current: params.current }),
    ...effects.flatMap(inFlight),
    ...unfinishedRestore(run, since.changesFiles),
  ];
}

function inFlight(effect: Effect): readonly Finding[] {
  const { key, kind, target, state } = effect;
  if (state.kind !== "intended" && state.kind !== "unknown") return [];
  const summary = `Whether ${kind} on ${target} happened was not written down`;
  return [{ kind: "effect_in_flight", summary, expected: "settled", actual: { key, state: state.kind } }];
}

/** One that a step began is finished by that step, when it runs again. */
function unfinishedRestore(run: RunSummary, stepInFlight: boolean): readonly Finding[] {
  const target = run.unfinishedRestore;
  if (target === null || stepInFlight) return [];
  const summary = `The restore of ${target} did not finish`;
  return [{ kind: "restore_unfinished", summary, expected: null, actual: target }];
}
