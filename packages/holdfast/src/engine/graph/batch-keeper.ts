import { batchName } from "../../core/graph/graph-names.ts";
import type { GraphView } from "../../core/graph/graph-view.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { StageContext } from "../stage-context.ts";
import type { EndedBatch, GraphWork } from "./graph-work.ts";

interface FailedBatch {
  readonly number: number;
  readonly marker: string;
}

interface OwedBatch {
  readonly batch: EndedBatch;
  readonly marker: string;
}

/** Which batches are over, and what is owed when one is: the workflow's own work after it, a barrier, an escalation. */
export class BatchKeeper<S extends JsonObject> {
  readonly #context: StageContext<S>;
  readonly #view: GraphView;
  readonly #work: GraphWork;
  readonly #finished: ReadonlyMap<string, Json>;
  readonly #changed: (failure?: { readonly error: unknown }) => void;
  /** What was done in this process, by marker. */
  readonly #called = new Set<string>();
  /** The first that was not over when it was last looked at. */
  #next = 1;
  readonly #owed: OwedBatch[] = [];
  #busy = false;
  /** The first of which nothing succeeded, and which nobody was told of. */
  failed: FailedBatch | null = null;

  constructor(params: {
    readonly context: StageContext<S>;
    readonly work: GraphWork;
    readonly finished: ReadonlyMap<string, Json>;
    readonly changed: (failure?: { readonly error: unknown }) => void;
  }) {
    this.#context = params.context;
    this.#view = params.context.graph.view();
    this.#work = params.work;
    this.#finished = params.finished;
    this.#changed = params.changed;
  }

  /** The workflow's work after a batch is owed or under way. */
  get busy(): boolean {
    return this.#busy || this.#owed.length > 0;
  }

  /** Counts only: nothing begins in it. */
  look(): void {
    const { barrier = false } = this.#work;
    for (; this.#next <= this.#view.batches && this.#view.isOver(this.#next); this.#next += 1) this.#end(this.#next);
    this.#view.setGate(!barrier ? Infinity : this.busy ? this.#next - 1 : this.#next);
  }

  /** Begins what is owed. */
  serve(): void {
    if (this.#owed.length > 0 && !this.#busy) void this.#callOwed();
  }

  /** Something in this batch, or a later one, may run again. */
  reopen(batch: number): void {
    this.#next = Math.min(this.#next, batch);
  }

  /** Saved and marked: whoever goes on is not told of it again. */
  async escalate({ number, marker }: FailedBatch): Promise<void> {
    await this.#context.checkpoint({ trigger: "error_recovery", name: `batch ${number} failed` });
    await this.#context.step(marker, () => null);
  }

  #end(number: number): void {
    const nodes = this.#view.batch(number);
    const statuses = nodes.map((id) => this.#view.state(id).status);
    const ran = statuses.some((status) => status !== "skipped");
    if (!ran) return;
    // Each end of the batch has another round: every try and every success makes it higher.
    const round = nodes.reduce((sum, id, at) => {
      const tries = this.#view.state(id).tries ?? 0;
      return sum + tries + (statuses[at] === "complete" ? 1 : 0);
    }, 0);
    const name = batchName(number, round);
    const marker = `${name}/failed`;
    if (!statuses.includes("complete") && !this.#finished.has(marker)) this.failed ??= { number, marker };
    const after = `${name}/after`;
    if (this.#work.afterBatch === undefined || this.#finished.has(after) || this.#called.has(after)) return;
    this.#called.add(after);
    this.#owed.push({ marker: after, batch: { number, nodes, name: (part) => `${after}/${part}` } });
  }

  async #callOwed(): Promise<void> {
    this.#busy = true;
    try {
      for (let owed = this.#owed.shift(); owed !== undefined; owed = this.#owed.shift()) {
        await this.#work.afterBatch?.(owed.batch);
        await this.#context.step(owed.marker, () => null);
      }
      this.#busy = false;
      this.#changed();
    } catch (error) {
      this.#busy = false;
      this.#changed({ error });
    }
  }
}
