/** The service behind `holdfast.formats`: imports, exports and mirrors checkpoints of other tools. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { type CoreAdapters, findRunWorkspace } from "@holdfast/core/adapters";
import type { RunSummary } from "@holdfast/core/run";
import type { CheckpointRef } from "@holdfast/core/store";
import type { Encoded, ExternalCheckpoint, FormatName } from "@holdfast/formats/format";
import { HoldfastError } from "@holdfast/platform/error";
import { mainWorktreeRoot } from "@holdfast/core/workspace";
import type { LayoutLocation } from "@holdfast/workflows/ralph/layout";
import type { LoopCleanupPlan } from "@holdfast/workflows/ralph/layout-upkeep";
import type { Mirror } from "@holdfast/workflows/mirror";
import type { LayoutSettings } from "@holdfast/workflows/plugin";
import type { ImportParams, ImportPlan, ImportReport } from "./import.ts";

/**
 * Imports and exports checkpoints of other tools. Modules are loaded on demand, because a YAML parser would slow down
 * every program start.
 */
export class ImportExport {
  readonly #adapters: CoreAdapters;
  readonly #cwd: string;
  readonly #loopLayout: LayoutSettings;
  readonly #maxLoops: number | null;
  #place: Promise<LayoutLocation> | undefined;

  constructor(
    adapters: CoreAdapters,
    options: { readonly cwd: string; readonly loopLayout: LayoutSettings; readonly maxLoops: number | null },
  ) {
    this.#adapters = adapters;
    this.#cwd = options.cwd;
    this.#loopLayout = options.loopLayout;
    this.#maxLoops = options.maxLoops;
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

  /** Encodes one checkpoint as a document of that format, and lists what it cannot represent. */
  async encode(
    ref: CheckpointRef,
    to: FormatName,
  ): Promise<{ readonly external: ExternalCheckpoint; readonly encoded: Encoded }> {
    const checkpoint = await this.#adapters.store.getCheckpoint(ref);
    const { encodeCheckpoint } = await import("@holdfast/workflows/mirror");
    return encodeCheckpoint(await this.#run(ref.run), checkpoint, to);
  }

  /** Exports a whole run as an ATIF trajectory. */
  async transcript(run: string): Promise<Encoded> {
    const { exportTranscript } = await import("./export.ts");
    return await exportTranscript(this.#adapters, await this.#run(run));
  }

  /**
   * `directory`: the root of the other tool's layout; default: the run's worktree, else the current directory. The
   * directories of crunch runs and of loops are in the main worktree.
   */
  async mirror(params: {
    readonly run: string;
    readonly to: FormatName;
    readonly directory?: string;
  }): Promise<Pick<Mirror, "to" | "root" | "catchUp">> {
    const { run, to, directory } = params;
    const summary = await this.#run(run);
    const root = directory === undefined ? await this.#rootOf(summary, to) : resolve(this.#cwd, directory);
    if (isLoop(summary, to)) {
      const { mirrorLoop } = await import("@holdfast/workflows/mirror");
      return mirrorLoop({ ...(await this.#loopPlace()), run, root });
    }
    const { Mirror } = await import("@holdfast/workflows/mirror");
    return new Mirror({ adapters: this.#adapters, run, to, root });
  }

  /** Plans which files below `.aiwg` the rules would remove, and why. One plan for each run that has any. */
  async planLoopCleanup(params: { readonly run?: string } = {}): Promise<readonly LoopCleanupPlan[]> {
    const { planLoopCleanup } = await import("@holdfast/workflows/ralph/layout-upkeep");
    return await planLoopCleanup({ ...(await this.#loopPlace()), ...params });
  }

  async applyLoopCleanup(plans: readonly LoopCleanupPlan[]): Promise<void> {
    const { applyLoopCleanup } = await import("@holdfast/workflows/ralph/layout-upkeep");
    await applyLoopCleanup({ ...(await this.#loopPlace()), plans });
  }

  /** Corrects the files below `.aiwg` of loops whose process is gone: of all loops, or of the named one. Never fails. */
  async markCrashedLoops(run: string | null): Promise<void> {
    if (!this.#loopLayout.mirror) return;
    // Called each time loops are listed. Without such files it returns before it loads anything.
    this.#place ??= this.#loopPlace();
    const place = await this.#place.catch(() => null);
    if (place === null || !existsSync(join(place.root, ".aiwg/ralph"))) return;
    const { markCrashedLoops } = await import("@holdfast/workflows/ralph/layout-upkeep");
    await markCrashedLoops(place, run);
  }

  async #loopPlace(): Promise<LayoutLocation> {
    const settings = this.#loopLayout;
    const root = settings.directory ?? (await mainWorktreeRoot(this.#adapters.workspaces, this.#cwd));
    return { adapters: this.#adapters, root, settings, limit: this.#maxLoops };
  }

  async #rootOf(run: RunSummary, to: FormatName): Promise<string> {
    if (run.workflow === "crunch" && to === "crunch-yaml")
      return await mainWorktreeRoot(this.#adapters.workspaces, this.#cwd);
    if (isLoop(run, to)) return (await this.#loopPlace()).root;
    return (await findRunWorkspace(this.#adapters, run))?.root ?? this.#cwd;
  }

  async #run(id: string): Promise<RunSummary> {
    const run = await this.#adapters.store.getRun(id);
    if (run !== undefined) return run;
    throw new HoldfastError({ code: "RUN_NOT_FOUND", message: `There is no run ${id}` });
  }
}

function isLoop(run: Pick<RunSummary, "workflow">, to: FormatName): boolean {
  return run.workflow === "ralph" && to === "loop-json";
}
