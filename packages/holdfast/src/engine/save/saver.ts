import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import type { Checkpoint, CheckpointSummary, FilesPlane, Planes } from "../../core/checkpoint/checkpoint.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Trigger } from "../../core/checkpoint/trigger.ts";
import type { CurrentFiles, Workspace } from "../../ports/workspace.ts";
import type { Parts } from "../parts.ts";
import { lookParams } from "../parts.ts";
import { refuseRolledBack } from "./newer-refs.ts";
import { captureParams, nextPlanes } from "../planes.ts";
import type { SaveParams } from "../planes.ts";
import { loadFrom } from "../conduct/load-run.ts";

export interface SavePlan {
  readonly run: string;
  readonly sequence: number;
  readonly trigger: Trigger;
  readonly files: (CurrentFiles & { readonly changedSinceLast: boolean }) | null;
}

/**
 * Saves checkpoints of one run under one lease. Order of a save: git objects and ref durable first, then one store
 * transaction; killed in between, an unreferenced ref is left and swept later, never a checkpoint that names nothing.
 */
export class Saver {
  readonly #parts: Parts;
  readonly #run: string;
  readonly #workflow: string;
  /** The newest checkpoint's planes, while we hold the lease and so know them. */
  #newest: Planes | undefined;
  #sequence: number | undefined;
  /** Saves with files run one after the other: each needs the sequence before it. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(parts: Parts, run: { readonly id: string; readonly workflow: string }) {
    this.#parts = parts;
    this.#run = run.id;
    this.#workflow = run.workflow;
  }

  /** After somebody else (a restore, another process) wrote to the run. */
  forget(): void {
    this.#newest = undefined;
    this.#sequence = undefined;
  }

  capture(params: SaveParams): SaveParams {
    return captureParams(params, this.#newest);
  }

  async plan(params: SaveParams, workspace: Workspace | undefined): Promise<SavePlan> {
    const latest = await this.#parts.store.latest(this.#run);
    const captures = workspace !== undefined && params.files !== false;
    const files = captures ? await workspace.currentFiles(lookParams(this.#parts)) : undefined;
    return {
      run: this.#run,
      sequence: await this.#nextSequence(),
      trigger: params.trigger ?? "manual",
      files: files === undefined ? null : { ...files, changedSinceLast: files.tree !== latest?.tree },
    };
  }

  /** `params` as `capture` gave them. */
  async save(params: SaveParams, lease: Lease, workspace: Workspace | undefined): Promise<CheckpointSummary> {
    if (workspace === undefined || params.files === false || params.planes?.files !== undefined) {
      const previous = this.#newest ?? (await this.#loadNewest());
      return await this.commit({ lease, planes: nextPlanes(previous, params), params, entries: [] });
    }
    const done = this.#queue.then(() => this.#saveWithFiles(params, lease, workspace));
    this.#queue = done.catch(() => undefined);
    return await done;
  }

  async commit(what: {
    readonly lease: Lease;
    readonly planes: Planes;
    readonly params: Pick<SaveParams, "trigger" | "name">;
    readonly entries: readonly NewEntry[];
    readonly sequence?: number;
  }): Promise<CheckpointSummary> {
    const { name, trigger } = what.params;
    const committing = this.#parts.store.commit({
      lease: what.lease,
      entries: what.entries,
      checkpoint: {
        trigger: trigger ?? "manual",
        planes: what.planes,
        ...(name === undefined ? {} : { name }),
        ...(what.sequence === undefined ? {} : { sequence: what.sequence }),
      },
    });
    // Commits keep the order of the calls, so the next save carries over from this one already.
    this.#newest = what.planes;
    let checkpoint: CheckpointSummary | null;
    try {
      ({ checkpoint } = await committing);
    } catch (error) {
      this.forget();
      throw error;
    }
    if (checkpoint === null) throw new TypeError("a commit with a checkpoint returned none");
    this.#sequence = checkpoint.sequence;
    return checkpoint;
  }

  async snapshot(
    workspace: Workspace,
    message: string,
  ): Promise<{ readonly sequence: number; readonly files: FilesPlane }> {
    // Once, by the first save of a process: what is pinned from here on is ours.
    if (this.#sequence === undefined) await refuseRolledBack(this.#parts, this.#run);
    const sequence = await this.#nextSequence();
    const files = await workspace.snapshot({
      run: this.#run,
      sequence,
      message,
      ...lookParams(this.#parts),
    });
    return { sequence, files };
  }

  /** With what the run did since: a checkpoint without it would be the newest, and what was finished would be done again. */
  async newest(): Promise<Checkpoint | undefined> {
    const { store } = this.#parts;
    const latest = await store.latest(this.#run);
    if (latest === undefined || latest.planes.position.visit.number === 0) return latest;
    const { position } = await loadFrom(store, latest);
    return { ...latest, planes: { ...latest.planes, position } };
  }

  async #saveWithFiles(params: SaveParams, lease: Lease, workspace: Workspace): Promise<CheckpointSummary> {
    const previous = this.#newest ?? (await this.#loadNewest());
    const { sequence, files } = await this.snapshot(workspace, params.name ?? params.trigger ?? "manual");
    const planes = { ...nextPlanes(previous, params), files };
    return await this.commit({ lease, planes, params, entries: [], sequence });
  }

  async #loadNewest(): Promise<Planes> {
    return (await this.newest())?.planes ?? emptyPlanes({ workflow: this.#workflow });
  }

  async #nextSequence(): Promise<number> {
    if (this.#sequence !== undefined) return this.#sequence + 1;
    const newest = await this.#parts.store.listCheckpoints({ run: this.#run, limit: 1 });
    return (newest[0]?.sequence ?? 0) + 1;
  }
}
