import { bump } from "../../core/position/counters.ts";
import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import type { NewEntry, StageEntered } from "../../core/journal/journal.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Position } from "../../core/position/position.ts";
import { knownRun } from "../known-run.ts";
import { nextVisit } from "../../core/position/visit.ts";
import { holdLease } from "../lease/hold-lease.ts";
import { voidOrders } from "../orders/obey-order.ts";
import { loadRun } from "./load-run.ts";
import type { WorkParts } from "../work-parts.ts";

/**
 * Other options of the workflow for the rest of a run. One that has ended goes on where it is told, as if the stage it stood in had led there;
 * one that has not stays where it is. In one commit: killed anywhere, it was done or not.
 */
export async function changeOptions(params: {
  readonly parts: WorkParts;
  readonly run: string;
  readonly options: JsonObject;
  /** Where a run goes on that has ended, and in which iteration; null: it stays ended. */
  readonly goesOn: { readonly stage: string; readonly iteration: number } | null;
  /** In plain words, for the journal and the next stage. */
  readonly reason: string;
}): Promise<void> {
  const { parts, run, options, reason } = params;
  await using lease = await holdLease(parts, run);
  const summary = await knownRun(parts.store, run);
  const { newest, top, position: current } = await loadRun(parts, run);
  const ended = summary.state.kind === "done" || summary.state.kind === "fatal";
  const position = ended && params.goesOn !== null ? enter(current, { ...params.goesOn, reason }) : current;
  const goesOn = position !== current;
  const sequence = top + 1;
  if (goesOn) await voidOrders(parts, run);
  await parts.store.commit({
    lease: lease.lease,
    entries: goesOn ? entriesOf(position, reason) : [],
    checkpoint: {
      sequence,
      trigger: "manual",
      name: reason,
      planes: {
        ...newest.planes,
        position,
        config: { ...newest.planes.config, inputs: options },
        files: await pinned(parts, { run, sequence, files: newest.planes.files }),
      },
    },
  });
}

function enter(position: Position, to: Pick<Position, "stage" | "iteration" | "reason">): Position {
  return {
    ...position,
    ...to,
    attempts: bump(position.attempts, to.stage),
    visit: nextVisit(position.visit),
  };
}

function entriesOf({ visit, stage, iteration }: Position, reason: string): readonly NewEntry[] {
  const entered: StageEntered = { visit: visit.number, stage, iteration };
  return [
    { kind: "run.reopened", body: { reason } },
    { kind: "stage.entered", body: entered },
  ];
}

/** Under a name of its own: the older checkpoint may be dropped, and its ref with it. */
async function pinned(
  parts: WorkParts,
  params: { readonly run: string; readonly sequence: number; readonly files: Planes["files"] },
): Promise<Planes["files"]> {
  const { run, sequence, files } = params;
  if (files === null || parts.workspaces === null) return files;
  return { ...files, ref: await parts.workspaces.pin({ run, sequence, commit: files.commit }) };
}
