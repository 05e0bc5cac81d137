import { join } from "node:path";
import type { Checkpoint } from "../../core/checkpoint.ts";
import type { RunSummary } from "../../core/run.ts";
import type { Parts } from "../../engine/parts.ts";
import type { Encoded, FormatName, Loss } from "../../formats/format.ts";
import { readCrunchSettings } from "./crunch-settings.ts";
import { eachOnce, encodeCheckpoint } from "./export-checkpoint.ts";
import { crunchPlace, placeUnder, writeCrunchDirectory, writeDocument } from "./write-foreign.ts";

export interface MirrorReport {
  /** Newest checkpoint that the mirror has; 0: none yet. */
  readonly sequence: number;
  /** Absolute; empty: it was up to date. */
  readonly paths: readonly string[];
  readonly losses: readonly Loss[];
}

/**
 * Keeps another tool's layout up to date with a run. It remembers nothing: what is missing is told from what is there, so one that was killed
 * catches up, and two at once write the same.
 */
export class Mirror {
  readonly to: FormatName;
  readonly root: string;
  readonly #parts: Parts;
  readonly #run: string;
  #done = 0;

  constructor(params: { readonly parts: Parts; readonly run: string; readonly to: FormatName; readonly root: string }) {
    this.#parts = params.parts;
    this.#run = params.run;
    this.to = params.to;
    this.root = params.root;
  }

  /** Writes all that is newer than what was written; a checkpoint that retention has dropped is not missed. */
  async catchUp(): Promise<MirrorReport> {
    const run = await this.#parts.store.getRun(this.#run);
    const fresh = run === undefined ? [] : await this.#fresh();
    if (run === undefined || fresh.length === 0) return { sequence: this.#done, paths: [], losses: [] };
    const report = this.to === "crunch-yaml" ? this.#writeCrunch(run, fresh) : this.#writeDocuments(run, fresh);
    this.#done = fresh.at(-1)?.sequence ?? this.#done;
    return { sequence: this.#done, ...report };
  }

  /** Oldest first. */
  async #fresh(): Promise<readonly Checkpoint[]> {
    const found: Checkpoint[] = [];
    let before: number | undefined;
    for (;;) {
      const page = await this.#parts.store.listCheckpoints({
        run: this.#run,
        limit: 100,
        ...(before === undefined ? {} : { before }),
      });
      const newer = page.filter(({ sequence }) => sequence > this.#done);
      for (const { sequence, quarantined } of newer) {
        if (!quarantined) found.push(await this.#parts.store.getCheckpoint({ run: this.#run, sequence }));
      }
      before = page.at(-1)?.sequence;
      if (newer.length < page.length || page.length < 100) return found.toReversed();
    }
  }

  /** Of several that go to one place only the newest is written. */
  #writeDocuments(run: RunSummary, fresh: readonly Checkpoint[]): Omit<MirrorReport, "sequence"> {
    const places = new Map<string, Encoded>();
    for (const checkpoint of fresh) {
      const { encoded } = encodeCheckpoint(run, checkpoint, this.to);
      places.set(encoded.path, encoded);
    }
    const written = [...places.values()].map((one) => writeDocument(one, placeUnder(this.root, one.path)));
    return {
      paths: written.flatMap(({ paths }) => paths),
      losses: eachOnce(written.flatMap(({ losses }) => losses)),
    };
  }

  #writeCrunch(run: RunSummary, fresh: readonly Checkpoint[]): Omit<MirrorReport, "sequence"> {
    const config = readCrunchSettings(this.root);
    const wanted = fresh.filter(
      ({ trigger }) => config === null || (config.enabled && config.triggers[trigger] !== false),
    );
    const all = wanted.map((checkpoint) => encodeCheckpoint(run, checkpoint, "crunch-yaml"));
    const [first] = all;
    if (first === undefined) return { paths: [], losses: [] };
    const directory = join(crunchPlace(this.root, config, first.foreign));
    const { paths } = writeCrunchDirectory(
      directory,
      all.map(({ foreign }) => foreign),
    );
    return { paths, losses: eachOnce(all.flatMap(({ encoded }) => encoded.losses)) };
  }
}
