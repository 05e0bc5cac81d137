/** The service behind `holdfast.formats`: imports, exports and mirrors checkpoints of other tools. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { type CoreAdapters, findRunWorkspace } from "@holdfast/core/adapters";
import type { Masking } from "@holdfast/core/mask";
import type { RunSummary } from "@holdfast/core/run";
import { type CheckpointRef, allCheckpoints } from "@holdfast/core/store";
import type { Encoded, FormatName } from "@holdfast/formats/format";
import { HoldfastError } from "@holdfast/platform/error";
import { LAYOUTS, type LayoutEntry, layoutIn } from "@holdfast/workflows/built-in";
import { LayoutPlaces } from "@holdfast/workflows/layout-place";
import type {
  EncodedCheckpoint,
  LayoutCleanupPlan,
  LayoutLocation,
  LayoutMirror,
  LayoutSettings,
} from "@holdfast/workflows/plugin";
import type { ImportParams, ImportPlan, ImportReport } from "./import.ts";
import type { RunExport, RunImport } from "./move-run.ts";

/**
 * Imports and exports checkpoints of other tools. Modules are loaded on demand, because a YAML parser would slow down
 * every program start.
 */
export class ImportExport {
  readonly #adapters: CoreAdapters;
  readonly #cwd: string;
  readonly #settings: LayoutSettings;
  readonly #limit: number | null;
  readonly #masking: Masking;
  /** Places of layouts whose files are repaired with each query. */
  readonly #repaired = new Map<LayoutEntry, Promise<readonly LayoutLocation[]>>();

  constructor(
    adapters: CoreAdapters,
    options: {
      readonly cwd: string;
      readonly settings: LayoutSettings;
      readonly limit: number | null;
      readonly masking: Masking;
    },
  ) {
    this.#adapters = adapters;
    this.#cwd = options.cwd;
    this.#settings = options.settings;
    this.#limit = options.limit;
    this.#masking = options.masking;
  }

  /**
   * Reads, decodes and checks everything, and changes nothing. A FORMAT_* error describes what is wrong with a
   * document. Returns one plan per run.
   */
  async planImport(params: Omit<ImportParams, "cwd"> & { readonly cwd?: string }): Promise<readonly ImportPlan[]> {
    const { planImport } = await import("./import.ts");
    return await planImport(this.#adapters, { cwd: this.#cwd, ...params });
  }

  async applyImport(plan: ImportPlan): Promise<ImportReport> {
    const { applyImport } = await import("./import.ts");
    return await applyImport(this.#adapters, plan);
  }

  /** Reads a whole run and searches it for secrets, to write it to one file. Writes nothing. */
  async planRunExport(run: string): Promise<RunExport> {
    const { planRunExport } = await import("./move-run.ts");
    return await planRunExport(this.#adapters, { run, masking: this.#masking });
  }

  /** NEEDS_DECISION when the file would hold secrets and `withSecrets` is not set. */
  async writeRunExport(
    planned: RunExport,
    params: { readonly path: string; readonly withSecrets: boolean },
  ): Promise<void> {
    const { writeRunExport } = await import("./move-run.ts");
    writeRunExport(planned, params);
  }

  /** Reads and checks a run file, and writes nothing. `protect`: branches that its run must not work on. */
  async planRunImport(params: { readonly path: string; readonly protect: readonly string[] }): Promise<RunImport> {
    const { planRunImport } = await import("./move-run.ts");
    return await planRunImport(this.#adapters, params);
  }

  /** After a kill, the same call completes the import. */
  async applyRunImport(planned: RunImport): Promise<{ readonly run: string; readonly changed: boolean }> {
    const { applyRunImport } = await import("./move-run.ts");
    return await applyRunImport(this.#adapters, planned);
  }

  /** Encodes one checkpoint as a document of that format, and lists what it cannot represent. */
  async encode(ref: CheckpointRef, to: FormatName): Promise<EncodedCheckpoint> {
    const checkpoint = await this.#adapters.store.getCheckpoint(ref);
    const { encodeCheckpoint } = await import("@holdfast/workflows/mirror");
    const layout = (await layoutIn(to)?.load()) ?? null;
    return encodeCheckpoint(await this.#run(ref.run), checkpoint, to, layout);
  }

  /** Encodes all checkpoints of a run, oldest first. A damaged one is left out. */
  async encodeAll(run: string, to: FormatName): Promise<readonly EncodedCheckpoint[]> {
    const encoded: EncodedCheckpoint[] = [];
    const found = await Array.fromAsync(allCheckpoints(this.#adapters.store, run));
    for (const { sequence, quarantined } of found.toReversed()) {
      if (!quarantined) encoded.push(await this.encode({ run, sequence }, to));
    }
    return encoded;
  }

  /** Exports a whole run as an ATIF trajectory. */
  async transcript(run: string): Promise<Encoded> {
    const { exportTranscript } = await import("./export.ts");
    return await exportTranscript(this.#adapters, await this.#run(run));
  }

  /**
   * `directory`: the root of the other tool's layout; default: the place of the workflow's own layout if it has this
   * format, else the run's worktree, else the current directory.
   */
  async mirror(params: {
    readonly run: string;
    readonly to: FormatName;
    readonly directory?: string;
  }): Promise<LayoutMirror> {
    const { to, directory } = params;
    const run = await this.#run(params.run);
    const entry = layoutIn(to);
    const layout = entry === null ? null : await entry.load();
    const place = entry === null ? null : await this.#placeOf(run, entry, directory);
    const own = place === null ? null : (layout?.mirror(place, run) ?? null);
    if (own !== null) return own;
    const { Mirror, documentWriter } = await import("@holdfast/workflows/mirror");
    const root = place?.root ?? (await this.#rootOf(run, directory));
    return new Mirror({ adapters: this.#adapters, run: run.id, to, root, write: documentWriter(to, root, layout) });
  }

  /** Plans which files the retention of workflows' layouts removes, and why. One plan for each run that has any. */
  async planLayoutCleanup(params: { readonly run?: string } = {}): Promise<readonly LayoutCleanupPlan[]> {
    const plans: LayoutCleanupPlan[] = [];
    for (const entry of LAYOUTS) {
      const { planCleanup } = await entry.load();
      if (planCleanup === undefined) continue;
      for (const place of await this.#places(entry).ofRuns()) plans.push(...(await planCleanup(place, params)));
    }
    return plans;
  }

  async applyLayoutCleanup(plans: readonly LayoutCleanupPlan[]): Promise<void> {
    const workflows = await Promise.all(plans.map(async ({ run }) => (await this.#run(run)).workflow));
    for (const entry of LAYOUTS) {
      const { applyCleanup } = await entry.load();
      const own = plans.filter((_plan, at) => workflows[at] === entry.workflow);
      for (const [root, there] of Map.groupBy(own, (plan) => plan.root))
        await applyCleanup?.(this.#places(entry).at(root), there);
    }
  }

  /** Corrects layouts' files of runs whose process is gone: of all runs, or of the named one. Never fails. */
  async repairLayouts(run: string | null): Promise<void> {
    if (!this.#settings.mirror) return;
    for (const entry of LAYOUTS) {
      const { repaired } = entry;
      if (repaired === null) continue;
      // Called each time runs are listed. Without such files it returns before it loads anything.
      const locating = this.#repaired.get(entry) ?? this.#places(entry).usual();
      this.#repaired.set(entry, locating);
      const places = (await locating.catch(() => [])).filter(({ root }) => existsSync(join(root, repaired)));
      for (const place of places) await (await entry.load()).repair?.(place, run);
    }
  }

  /** Removes the files of workflows' layouts of a run that is being removed. */
  async removeLayoutFiles(id: string): Promise<void> {
    const run = await this.#run(id);
    const entry = LAYOUTS.find(({ workflow }) => workflow === run.workflow);
    if (entry === undefined) return;
    await (await entry.load()).remove(await this.#places(entry).find(id), run);
  }

  #places(entry: LayoutEntry): LayoutPlaces {
    const [adapters, cwd, settings, limit] = [this.#adapters, this.#cwd, this.#settings, this.#limit];
    return new LayoutPlaces(entry, { adapters, cwd, settings, limit });
  }

  async #placeOf(run: RunSummary, entry: LayoutEntry, directory: string | undefined): Promise<LayoutLocation> {
    const places = this.#places(entry);
    if (directory === undefined && entry.workflow === run.workflow) return await places.settle(run.id);
    return places.at(await this.#rootOf(run, directory), async () => true);
  }

  async #rootOf(run: RunSummary, directory: string | undefined): Promise<string> {
    if (directory !== undefined) return resolve(this.#cwd, directory);
    return (await findRunWorkspace(this.#adapters, run))?.root ?? this.#cwd;
  }

  async #run(id: string): Promise<RunSummary> {
    const run = await this.#adapters.store.getRun(id);
    if (run !== undefined) return run;
    throw new HoldfastError({ code: "RUN_NOT_FOUND", message: `There is no run ${id}` });
  }
}
