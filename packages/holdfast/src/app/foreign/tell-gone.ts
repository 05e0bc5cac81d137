import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { isHeld } from "../../core/run/run-standing.ts";
import { REGISTRY_PATH, statePath } from "../../formats/loop-json/registry-document.ts";
import { standAll } from "../look/loops.ts";
import { LayoutFiles } from "./layout-files.ts";
import { LoopLayout } from "./loop-layout.ts";
import type { LoopPlace } from "./loop-layout.ts";

/**
 * Nobody is there to write that a process was killed: whoever looks and finds it gone corrects what the files below `.aiwg` say of its loop. Only
 * what this store's own mirror wrote is corrected, and only of processes of this host. It serves others: what hinders it is nobody's business here.
 */
export async function tellGone(place: LoopPlace, only: string | null): Promise<void> {
  try {
    const said = saidToRun(place, only);
    const gone = said.length === 0 ? [] : await goneOf(place, said);
    for (const run of gone) await new LoopLayout({ ...place, run }).restate();
  } catch {
    // The next one who looks tries again.
  }
}

/** Runs of this store that the files say are at work. */
function saidToRun({ parts, root }: LoopPlace, only: string | null): readonly string[] {
  const files = new LayoutFiles(root);
  const { id } = parts.store;
  const registry = files.readJson(REGISTRY_PATH)?.["active_loops"];
  const listed = (isJsonArray(registry) ? registry : []).flatMap((entry) => {
    const run = isJsonObject(entry) ? runIn(id, entry) : null;
    return isJsonObject(entry) && run !== null ? [{ run, entry }] : [];
  });
  // A loop has the id of its run, as a rule; any other is found by its entry.
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

async function goneOf({ parts }: LoopPlace, runs: readonly string[]): Promise<readonly string[]> {
  const stood = await standAll(parts, async () => {
    const found = await Promise.all(runs.map((run) => parts.store.getRun(run)));
    return found.filter((run) => run !== undefined);
  });
  return stood
    .filter(({ standing }) => !isHeld(standing) && !(standing.kind === "crashed" && standing.known === "presumed"))
    .map(({ run }) => run.id);
}
