// Mirrors a run into another tool's layout: encodes each new checkpoint and writes it as the tool expects it.

import { mainWorktreeRoot } from "@holdfast/core/workspace";
import { dirname, join } from "node:path";
import type { CoreAdapters } from "@holdfast/core/adapters";
import type { Checkpoint } from "@holdfast/core/checkpoint";
import type { ProgressListener } from "@holdfast/core/progress";
import type { Run, RunSummary } from "@holdfast/core/run";
import { type CrunchConfig, defaultCrunchConfig } from "@holdfast/formats/crunch-config";
import { idFromPath } from "@holdfast/formats/crunch-document";
import { cachedDecoder } from "@holdfast/formats/crunch-yaml";
import {
  type Encoded,
  type ExternalCheckpoint,
  type FormatName,
  type Loss,
  toExternalCheckpoint,
} from "@holdfast/formats/format";
import { findFormat } from "@holdfast/formats/registry";
import { readCrunchSettings } from "./crunch/layout.ts";
import {
  assertInside,
  checkpointDirectoryFor,
  mirrorCheckpoints,
  preserveExisting,
  resolveInside,
  writeCrunchDirectory,
  writeDocument,
} from "./layout-files.ts";
import type { CheckpointMirror } from "./plugin.ts";
import { type LayoutLocation, LoopLayout } from "./ralph/layout.ts";
import { encodeLoopCheckpoint, readLoopRun } from "./ralph/loop-checkpoint.ts";
import { describeCrunchRun } from "./crunch/document-members.ts";

export interface MirrorReport {
  /** Sequence of the newest mirrored checkpoint; 0: none yet. */
  readonly sequence: number;
  /** Absolute paths; empty: the mirror was up to date. */
  readonly paths: readonly string[];
  /** Files that the other tool's retention rules removed. */
  readonly removed: readonly string[];
  readonly losses: readonly Loss[];
}

/**
 * Keeps another tool's layout up to date with a run. It derives what is missing from the files that exist, not from its
 * own memory. So a killed mirror catches up, and two mirrors at once write the same files.
 */
export class Mirror {
  readonly to: FormatName;
  readonly root: string;
  readonly #adapters: CoreAdapters;
  readonly #run: string;
  #done = 0;
  /** Crunch ids of the run's checkpoints. The mirror may remove only these. */
  readonly #ours = new Set<string>();
  readonly #reader = cachedDecoder();

  constructor(params: {
    readonly adapters: CoreAdapters;
    readonly run: string;
    readonly to: FormatName;
    readonly root: string;
  }) {
    this.#adapters = params.adapters;
    this.#run = params.run;
    this.to = params.to;
    this.root = params.root;
  }

  /**
   * Writes every checkpoint that is newer than the last one written. A checkpoint that retention has dropped is
   * skipped.
   */
  async catchUp(): Promise<MirrorReport> {
    const run = await this.#adapters.store.getRun(this.#run);
    const fresh = run === undefined ? [] : await this.#fresh();
    if (run === undefined || fresh.length === 0) return { sequence: this.#done, paths: [], removed: [], losses: [] };
    const report = this.to === "crunch-yaml" ? this.#writeCrunch(run, fresh) : this.#writeDocuments(run, fresh);
    this.#done = fresh.at(-1)?.sequence ?? this.#done;
    return { sequence: this.#done, ...report };
  }

  /** Oldest first. */
  async #fresh(): Promise<readonly Checkpoint[]> {
    const found: Checkpoint[] = [];
    let before: number | undefined;
    for (;;) {
      const page = await this.#adapters.store.listCheckpoints({
        run: this.#run,
        limit: 100,
        ...(before === undefined ? {} : { before }),
      });
      const newer = page.filter(({ sequence }) => sequence > this.#done);
      for (const { sequence, quarantined } of newer) {
        if (!quarantined) found.push(await this.#adapters.store.getCheckpoint({ run: this.#run, sequence }));
      }
      before = page.at(-1)?.sequence;
      if (newer.length < page.length || page.length < 100) return found.toReversed();
    }
  }

  /**
   * If several checkpoints have the same path, the newest gets it. The others get their alternative path if the layout
   * has one.
   */
  #writeDocuments(run: RunSummary, fresh: readonly Checkpoint[]): Omit<MirrorReport, "sequence"> {
    const places = new Map<string, Encoded>();
    for (const checkpoint of fresh) {
      const { encoded } = encodeCheckpoint(run, checkpoint, this.to);
      const other = places.get(encoded.path);
      if (other?.elsewhere !== undefined) places.set(other.elsewhere, other);
      places.set(encoded.path, encoded);
    }
    const written = [...places].flatMap(([place, one]) => {
      const path = resolveInside(this.root, place);
      assertInside(this.root, dirname(path));
      const quarantined =
        place === one.path ? preserveExisting({ to: this.to, root: this.root, path, encoded: one }) : [];
      return [...quarantined, writeDocument(one, path)];
    });
    return {
      paths: written.flatMap(({ paths }) => paths),
      removed: [],
      losses: uniqueLosses(written.flatMap(({ losses }) => losses)),
    };
  }

  #writeCrunch(run: RunSummary, fresh: readonly Checkpoint[]): Omit<MirrorReport, "sequence"> {
    // A run of the crunch workflow follows crunch's rules, or their defaults if no configuration exists.
    const own = run.workflow === "crunch";
    const config = readCrunchSettings(this.root) ?? (own ? defaultCrunchConfig() : null);
    const all = fresh.map((checkpoint) => encodeCheckpoint(run, checkpoint, "crunch-yaml"));
    for (const { encoded } of all) this.#ours.add(idFromPath(encoded.path));
    const { wanted, losses } = wantedBy(config, all);
    const [first] = wanted;
    if (first === undefined) return { paths: [], removed: [], losses };
    const directory = checkpointDirectoryFor(this.root, config, first.external);
    assertInside(this.root, directory);
    const written = writeCrunchDirectory({
      directory,
      add: wanted.map(({ external }) => external),
      config,
      ours: this.#ours,
      hide: own,
      reader: this.#reader,
    });
    const encoded = wanted.flatMap((one) => one.encoded.losses);
    return { ...written, losses: uniqueLosses([...losses, ...encoded, ...written.losses]) };
  }
}

type Outgoing = ReturnType<typeof encodeCheckpoint>;

/**
 * Selects the checkpoints that crunch's configuration saves. Manual and interrupt checkpoints are saved whenever saving
 * is enabled.
 */
function wantedBy(
  config: CrunchConfig | null,
  all: readonly Outgoing[],
): { readonly wanted: readonly Outgoing[]; readonly losses: readonly Loss[] } {
  if (config === null) return { wanted: all, losses: [] };
  const remarks = config.remarks.map(({ path, text }) => ({ path: `checkpoint-config.yaml#${path}`, why: text }));
  if (!config.enabled) {
    const why = "checkpoint-config.yaml has enabled: false, so nothing is written";
    return { wanted: [], losses: [...remarks, { path: "checkpoints", why }] };
  }
  const wanted = all.filter(({ external }) => config.triggers[external.trigger].shown);
  const off = new Set(all.filter((one) => !wanted.includes(one)).map(({ external }) => external.trigger));
  const losses = [...off].map((trigger) => ({
    path: `checkpoints.${trigger}`,
    why: "checkpoint-config.yaml disables this trigger",
  }));
  return { wanted, losses: [...remarks, ...losses] };
}

/** A run of the ralph workflow has its own layout, which contains more than its checkpoints. */
export function mirrorLoop(params: LayoutLocation & { readonly run: string }): Pick<Mirror, "to" | "root" | "catchUp"> {
  const { adapters, run, root } = params;
  const layout = new LoopLayout(params);
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

/** Keeps crunch's directory in the main worktree up to date with a crunch run. */
export async function followCrunch(params: {
  readonly adapters: CoreAdapters;
  readonly run: string;
  readonly cwd: string;
  readonly listen: ProgressListener | undefined;
}): Promise<CheckpointMirror> {
  const { adapters, run, listen } = params;
  const root = await mainWorktreeRoot(adapters.workspaces, params.cwd);
  const fresh = (): Mirror => new Mirror({ adapters, run, to: "crunch-yaml", root });
  let mirror = fresh();
  const catchUp = async (): Promise<void> => {
    try {
      await mirror.catchUp();
    } catch (error) {
      // The new mirror finds in the files what the failed one had written.
      mirror = fresh();
      throw error;
    }
  };
  return mirrorCheckpoints({ run, listen, what: "Crunch's directory", catchUp });
}

/** Encodes one checkpoint as one document, and lists what the document cannot represent. */
export function encodeCheckpoint(
  run: Pick<Run, "id" | "workflow" | "work" | "forkedFrom">,
  checkpoint: Checkpoint,
  to: FormatName,
): { readonly external: ExternalCheckpoint; readonly encoded: Encoded } {
  const { external: plain, losses } = toExternalCheckpoint(run, checkpoint, to);
  const external = to === "crunch-yaml" ? describeCrunchRun(plain) : plain;
  // For a loop of Holdfast's ralph workflow the format has more fields than the planes alone can fill.
  const live = to === "loop-json" ? readLoopRun(run, checkpoint.planes) : null;
  const encoded =
    live === null
      ? findFormat(to).encode(external)
      : encodeLoopCheckpoint({ external, live, summary: checkpoint, store: null, retentionDays: null });
  return { external, encoded: { ...encoded, losses: uniqueLosses([...losses, ...encoded.losses]) } };
}

/** The same loss in many checkpoints is reported once. */
export function uniqueLosses(losses: readonly Loss[]): readonly Loss[] {
  return [...new Map(losses.map((loss) => [`${loss.path}\n${loss.why}`, loss])).values()];
}
