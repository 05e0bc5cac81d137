import { layoutRetention } from "../../core/lease/loop-layout.ts";
import { planRetention } from "../../core/retention/retention-plan.ts";
import { allCheckpoints } from "../../engine/upkeep/all-checkpoints.ts";
import { LayoutFiles } from "./layout-files.ts";
import { filesOf, LoopLayout } from "./loop-layout.ts";
import type { LoopPlace } from "./loop-layout.ts";
import { readDropped, writeDropped } from "./loop-note.ts";
import { standingLoop } from "./loop-standings.ts";

export interface LoopCleanupPlan {
  readonly run: string;
  /** Newest first. */
  readonly files: readonly {
    readonly path: string;
    readonly sequence: number;
    readonly action: "keep" | "drop";
    readonly why: string;
    readonly bytes: number;
  }[];
  /** All that will be out then, also what is out already. */
  readonly dropped: readonly number[];
}

/**
 * What the layout's own retention leaves of each run's files: the rules are the store's, on what has a file. Nothing that is not there is
 * planned for: a directory that somebody removed is not made again to be cleaned up.
 */
export async function planLoopCleanup(
  params: LoopPlace & { readonly run?: string },
): Promise<readonly LoopCleanupPlan[]> {
  const { parts, settings } = params;
  if (!settings.mirror) return [];
  const files = new LayoutFiles(params.root);
  const policy = layoutRetention(settings);
  const plans: LoopCleanupPlan[] = [];
  for (const run of await parts.store.listRuns({ workflow: "ralph" })) {
    if (params.run !== undefined && run.id !== params.run) continue;
    const loop = await standingLoop(parts, run);
    if (loop === null) continue;
    const checkpoints = await Array.fromAsync(allCheckpoints(parts.store, run.id));
    const before = await readDropped(parts.store, run.id);
    const there = filesOf(loop, checkpoints, before).filter(({ path }) => files.identity(path) !== null);
    if (there.length === 0) continue;
    const filed = there.map(({ checkpoint }) => checkpoint);
    const subject = { run: run.id, state: run.state, checkpoints: filed, pinned: new Map<number, string>() };
    const resumable = new Set(filed.map(({ sequence }) => sequence));
    const [plan] = planRetention({ subjects: [{ ...subject, resumable }], policy, now: parts.clock.now() });
    const decided = (plan?.decisions ?? []).map(({ sequence, action, why }) => {
      const path = there.find(({ checkpoint }) => checkpoint.sequence === sequence)?.path ?? "";
      return { path, sequence, action, why, bytes: files.size(path) };
    });
    // What the store itself has dropped since needs no note any more.
    const known = checkpoints.map(({ sequence }) => sequence).filter((sequence) => before.has(sequence));
    const drops = decided.filter(({ action }) => action === "drop").map(({ sequence }) => sequence);
    plans.push({ run: run.id, files: decided, dropped: [...known, ...drops].toSorted((a, b) => a - b) });
  }
  return plans;
}

/** Noted first: killed after that, the next writing of the run takes the files out. */
export async function applyLoopCleanup(
  params: LoopPlace & { readonly plans: readonly LoopCleanupPlan[] },
): Promise<void> {
  const { parts } = params;
  for (const { run, files, dropped } of params.plans) {
    if (!files.some(({ action }) => action === "drop")) continue;
    await writeDropped(parts.store, run, dropped);
    await new LoopLayout({ ...params, run }).catchUp();
  }
  await parts.store.setMeta(LAST_CLEANUP, String(parts.clock.now()));
}

const LAST_CLEANUP = "aiwg.cleaned";
const DAY = 86_400_000;

/** At most once a day, by the store's own note. A clock that jumped back makes it due later, never twice a day. */
export async function cleanUpDaily(place: LoopPlace): Promise<readonly LoopCleanupPlan[]> {
  const { store, clock } = place.parts;
  const last = Number((await store.getMeta(LAST_CLEANUP)) ?? "0");
  const now = clock.now();
  if (Number.isFinite(last) && now - last < DAY && now >= last - DAY) return [];
  const plans = await planLoopCleanup(place);
  await applyLoopCleanup({ ...place, plans });
  return plans;
}
