// Mirrors a run into another tool's layout: encodes each new checkpoint and writes it as the tool expects it.

import { dirname } from "node:path";
import type { CoreAdapters } from "@holdfast/core/adapters";
import type { Checkpoint } from "@holdfast/core/checkpoint";
import type { Run, RunSummary } from "@holdfast/core/run";
import { type Encoded, type FormatName, type Loss, toExternalCheckpoint } from "@holdfast/formats/format";
import { findFormat } from "@holdfast/formats/registry";
import { assertInside, preserveExisting, resolveInside, writeDocument } from "./layout-files.ts";
import type { EncodedCheckpoint, LayoutMirror, MirrorReport, WorkflowLayout, WriteResult } from "./plugin.ts";

/** Writes checkpoints of one run, oldest first, into a layout. */
type WriteCheckpoints = (run: RunSummary, fresh: readonly Checkpoint[]) => WriteResult;

/**
 * Keeps another tool's layout up to date with a run. It derives what is missing from the files that exist, not from its
 * own memory. So a killed mirror catches up, and two mirrors at once write the same files.
 */
export class Mirror implements LayoutMirror {
  readonly to: FormatName;
  readonly root: string;
  readonly #adapters: CoreAdapters;
  readonly #run: string;
  readonly #write: WriteCheckpoints;
  #done = 0;

  constructor(params: {
    readonly adapters: CoreAdapters;
    readonly run: string;
    readonly to: FormatName;
    readonly root: string;
    readonly write: WriteCheckpoints;
  }) {
    this.#adapters = params.adapters;
    this.#run = params.run;
    this.#write = params.write;
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
    const report = this.#write(run, fresh);
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
}

/**
 * Writes one document for each checkpoint. If several have the same path, the newest gets it. The others get their
 * alternative path if the layout has one.
 */
export function documentWriter(to: FormatName, root: string, layout: WorkflowLayout | null): WriteCheckpoints {
  return (run, fresh) => {
    const documents = new Map<string, Encoded>();
    for (const checkpoint of fresh) {
      const { encoded } = encodeCheckpoint(run, checkpoint, to, layout);
      const other = documents.get(encoded.path);
      if (other?.elsewhere !== undefined) documents.set(other.elsewhere, other);
      documents.set(encoded.path, encoded);
    }
    const written = [...documents].flatMap(([relative, encoded]) => {
      const path = resolveInside(root, relative);
      assertInside(root, dirname(path));
      const preserved = relative === encoded.path ? preserveExisting({ to, root, path, encoded }) : [];
      return [...preserved, writeDocument(encoded, path)];
    });
    return {
      paths: written.flatMap(({ paths }) => paths),
      removed: [],
      losses: uniqueLosses(written.flatMap(({ losses }) => losses)),
    };
  };
}

/**
 * Encodes one checkpoint as one document, and lists what the document cannot represent. `layout`: that of the format, if
 * a workflow has one.
 */
export function encodeCheckpoint(
  run: Pick<Run, "id" | "createdAt" | "workflow" | "work" | "labels" | "forkedFrom">,
  checkpoint: Checkpoint,
  to: FormatName,
  layout: WorkflowLayout | null,
): EncodedCheckpoint {
  const { external: plain, losses } = toExternalCheckpoint(run, checkpoint, to);
  const external = layout?.describe(plain, run, checkpoint) ?? plain;
  const encoded = findFormat(to).encode(external);
  return { external, encoded: { ...encoded, losses: uniqueLosses([...losses, ...encoded.losses]) } };
}

/** The same loss in many checkpoints is reported once. */
export function uniqueLosses(losses: readonly Loss[]): readonly Loss[] {
  return [...new Map(losses.map((loss) => [`${loss.path}\n${loss.why}`, loss])).values()];
}
