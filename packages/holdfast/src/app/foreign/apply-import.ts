import type { NewEntry } from "../../core/journal/journal.ts";
import type { Planes } from "../../core/checkpoint/checkpoint.ts";
import { holdLease } from "../../engine/lease/hold-lease.ts";
import type { Parts } from "../../engine/parts.ts";
import { IMPORT_ENTRY } from "./imported.ts";
import type { ImportPlan } from "./plan-import.ts";

export interface ImportReport {
  readonly run: string;
  readonly checkpoints: number;
  /** false: all of it was there already. */
  readonly changed: boolean;
}

/** Killed anywhere and called again with the same documents, it goes on where it stood; done twice it changes nothing. */
export async function applyImport(parts: Parts, plan: ImportPlan): Promise<ImportReport> {
  const { run, workflow, work, labels, checkpoints } = plan;
  const unchanged = { run, checkpoints: checkpoints.length, changed: false };
  if (plan.before === "whole" || plan.before === "own") return unchanged;
  const { store } = parts;
  await store.createRun({ id: run, workflow, work, labels });
  await using held = await holdLease(parts, run);
  const written = (await store.getRun(run))?.latest?.sequence ?? 0;
  // Somebody else finished it while we waited for the lease.
  if (written >= checkpoints.length) return unchanged;
  for (const [at, { planes, id }] of checkpoints.entries()) {
    if (at < written) continue;
    const last = at === checkpoints.length - 1;
    await store.commit({
      lease: held.lease,
      entries: last ? lastEntries(plan, planes) : [],
      checkpoint: { sequence: at + 1, trigger: "import", planes, ...nameOf(id) },
    });
  }
  return { ...unchanged, changed: true };
}

/** In one transaction with the last checkpoint: a run whose document says that it has ended is ended here too. */
function lastEntries(plan: ImportPlan, { position }: Planes): readonly NewEntry[] {
  const { format, checkpoints } = plan;
  const imported: NewEntry = { kind: IMPORT_ENTRY, body: { format, checkpoints: checkpoints.length } };
  if (plan.workflow !== "impl" && plan.workflow !== "ralph") return [imported];
  if (position.stage === "done") return [imported, { kind: "run.ended", body: { outcome: "done" } }];
  const failed = position.stage === "fatal" || (plan.workflow === "ralph" && position.stage === "limit");
  if (!failed) return [imported];
  const reason = position.reason ?? "It had failed before it was imported";
  return [imported, { kind: "run.ended", body: { outcome: "fatal", reason } }];
}

/** As a label only: one that the store would refuse is still in the document. */
function nameOf(id: string | null): { readonly name?: string } {
  return id !== null && id.length <= 200 && id.isWellFormed() ? { name: id } : {};
}
