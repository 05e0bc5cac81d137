// Maintains the `.aiwg` files of loops: mirroring, heartbeats, daily retention and the correction of crashed loops.

import { join } from "node:path";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import type { ProgressListener } from "@holdfast/core/progress";
import { planRetention } from "@holdfast/core/retention";
import { isHeld } from "@holdfast/core/status";
import { allCheckpoints } from "@holdfast/core/store";
import { decodeLoopDocument } from "@holdfast/formats/loop-json";
import { LayoutFiles, mirrorCheckpoints } from "../layout-files.ts";
import type { CheckpointMirror, LayoutCleanupPlan, LayoutLocation, LayoutMirror, WorkflowLayout } from "../plugin.ts";
import {
  LoopLayout,
  layoutFiles,
  listActiveLoops,
  readActiveLoop,
  readDroppedNote,
  readLoopStatuses,
  writeDroppedNote,
  writeRegistry,
} from "./layout.ts";
import { describeLoopCheckpoint, readLoopRun } from "./loop-checkpoint.ts";
import { REGISTRY_PATH, statePath } from "./loop-documents.ts";
import { layoutRetention } from "./options.ts";

/** The heartbeat interval of the published registry format. */
const PULSE_MS = 60_000;

export const ralphLayout: WorkflowLayout = {
  describe(external, run, checkpoint) {
    // The import translated its planes; its document describes itself.
    if (checkpoint.trigger === "import" && external.original?.format === "loop-json")
      return decodeLoopDocument(external.original.document);
    const live = readLoopRun(run, checkpoint.planes);
    if (live === null) return external;
    return describeLoopCheckpoint({ external, live, summary: checkpoint, store: null, retentionDays: null });
  },
  mirror: (place, run) => (run.workflow === "ralph" ? loopMirror(place, run.id) : null),
  follow: (place, run, listen) => (place.settings.mirror ? followLoop(place, run, listen) : null),
  repair: markCrashedLoops,
  planCleanup: planLoopCleanup,
  applyCleanup: applyLoopCleanup,
  remove: async (place, run) => await new LoopLayout({ ...place, run: run.id }).remove(run),
};

/** A loop's layout contains more than its checkpoints. */
function loopMirror(place: LayoutLocation, run: string): LayoutMirror {
  const { adapters, root } = place;
  const layout = new LoopLayout({ ...place, run });
  return {
    to: "loop-json",
    root,
    async catchUp() {
      const { written, removed } = await layout.catchUp();
      const sequence = (await adapters.store.getRun(run))?.latest?.sequence ?? 0;
      const absolute = (paths: readonly string[]) => paths.map((path) => join(root, path));
      return { sequence, paths: absolute(written), removed: absolute(removed), losses: [] };
    },
  };
}

/** Keeps the files below `.aiwg` up to date with a ralph run, and applies their retention once a day. */
function followLoop(place: LayoutLocation, run: string, listen: ProgressListener | undefined): CheckpointMirror {
  const layout = new LoopLayout({ ...place, run });
  let begun = false;
  const catchUp = async (): Promise<void> => {
    await layout.catchUp();
    if (begun) return;
    begun = true;
    // A loop whose process died cannot report that itself.
    for (const { run: other, published } of await listActiveLoops(place)) {
      if (published.status === "crashed") await new LoopLayout({ ...place, run: other.id }).catchUp();
    }
    await cleanUpDaily(place);
  };
  const files = new LayoutFiles(place.root);
  const beat = async (): Promise<void> => void (await writeRegistry(place, files, { pulse: true }));
  const pulse = { everyMs: PULSE_MS, beat };
  return mirrorCheckpoints({
    run,
    listen,
    what: `The directory ${join(place.root, ".aiwg")}`,
    catchUp,
    pulse,
    last: true,
  });
}

/**
 * Applies the layout's retention to each run's files, with the store's retention rules. Plans only for existing files:
 * a directory that the user removed is not created again for a cleanup.
 */
async function planLoopCleanup(
  place: LayoutLocation,
  only: { readonly run?: string },
): Promise<readonly LayoutCleanupPlan[]> {
  const { adapters, settings, root } = place;
  if (!settings.mirror) return [];
  const files = new LayoutFiles(root);
  const policy = layoutRetention(settings);
  const plans: LayoutCleanupPlan[] = [];
  for (const run of await adapters.store.listRuns({ workflow: "ralph" })) {
    if (only.run !== undefined && run.id !== only.run) continue;
    if (!(await place.holds(run.id))) continue;
    const loop = await readActiveLoop(place, run);
    if (loop === null) continue;
    const checkpoints = await Array.fromAsync(allCheckpoints(adapters.store, run.id));
    const before = await readDroppedNote(adapters.store, run.id);
    const there = layoutFiles(loop, checkpoints, before).filter(({ path }) => files.identity(path) !== null);
    if (there.length === 0) continue;
    const filed = there.map(({ checkpoint }) => checkpoint);
    const subject = { run: run.id, state: run.state, checkpoints: filed, pinned: new Map<number, string>() };
    const resumable = new Set(filed.map(({ sequence }) => sequence));
    const [plan] = planRetention({ subjects: [{ ...subject, resumable }], policy, now: adapters.clock.now() });
    const decided = (plan?.decisions ?? []).map(({ sequence, action, why }) => {
      const path = there.find(({ checkpoint }) => checkpoint.sequence === sequence)?.path ?? "";
      return { path, sequence, action, why, bytes: files.size(path) };
    });
    // A checkpoint that the store itself has deleted needs no record any more.
    const known = checkpoints.map(({ sequence }) => sequence).filter((sequence) => before.has(sequence));
    const drops = decided.filter(({ action }) => action === "drop").map(({ sequence }) => sequence);
    plans.push({ run: run.id, root, files: decided, dropped: [...known, ...drops].toSorted((a, b) => a - b) });
  }
  return plans;
}

/** Records the dropped files first: after a crash, the next update of the run removes them. */
async function applyLoopCleanup(place: LayoutLocation, plans: readonly LayoutCleanupPlan[]): Promise<void> {
  const { adapters } = place;
  for (const { run, files, dropped } of plans) {
    if (!files.some(({ action }) => action === "drop")) continue;
    await writeDroppedNote(adapters.store, run, dropped);
    await new LoopLayout({ ...place, run }).catchUp();
  }
  await adapters.store.setMeta(LAST_CLEANUP, String(adapters.clock.now()));
}

const LAST_CLEANUP = "aiwg.cleaned";
const DAY = 86_400_000;

/**
 * Runs at most once a day, according to a time in the store. If the clock went back by less than a day, the cleanup is
 * due later; if by more, it runs at once.
 */
export async function cleanUpDaily(place: LayoutLocation): Promise<readonly LayoutCleanupPlan[]> {
  const { store, clock } = place.adapters;
  const last = Number((await store.getMeta(LAST_CLEANUP)) ?? "0");
  const now = clock.now();
  if (Number.isFinite(last) && now - last < DAY && now >= last - DAY) return [];
  const plans = await planLoopCleanup(place, {});
  await applyLoopCleanup(place, plans);
  return plans;
}

/**
 * A killed process cannot record its own end, so every query that finds it dead corrects the files below `.aiwg`.
 * Corrects only what this store's mirror wrote, for processes of this host. Errors are ignored, because the files only
 * serve other tools.
 */
async function markCrashedLoops(place: LayoutLocation, only: string | null): Promise<void> {
  try {
    const listed = listedAsRunning(place, only);
    const gone = listed.length === 0 ? [] : await goneOf(place, listed);
    for (const run of gone) await new LoopLayout({ ...place, run }).restate();
  } catch {
    // The next query tries again.
  }
}

/** Runs of this store that the files list as running. */
function listedAsRunning({ adapters, root }: LayoutLocation, only: string | null): readonly string[] {
  const files = new LayoutFiles(root);
  const { id } = adapters.store;
  const registry = files.readJson(REGISTRY_PATH)?.["active_loops"];
  const listed = (isJsonArray(registry) ? registry : []).flatMap((entry) => {
    const run = isJsonObject(entry) ? runIn(id, entry) : null;
    return isJsonObject(entry) && run !== null ? [{ run, entry }] : [];
  });
  // A loop usually has its run's id; otherwise its registry entry names the loop.
  const places = new Map(listed.map(({ run, entry }) => [run, entry["loop_id"]]));
  if (only !== null && !places.has(only)) places.set(only, only);
  return [...places].flatMap(([run, loop]) => {
    if (only !== null && run !== only) return [];
    const state = typeof loop === "string" && /^[\w.-]+$/.test(loop) ? files.readJson(statePath(loop)) : null;
    const words = [...listed.filter((one) => one.run === run).map(({ entry }) => entry), ...(state ? [state] : [])];
    return words.some((one) => runIn(id, one) === run && AT_WORK.has(one["status"])) ? [run] : [];
  });
}

const AT_WORK: ReadonlySet<Json | undefined> = new Set<Json>(["running", "completing"]);

function runIn(store: string, document: JsonObject): string | null {
  const mark = document["holdfast"];
  if (!isJsonObject(mark) || mark["store"] !== store) return null;
  return typeof mark["run"] === "string" ? mark["run"] : null;
}

async function goneOf(place: LayoutLocation, runs: readonly string[]): Promise<readonly string[]> {
  const stood = await readLoopStatuses(place, async () => {
    const found = await Promise.all(runs.map((run) => place.adapters.store.getRun(run)));
    return found.filter((run) => run !== undefined);
  });
  return stood
    .filter(({ status }) => !isHeld(status) && !(status.kind === "crashed" && !status.certain))
    .map(({ run }) => run.id);
}
