import { HoldfastError } from "../../core/error.ts";
import { belongsToGraph } from "../../core/graph/graph-names.ts";
import type { NewEntry, StepFailed, StepFinished } from "../../core/journal/journal.ts";
import type { Json } from "../../core/json.ts";
import { own } from "../../core/state.ts";
import type { OpenAside } from "../asides/asides.ts";
import { runMark } from "../save/run-mark.ts";
import type { RunSession } from "../conduct/run-session.ts";

/** One run of a stage's function in this process: which steps it asked for, and which of its calls are under way. */
export class Stay {
  readonly writer: RunSession;
  readonly stage: string;
  /** Begins the mark of every process of its steps. */
  readonly mark: string;
  /** Asides that it asked for, by name. */
  readonly asides = new Map<string, OpenAside>();
  /** Digests of changes in the main checkout that were asked about. */
  readonly asked = new Set<string>();
  readonly #asked = new Set<string>();
  /** Finished before this process took the run up, and not asked for yet. Of nodes that have ended, nobody asks any more. */
  readonly #unasked: Set<string>;
  #active = 0;
  #closed = false;
  #waiting: (() => void)[] = [];
  #turn: Promise<unknown> = Promise.resolve();

  constructor(writer: RunSession) {
    this.writer = writer;
    this.stage = writer.state.position.stage;
    this.mark = `${runMark(writer.parts, writer.run.id)}/${writer.visit}/`;
    const { graph = false, steps } = writer.state.position.visit;
    const isOwn = (step: string): boolean => !step.startsWith(RECHECK) && (!graph || !belongsToGraph(step));
    this.#unasked = new Set(Object.keys(steps).filter(isOwn));
  }

  /** Still among what was done before: what only tells (notes, checkpoints) has been told. */
  get replaying(): boolean {
    return this.#unasked.size > 0;
  }

  /** The result of a step that is finished; undefined: it is the caller's to run. */
  claim(name: string): Json | undefined {
    this.check();
    if (this.#asked.has(name)) throw askedTwice(this.stage, name);
    const result = own(this.writer.steps, name);
    if (result === undefined) {
      checkStepName(name);
      // Between two steps, where no other is under way.
      if (this.#active === 0) this.writer.halt.checkWish();
    } else this.#unasked.delete(name);
    this.#asked.add(name);
    return result;
  }

  /** The result of a step that may be asked for more than once; undefined: it is not finished. */
  recall(name: string): Json | undefined {
    this.#unasked.delete(name);
    return own(this.writer.steps, name);
  }

  /** After a failed try: the name may be asked for again. */
  unclaim(name: string): void {
    this.#asked.delete(name);
  }

  /** The entry that ends a step of this stage attempt. The keys are in canonical order, so that the store need not sort them. */
  finished(step: string, { recorded, ...body }: Omit<StepFinished, "visit" | "step">): NewEntry {
    const { visit } = this.writer;
    const { result, spent } = body;
    return {
      kind: "step.finished",
      body: recorded === undefined ? { result, spent, step, visit } : { recorded, result, spent, step, visit },
    };
  }

  /** The entry of a failed try. */
  failed(step: string, body: Omit<StepFailed, "visit" | "step">): NewEntry {
    return { kind: "step.failed", body: { visit: this.writer.visit, step, ...body } };
  }

  /** A new call is refused once work must stop. */
  check(): void {
    this.writer.halt.check();
    this.open();
  }

  /** A call under way may still write what it finished, until the stage is over. */
  open(): void {
    if (!this.#closed) return;
    throw (
      this.writer.halt.cause ??
      new HoldfastError({
        code: "USAGE",
        message: `Stage ${this.stage} of run ${this.writer.run.id} is over and its context is used still`,
        hint: "Wait for everything that the stage started before it returns.",
      })
    );
  }

  enter(): void {
    this.#active += 1;
  }

  leave(): void {
    this.#active -= 1;
    if (this.#active === 0) for (const resolve of this.#waiting.splice(0)) resolve();
  }

  async busy<T>(work: () => Promise<T>): Promise<T> {
    this.enter();
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /** One after the other: what is about folders of asides, or merges them. */
  async inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return await done;
  }

  /** Settles when no call is under way. */
  async idle(): Promise<void> {
    if (this.#active > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  close(): void {
    this.#closed = true;
  }

  /** WORKFLOW_CHANGED when the stage concluded without steps that it had finished: it is not the code that began it. */
  checkAsked(): void {
    if (this.#unasked.size === 0) return;
    const names = [...this.#unasked];
    throw new HoldfastError({
      code: "WORKFLOW_CHANGED",
      message: `Stage ${this.stage} of run ${this.writer.run.id} concluded without steps that it had finished: ${names.join(", ")}`,
      hint: "Its function has changed while it was under way, or depends on something that is no step. Bring the old code back, or restore the checkpoint at which the stage began.",
      retry: "ask",
      data: { stage: this.stage, steps: names },
    });
  }
}

/** Begins the name of a question whose reason may be gone when the stage runs again, so that the stage need not ask it again. */
export const RECHECK = "recheck:";

/** It becomes part of a child's environment. */
const STEP_NAME = /^[^\p{C}]{1,200}$/u;

function checkStepName(name: string): void {
  if (STEP_NAME.test(name)) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(name)} cannot name a step`,
    hint: "Use 1 to 200 characters without control characters.",
  });
}

function askedTwice(stage: string, name: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `Stage ${stage} asks for step ${JSON.stringify(name)} twice in one visit`,
    hint: "Give each step a name of its own; number those of a loop.",
    data: { stage, step: name },
  });
}
