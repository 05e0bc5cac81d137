import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { checkTrails } from "../../core/compare/check-trails.ts";
import type { ComparedRun } from "../../core/compare/compared-run.ts";
import { readMeasures } from "../../core/compare/read-measures.ts";
import type { HistoryStep } from "../../core/compare/read-history.ts";
import { newBudget } from "../../core/position/budget.ts";
import type { Position } from "../../core/position/position.ts";
import { reliedOn } from "../../core/resume/relied-on.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import { journalDamage } from "../../engine/resume/journal-damage.ts";
import { loadFrom } from "../../engine/conduct/load-run.ts";
import type { Store } from "../../ports/store.ts";
import { conditionOf } from "../look/run-condition.ts";
import type { Condition } from "../look/run-condition.ts";
import { pullRequestOf } from "../look/run-status.ts";
import { readJournal, readLineage } from "./read-lineage.ts";
import type { Beginning } from "./read-lineage.ts";

export interface Side {
  readonly run: ComparedRun;
  /** All that was done on the way, by the runs that it was forked from too. */
  readonly steps: readonly HistoryStep[];
  /** The commit that its work began from; null where it has none. */
  readonly baseCommit: string | null;
  /** The first checkpoint that holds files, of the run that it all comes from. */
  readonly beginning: Beginning | null;
}

/** Takes no lease and writes nothing, so the run may be at work meanwhile. */
export async function readSide(
  store: Store,
  { handle, sequence: at }: { readonly handle: RunHandle; readonly sequence: number | null },
): Promise<Side> {
  const checkpoint = at === null ? (await handle.newestWhole()).checkpoint : await handle.get(at);
  const [summary, holder] = await Promise.all([handle.summary(), handle.holder()]);
  const own = await readJournal(store, { run: handle.id, to: at });
  const before = await readLineage(store, summary.forkedFrom);
  const position = await positionOf(store, checkpoint, at === null);
  const planes = checkpoint?.planes;
  const worked = (position?.visit.number ?? 0) > 0;
  const condition = conditionOf({ run: summary, holder, question: null, worked });
  const { scores, metrics } = readMeasures(planes?.context.values ?? {});
  const sequence = checkpoint?.sequence ?? null;
  return {
    run: {
      id: checkpoint?.id ?? handle.id,
      run: handle.id,
      sequence,
      workflow: summary.workflow,
      work: summary.work,
      condition: { kind: condition.kind, reason: reasonOf(condition) },
      stage: position === null || position.stage === "none" ? null : position.stage,
      iteration: position?.iteration ?? 0,
      attempts: position?.attempts ?? {},
      calls: own.history.calls,
      failures: own.history.failures,
      checks: checkTrails(own.facts.checks),
      score: position?.score ?? null,
      scoreTrail: own.facts.scores.map(({ score }) => score),
      scores,
      metrics,
      spent: (position?.budget ?? newBudget()).spent,
      ownSpent: summary.forkedFrom === null ? null : own.history.spent,
      time: { work: position?.budget.spent.milliseconds || own.history.work, wall: own.history.wall },
      effects: own.history.effects,
      pullRequest: pullRequestOf(planes?.context.values["pullRequest"]),
      lineage: [...(sequence === null ? [] : [{ run: handle.id, sequence }]), ...before.points],
      branch: planes?.files?.branch?.replace(/^refs\/heads\//, "") ?? null,
      worktree: (await handle.workspace())?.root ?? null,
      tree: planes?.files?.tree ?? null,
      uncommitted: planes?.files?.artifactCount ?? 0,
      tags: checkpoint?.tags ?? [],
      damage: await damageOf(store, [handle.id, ...before.points.map(({ run }) => run)]),
    },
    steps: [...before.steps, ...own.history.steps],
    baseCommit: planes === undefined ? null : (reliedOn(planes).base?.commit ?? planes.files?.base ?? null),
    beginning: before.beginning ?? own.beginning,
  };
}

/** Of all journals that were read for it, whether or not what is damaged was needed. */
async function damageOf(store: Store, runs: readonly string[]): Promise<readonly string[]> {
  const damage: string[] = [];
  for (const run of runs) {
    if ((await store.getRun(run)) === undefined) continue;
    for (const what of await journalDamage(store, run)) damage.push(`${run}: ${what}`);
  }
  return damage;
}

/** As it stands, with what the journal says since the checkpoint; as it stood, what the checkpoint says. */
async function positionOf(store: Store, checkpoint: Checkpoint | undefined, isNow: boolean): Promise<Position | null> {
  if (checkpoint === undefined) return null;
  const { position } = checkpoint.planes;
  return isNow && position.visit.number > 0 ? (await loadFrom(store, checkpoint)).position : position;
}

function reasonOf(condition: Condition): string | null {
  switch (condition.kind) {
    case "parked":
      return `${condition.on}: ${condition.reason}`;
    case "fatal":
      return condition.reason;
    case "running":
    case "held":
    case "crashed":
    case "stopped":
    case "manual":
    case "done":
      return null;
  }
}
