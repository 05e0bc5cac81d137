/** Sends the files of runs to a git remote as checkpoints are saved, and fetches those that are missing here. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "@holdfast/core/store";
import type { FilesFetch, FilesPush, FilesRemote, UnpushedFiles, Workspaces } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";

/** The longest time that a run waits for the remote: before it releases its lease, and in a shared store before each checkpoint. */
const WAIT_MS = 30_000;

/** For this long an answer of the remote holds for all checkpoints of a run: a command asks about many of them. */
const ANSWER_MS = 10_000;

interface Pushing {
  readonly done: Promise<void>;
  /** The one that follows it. */
  next: Promise<void> | null;
}

interface Fetching {
  readonly answer: Promise<FilesFetch>;
  /** By `performance.now()`; null: it is under way. */
  answeredAt: number | null;
}

/**
 * The files of a store's runs on the remote of `files.remote`. A failed push loses nothing: the next checkpoint, the end of the next command
 * that works on the run, or `holdfast store push` tries again.
 */
export class RunFiles {
  readonly #remote: FilesRemote;
  readonly #isShared: boolean;
  readonly #waitMs: number;
  /** The push of each run that is under way. */
  readonly #pushing = new Map<string, Pushing>();
  readonly #fetching = new Map<string, Fetching>();
  readonly #stop = new AbortController();
  #onFetch = (_run: string): void => undefined;

  constructor(params: {
    readonly remote: FilesRemote;
    /** Other machines have the store too, and continue a run from its newest checkpoint if this one dies. */
    readonly isShared: boolean;
    readonly waitMs?: number;
  }) {
    this.#remote = params.remote;
    this.#isShared = params.isShared;
    this.#waitMs = params.waitMs ?? WAIT_MS;
  }

  /** Without credentials. */
  get url(): string {
    return this.#remote.url;
  }

  /** `listener` is called before files that are missing here are fetched, which may take minutes. */
  onFetch(listener: (run: string) => void): void {
    this.#onFetch = listener;
  }

  async push(
    run: string,
    options: { readonly withSecrets?: boolean; readonly signal?: AbortSignal } = {},
  ): Promise<FilesPush> {
    return await this.#remote.push({ run, ...options });
  }

  async fetch(run: string, options: { readonly signal?: AbortSignal } = {}): Promise<FilesFetch> {
    return await this.#remote.fetch({ run, ...options });
  }

  async unpushed(run: string): Promise<UnpushedFiles | null> {
    return await this.#remote.unpushed(run);
  }

  /** Null: the remote has no files of the run any more. Otherwise the reason why they stay. */
  async remove(run: string): Promise<string | null> {
    const refusal = await this.#remote.remove(run);
    return refusal === null ? null : `${refusal.cause}: ${refusal.message}`;
  }

  /**
   * A store that sends the files of each checkpoint: of a shared store before the commit, so that another machine can always continue from
   * it, otherwise afterwards and without a delay for the run. Before a lease is released it waits a while, so that the next machine finds
   * them. The remote may be away: then the run continues, and the next checkpoint tries again.
   */
  sendWithSaves(store: Store): Store {
    return {
      ...store,
      commit: async (commit) => {
        // The files of this commit's checkpoint are pinned already.
        const isFirst = commit.release === true || (this.#isShared && commit.checkpoint !== undefined);
        if (isFirst) await this.#settle(commit.lease.run);
        const committed = await store.commit(commit);
        if (committed.checkpoint !== null && !isFirst) void this.#start(commit.lease.run);
        return committed;
      },
      releaseLease: async (lease) => {
        await this.#settle(lease.run);
        await store.releaseLease(lease);
      },
      close: async () => {
        this.#stop.abort();
        await Promise.all(Array.from(this.#pushing.values(), ({ done, next }) => next ?? done));
        await store.close();
      },
    };
  }

  /** Workspaces that fetch the files of a checkpoint when they are missing here. TREE_MISSING when the remote does not answer. */
  fetchMissing(workspaces: Workspaces): Workspaces {
    return {
      ...workspaces,
      has: async (files, options) => {
        if (await workspaces.has(files, options)) return true;
        const run = /^refs\/holdfast\/([^/]+)\//.exec(files.ref ?? "")?.[1];
        if (run === undefined) return false;
        const fetched = await this.#fetchSoon(run);
        if (fetched.kind === "refused")
          throw this.#unreachable(run, `${fetched.refusal.cause}: ${fetched.refusal.message}`);
        return fetched.kind !== "absent" && (await workspaces.has(files));
      },
    };
  }

  #unreachable(run: string, why: string): HoldfastError {
    return new HoldfastError({
      code: "TREE_MISSING",
      message: `The files of ${run} are not in this repository, and ${this.url} does not give them (${why})`,
      hint: `When the remote answers, run \`holdfast store fetch ${run}\`, then the same command again.`,
      retry: "later",
      data: { run },
    });
  }

  /** Callers at about the same time share one fetch. Later ones ask again: the remote may be back, or have more by then. */
  #fetchSoon(run: string): Promise<FilesFetch> {
    const known = this.#fetching.get(run);
    if (known !== undefined && (known.answeredAt === null || performance.now() - known.answeredAt < ANSWER_MS))
      return known.answer;
    this.#onFetch(run);
    const answer = this.fetch(run);
    const fetching: Fetching = { answer, answeredAt: null };
    const end = (): void => void (fetching.answeredAt = performance.now());
    answer.then(end, end);
    this.#fetching.set(run, fetching);
    return answer;
  }

  /** Sends what is there now. While a push of the run is under way, one more follows it, which sends everything that was saved until it begins. */
  #start(run: string): Promise<void> {
    const before = this.#pushing.get(run);
    if (before === undefined) return this.#begin(run);
    before.next ??= before.done.then(() => this.#begin(run));
    return before.next;
  }

  #begin(run: string): Promise<void> {
    const pushing: Pushing = {
      done: this.#pushNow(run).then(() => {
        if (pushing.next === null) this.#pushing.delete(run);
      }),
      next: null,
    };
    this.#pushing.set(run, pushing);
    return pushing.done;
  }

  /** A failure is recorded by the push, and `status` shows it. */
  async #pushNow(run: string): Promise<void> {
    try {
      const { signal } = this.#stop;
      if (signal.aborted || ((await this.unpushed(run))?.snapshots ?? 0) === 0) return;
      await this.push(run, { signal });
    } catch {
      // The repository or its git failed. A save would report that, and the next one tries again.
    }
  }

  async #settle(run: string): Promise<void> {
    const waiting = new AbortController();
    const limit = sleep(this.#waitMs, undefined, { signal: waiting.signal, ref: false }).catch(() => undefined);
    await Promise.race([this.#start(run), limit]);
    waiting.abort();
  }
}
