/** The service behind `holdfast.formats`: imports, exports and mirrors checkpoints of other tools. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { type CoreAdapters, findRunWorkspace } from "@holdfast/core/adapters";
import type { Masking } from "@holdfast/core/mask";
import type { RunSummary } from "@holdfast/core/run";
import { type CheckpointRef, allCheckpoints } from "@holdfast/core/store";
import type { Encoded, FormatName } from "@holdfast/formats/format";
import { HoldfastError } from "@holdfast/platform/error";
import { LAYOUTS, type LayoutEntry, completingStages, layoutIn } from "@holdfast/workflows/built-in";
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
  /** Roots of layouts whose files are repaired with each query. */
  readonly #repaired = new Map<LayoutEntry, Promise<LayoutLocation>>();

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
   * `directory`: the root of the other tool's layout; default: the root of the workflow's own layout if it has this
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
    const root = directory === undefined ? await this.#rootOf(run, entry) : resolve(this.#cwd, directory);
    const own = entry === null ? null : (layout?.mirror(this.#locate(entry, root), run) ?? null);
    if (own !== null) return own;
    const { Mirror, documentWriter } = await import("@holdfast/workflows/mirror");
    return new Mirror({ adapters: this.#adapters, run: run.id, to, root, write: documentWriter(to, root, layout) });
  }

  /** Plans which files the retention of workflows' layouts removes, and why. One plan for each run that has any. */
  async planLayoutCleanup(params: { readonly run?: string } = {}): Promise<readonly LayoutCleanupPlan[]> {
    const plans: LayoutCleanupPlan[] = [];
    for (const entry of LAYOUTS) {
      const { planCleanup } = await entry.load();
      if (planCleanup !== undefined) plans.push(...(await planCleanup(await this.#locationOf(entry), params)));
    }
    return plans;
  }

  async applyLayoutCleanup(plans: readonly LayoutCleanupPlan[]): Promise<void> {
    const workflows = await Promise.all(plans.map(async ({ run }) => (await this.#run(run)).workflow));
    for (const entry of LAYOUTS) {
      const { applyCleanup } = await entry.load();
      const own = plans.filter((_plan, at) => workflows[at] === entry.workflow);
      if (applyCleanup !== undefined) await applyCleanup(await this.#locationOf(entry), own);
    }
  }

  /** Corrects layouts' files of runs whose process is gone: of all runs, or of the named one. Never fails. */
  async repairLayouts(run: string | null): Promise<void> {
    if (!this.#settings.mirror) return;
    for (const entry of LAYOUTS) {
      if (entry.repaired === null) continue;
      // Called each time runs are listed. Without such files it returns before it loads anything.
      const locating = this.#repaired.get(entry) ?? this.#locationOf(entry);
      this.#repaired.set(entry, locating);
      const place = await locating.catch(() => null);
      if (place === null || !existsSync(join(place.root, entry.repaired))) continue;
      await (await entry.load()).repair?.(place, run);
    }
  }

  async #locationOf(entry: LayoutEntry): Promise<LayoutLocation> {
    const settings = this.#settings;
    return this.#locate(entry, await entry.root({ adapters: this.#adapters, cwd: this.#cwd, settings }));
  }

  #locate({ workflow }: LayoutEntry, root: string): LayoutLocation {
    const completing = completingStages(workflow);
    return { adapters: this.#adapters, root, settings: this.#settings, limit: this.#limit, completing };
  }

  async #rootOf(run: RunSummary, entry: LayoutEntry | null): Promise<string> {
    if (entry?.workflow === run.workflow) return (await this.#locationOf(entry)).root;
    return (await findRunWorkspace(this.#adapters, run))?.root ?? this.#cwd;
  }

  async #run(id: string): Promise<RunSummary> {
    const run = await this.#adapters.store.getRun(id);
    if (run !== undefined) return run;
    throw new HoldfastError({ code: "RUN_NOT_FOUND", message: `There is no run ${id}` });
  }
}
