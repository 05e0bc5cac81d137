import type { ContextConflict } from "../core/context/context-merge.ts";
import { rewindContext } from "../core/context/context-rewind.ts";
import { addTokens, snapshotContext, tokensOf } from "../core/context/context-tree.ts";
import type { JsonObject } from "../core/json.ts";
import { checkOneOf, checkOptions } from "../core/options.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";
import { Checkpoint } from "./checkpoint.ts";
import type { TokenUsage } from "./checkpoint.ts";
import { ContextState } from "./context-state.ts";
import { originOf } from "./origin.ts";
import { Place } from "./place.ts";
import { badTokens, noStore, notACheckpoint, notForked, wrongCheckpoint, wrongStore } from "./refusals.ts";

/**
 * What a task works with: values, and a count of the tokens used. It can be forked for a part of the work and merged back,
 * saved as a {@link Checkpoint}, and put back to one.
 *
 * @example
 * ```ts
 * await using store = await CheckpointStore.open("task-1");
 * const context = await store.context();
 * context.state.set("progress", "step 1");
 * context.addTokens({ input_tokens: 100 });
 * const checkpoint = await context.snapshot({ metadata: { step: 1 } }); // durable
 * context.state.set("progress", "a wrong turn");
 * context.restore(checkpoint);
 * context.state.get("progress"); // "step 1"
 * ```
 */
export class Context {
  /** The task that this context belongs to. */
  readonly taskId: string;
  /** Where snapshots go; `null` when it has none, and then `snapshot` is refused. */
  readonly store: CheckpointStore | null;
  #place: Place;
  #state: ContextState;
  #parent: Context | null = null;
  readonly #children = new Set<Context>();
  /** The version that it was restored from: where a history that begins anew goes on counting. */
  #after = 0;

  /**
   * An empty context. Most get theirs from {@link CheckpointStore.context}, which goes on where the task stood.
   *
   * @throws {HoldfastError} `USAGE` when the task id is empty, or the store is another task's.
   */
  constructor(taskId: string, options: { readonly store?: CheckpointStore } = {}) {
    checkOptions("Context", options, ["store"]);
    const { store = null } = options;
    if (store !== null && store.taskId !== taskId) throw wrongStore(taskId, store.taskId);
    this.taskId = taskId;
    this.store = store;
    this.#place = Place.root(taskId, { values: {}, tokens: {} });
    this.#state = new ContextState(this.#place);
  }

  /**
   * A new context that stands where the checkpoint was taken, without parent or forks. Its snapshots go to `store`, or to
   * the store that the checkpoint came from; version numbers go on. To put an existing context back, call its own
   * {@link Context.restore}.
   *
   * @throws {HoldfastError} `USAGE` when it is no checkpoint, or the store is another task's.
   */
  static restore(checkpoint: Checkpoint, options: { readonly store?: CheckpointStore } = {}): Context {
    checkOptions("Context.restore", options, ["store"]);
    if (!(checkpoint instanceof Checkpoint)) throw notACheckpoint(checkpoint);
    const { taskId, values, tokenUsage } = checkpoint;
    const store = options.store ?? originOf(checkpoint);
    const context = new Context(taskId, store === null ? {} : { store });
    context.#stand(Place.root(taskId, { values, tokens: tokenUsage }));
    context.#after = checkpoint.version;
    return context;
  }

  /** The values, by name. */
  get state(): ContextState {
    return this.#state;
  }

  /** Tokens used up to here; a fork's include what its parent had used when it was forked. */
  get tokenUsage(): TokenUsage {
    return Object.freeze({ ...tokensOf(this.#place.tree, this.#place.id) });
  }

  /** The context that this one was forked from; `null` for a root, and for what was restored. */
  get parent(): Context | null {
    return this.#parent;
  }

  /** Forks that were neither merged nor discarded yet. */
  get children(): readonly Context[] {
    return [...this.#children];
  }

  /**
   * Adds to the counters.
   *
   * @throws {HoldfastError} `USAGE` for a negative number or a fraction.
   */
  addTokens(tokens: TokenUsage): this {
    if (typeof tokens !== "object" || tokens === null || Array.isArray(tokens)) throw badTokens(tokens);
    this.#place.change((tree, id) => addTokens(tree, id, tokens));
    return this;
  }

  /**
   * A child that sees this context's values and keeps its own changes to itself, until it is merged. Its snapshots are
   * checkpoints of the task `taskId`, in the same store.
   *
   * @throws {HoldfastError} `USAGE` when the id is empty, or an open fork of this family has it.
   */
  fork(taskId: string): Context {
    const child = new Context(taskId, this.store === null ? {} : { store: this.store.task(taskId) });
    child.#stand(this.#place.fork(taskId));
    child.#parent = this;
    this.#children.add(child);
    return child;
  }

  /**
   * Brings what a child set, and the tokens that it used, into this context, once: afterwards the child is closed.
   *
   * A value that both have changed since the fork, differently, is a conflict. Unless told who wins, nothing is merged
   * then. Returns the conflicts that were decided by `onConflict`.
   *
   * @throws {HoldfastError} `CONFLICT` with the conflicts in `data`; `USAGE` when it is not a child of this context, was merged
   * or discarded before, or has open forks itself.
   */
  merge(
    child: Context,
    options: { readonly onConflict?: "refuse" | "child_wins" | "parent_wins" } = {},
  ): readonly ContextConflict[] {
    checkOptions("merge", options, ["onConflict"]);
    checkOneOf("merge", "onConflict", options.onConflict, ["refuse", "child_wins", "parent_wins"]);
    this.#checkChild(child);
    const decided = this.#place.merge(child.#place, options.onConflict ?? "refuse");
    this.#children.delete(child);
    return decided;
  }

  /** Lets a child go, with its own forks. What it set is forgotten; tokens that were used stay counted. */
  discard(child: Context): void {
    this.#checkChild(child);
    this.#place.discard(child.#place, child.#below());
    this.#children.delete(child);
  }

  /**
   * Saves all values and counters as they are at the call, as the task's next version. Durable when it resolves.
   *
   * @throws {HoldfastError} `USAGE` without a store; `LEASE_HELD` while another process writes the task; `LEASE_LOST` when
   * another process has taken it over.
   */
  async snapshot(options: { readonly metadata?: JsonObject } = {}): Promise<Checkpoint> {
    checkOptions("snapshot", options, ["metadata"]);
    if (this.store === null) throw noStore(this.taskId);
    const { values, tokens } = snapshotContext(this.#place.tree, this.#place.id);
    const { metadata = {} } = options;
    return await this.store.save({ values, tokenUsage: tokens, metadata, after: this.#after });
  }

  /**
   * Puts this context back to what a checkpoint of its task holds, in place. Nothing is written: history stays, and the next
   * snapshot is a new version. Forks and parent stay too; a fork keeps seeing its parent's values as they are now.
   *
   * Counters go back as well. With `tokens: "keep"` they stay: what was used was used.
   *
   * @throws {HoldfastError} `USAGE` when it is no checkpoint, or one of another task.
   */
  restore(checkpoint: Checkpoint, options: { readonly tokens?: "saved" | "keep" } = {}): this {
    checkOptions("restore", options, ["tokens"]);
    checkOneOf("restore", "tokens", options.tokens, ["saved", "keep"]);
    if (!(checkpoint instanceof Checkpoint)) throw notACheckpoint(checkpoint);
    if (checkpoint.taskId !== this.taskId) throw wrongCheckpoint(checkpoint.taskId, this.taskId);
    const { values, tokenUsage } = checkpoint;
    const tokens = options.tokens === "keep" ? this.tokenUsage : tokenUsage;
    this.#place.change((tree, id) => rewindContext(tree, id, { values, tokens }));
    return this;
  }

  #stand(place: Place): void {
    this.#place = place;
    this.#state = new ContextState(place);
  }

  #checkChild(child: Context): void {
    if (!(child instanceof Context) || child.#parent !== this) throw notForked(child, this.taskId);
  }

  #below(): readonly Place[] {
    return [...this.#children].flatMap((child) => [child.#place, ...child.#below()]);
  }
}
