// Decides where the files are that a run keeps for other tools: in the repository, in a named directory, or beside the
// store. The decision is recorded for each run, so that a resume with other settings neither loses nor doubles them.

import { lstatSync } from "node:fs";
import { join } from "node:path";
import type { CoreAdapters } from "@holdfast/core/adapters";
import { type Json, isJsonObject } from "@holdfast/core/json";
import { mainWorktreeRoot } from "@holdfast/core/workspace";
import { type LayoutEntry, completingStages } from "./built-in.ts";
import type { LayoutLocation, LayoutSettings } from "./plugin.ts";

export type LayoutPlace =
  /** In the directory of the store. */
  | { readonly kind: "own" }
  /** In the main worktree, where the other tool looks for them. */
  | { readonly kind: "seed" }
  /** In a directory that the settings name. */
  | { readonly kind: "directory"; readonly path: string };

/** A recorded place wins. Without one, files appear in the repository only if it has such files or the settings ask for them. */
export function planLayoutPlace(params: {
  readonly recorded: LayoutPlace | null;
  readonly layout: LayoutSettings["layout"];
  /** The directory that the settings name for this tool. */
  readonly directory: string | null;
  /** Whether the main worktree has files of the tool. */
  readonly isPresent: boolean;
}): LayoutPlace {
  const { recorded, directory } = params;
  if (recorded !== null) return recorded;
  if (directory !== null) return { kind: "directory", path: directory };
  return params.layout === "seed" || params.isPresent ? { kind: "seed" } : { kind: "own" };
}

export interface LayoutContext {
  readonly adapters: CoreAdapters;
  readonly cwd: string;
  readonly settings: LayoutSettings;
  readonly limit: number | null;
}

/** The places of one layout's files. */
export class LayoutPlaces {
  readonly #entry: LayoutEntry;
  readonly #context: LayoutContext;
  #checkout: Promise<string> | null = null;

  constructor(entry: LayoutEntry, context: LayoutContext) {
    this.#entry = entry;
    this.#context = context;
  }

  /** Where the run's files are or will be. Changes nothing. */
  async find(run: string): Promise<LayoutLocation> {
    return this.at(await this.#root(await this.#plan(run)));
  }

  /** As `find`, before files are written: records the place first, so that the next process continues there. */
  async settle(run: string): Promise<LayoutLocation> {
    const { store } = this.#context.adapters;
    const place = await this.#plan(run);
    const value = JSON.stringify(place);
    // Without the record, the next process decides again; it comes to the same result unless the settings changed.
    if ((await store.getMeta(keyOf(run))) !== value) await store.setMeta(keyOf(run), value).catch(() => undefined);
    return this.at(await this.#root(place));
  }

  /** All places in which runs of the workflow have files, according to their records and the settings. */
  async ofRuns(): Promise<readonly LayoutLocation[]> {
    const runs = await this.#context.adapters.store.listRuns({ workflow: this.#entry.workflow });
    const roots = new Set<string>();
    for (const { id } of runs) roots.add(await this.#root(await this.#plan(id)));
    return [...roots].map((root) => this.at(root));
  }

  /** The places that need no look at each run. */
  async usual(): Promise<readonly LayoutLocation[]> {
    const { adapters, settings } = this.#context;
    const named = this.#entry.directory(settings);
    const roots = [await this.#mainWorktree(), named, ownRoot(adapters)].filter((root) => root !== null);
    return [...new Set(roots)].map((root) => this.at(root));
  }

  /** `holds`: whether a run has its files there; default: according to its place. */
  at(root: string, holds?: LayoutLocation["holds"]): LayoutLocation {
    const { adapters, settings, limit } = this.#context;
    return {
      adapters,
      root,
      settings,
      limit,
      completing: completingStages(this.#entry.workflow),
      holds: holds ?? (async (run) => (await this.#root(await this.#plan(run))) === root),
    };
  }

  async #plan(run: string): Promise<LayoutPlace> {
    const { adapters, settings } = this.#context;
    const recorded = parsePlace((await adapters.store.getMeta(keyOf(run))) ?? "null");
    const isGone = recorded?.kind === "directory" && !exists(recorded.path);
    const worktree = await this.#mainWorktree();
    return planLayoutPlace({
      recorded: isGone ? null : recorded,
      layout: settings.layout,
      directory: this.#entry.directory(settings),
      isPresent: this.#entry.signs.some((sign) => exists(join(worktree, sign))),
    });
  }

  async #root(place: LayoutPlace): Promise<string> {
    switch (place.kind) {
      case "own":
        // A store without a directory is a test's or a pretended one; it has no place of its own.
        return ownRoot(this.#context.adapters) ?? (await this.#mainWorktree());
      case "seed":
        return await this.#mainWorktree();
      case "directory":
        return place.path;
    }
  }

  async #mainWorktree(): Promise<string> {
    const { adapters, cwd } = this.#context;
    this.#checkout ??= mainWorktreeRoot(adapters.workspaces, cwd);
    return await this.#checkout;
  }
}

function ownRoot({ storeDirectory }: CoreAdapters): string | null {
  return storeDirectory === null ? null : join(storeDirectory, "layouts");
}

/** A link counts, wherever it leads: the files are not written elsewhere because of it. */
function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function keyOf(run: string): string {
  return `layout.place.${run}`;
}

/** null for a record of a later version. */
function parsePlace(text: string): LayoutPlace | null {
  const record: Json = JSON.parse(text);
  if (!isJsonObject(record)) return null;
  const { kind, path } = record;
  if (kind === "own" || kind === "seed") return { kind };
  return kind === "directory" && typeof path === "string" ? { kind, path } : null;
}
