import type { Checkpoint, CheckpointSummary, FilesPlane, Planes } from "../../core/checkpoint/checkpoint.ts";
import { comparePlanes } from "../../core/replay/compare-planes.ts";
import type { Recording, RecordedCheckpoint } from "../../core/replay/recording.ts";
import type { RunSession, SaveRequest, SavedAt } from "../conduct/run-session.ts";
import type { Ending } from "./ending.ts";
import type { StepLine } from "./step-line.ts";

export interface CheckpointLineParams {
  readonly recording: Recording;
  readonly load: (sequence: number) => Promise<Checkpoint>;
  /** Makes the scratch worktree hold these files, on this head. null: it does; else what lies there that no step has left. */
  readonly place: (files: FilesPlane) => Promise<ForeignFiles | null>;
  /** Sequences at which the run went on from somewhere else than where it stood. */
  readonly jumps: ReadonlySet<number>;
  /** Last checkpoint to be made; null: as far as the record goes. */
  readonly to: number | null;
}

/** `between`: recorded before the request, and not asked for by the workflow. */
export interface NextSave {
  readonly kind: "own" | "between";
  readonly request: SaveRequest;
}

export interface ForeignFiles {
  readonly expected: string;
  readonly actual: string;
}

/** The checkpoints on record, in their order: each that is made is laid beside its original, and those that nobody makes again are put in. */
export class CheckpointLine {
  compared = 0;
  filled = 0;
  lastSame: number | null = null;
  readonly #params: CheckpointLineParams;
  readonly #steps: StepLine;
  readonly #ending: Ending;
  #cursor = 0;
  #comparedEntry = 0;
  /** A checkpoint of somebody else's was put in, with the files that it had. */
  #isFilled = false;

  constructor(params: CheckpointLineParams, parts: { readonly steps: StepLine; readonly ending: Ending }) {
    this.#params = params;
    this.#steps = parts.steps;
    this.#ending = parts.ending;
  }

  begin(at: RecordedCheckpoint): void {
    this.#cursor = this.#params.recording.checkpoints.findIndex(({ sequence }) => sequence === at.sequence) + 1;
    this.#comparedEntry = at.entry;
  }

  /** How many were passed. */
  get passed(): number {
    return this.#cursor;
  }

  get next(): RecordedCheckpoint | undefined {
    return this.#params.recording.checkpoints[this.#cursor];
  }

  nextJump(): RecordedCheckpoint | null {
    const { recording, jumps } = this.#params;
    return recording.checkpoints.slice(this.#cursor).find(({ sequence }) => jumps.has(sequence)) ?? null;
  }

  firstLeft(): RecordedCheckpoint | null {
    return this.#params.recording.checkpoints.slice(this.#cursor).find(({ isOwn }) => isOwn) ?? null;
  }

  /** Was this one taken at this very point? */
  isNext(writer: RunSession, { trigger, name }: { readonly trigger: string; readonly name: string }): boolean {
    const { next } = this;
    if (next === undefined || next.trigger !== trigger || next.name !== name) return false;
    return this.#steps.standsAt(writer.visit, next.entry);
  }

  /** What is saved next: the request, or a recorded checkpoint that came between. `made`: when it was. */
  async before(writer: RunSession, request: SaveRequest, made: (at: string) => void): Promise<NextSave> {
    writer.halt.check();
    const { next } = this;
    const { to, jumps } = this.#params;
    if (next === undefined || (to !== null && next.sequence > to)) return this.#ending.end(writer, { kind: "end" });
    if (jumps.has(next.sequence)) return this.#ending.end(writer, { kind: "jump", sequence: next.sequence });
    if (next.trigger === request.trigger && next.name === (request.name ?? null)) {
      this.#allAsked(writer, next);
      const adopt = await this.#adopted(next);
      made(next.at);
      // What a step left, and only once everything that lay there before it has been put in.
      if (this.#steps.isOf(next.sequence) || this.#isFilled) await this.#placeFilesOf(writer, next.sequence);
      this.#isFilled = false;
      return { kind: "own", request: { ...request, change: (planes, at) => adopt(changed(planes, request, at)) } };
    }
    if (next.isOwn) {
      this.#allAsked(writer, next);
      const at = { checkpoint: next.sequence, entry: next.entry };
      const [expected, actual] = [headingOf(next), headingOf({ ...request, name: request.name ?? null })];
      return this.#ending.diverge(writer, { ...at, what: "checkpoint", field: "trigger", expected, actual });
    }
    return { kind: "between", request: await this.#fill(writer, next) };
  }

  async saved(writer: RunSession, saved: CheckpointSummary): Promise<void> {
    const { next } = this;
    if (next === undefined) return;
    const at = { checkpoint: next.sequence, entry: next.entry, what: "checkpoint" } as const;
    if (saved.sequence !== next.sequence)
      this.#ending.diverge(writer, { ...at, field: "sequence", expected: next.sequence, actual: saved.sequence });
    const { planes } = await this.#params.load(next.sequence);
    const change = comparePlanes(planes, writer.planesWith(writer.files));
    if (change !== null) this.#ending.diverge(writer, { ...at, ...change });
    this.compared += 1;
    this.lastSame = next.sequence;
    this.#cursor += 1;
    this.#comparedEntry = next.entry;
    if (this.#params.to === next.sequence) this.#ending.end(writer, { kind: "end" });
  }

  async #placeFilesOf(writer: RunSession, sequence: number): Promise<void> {
    const { planes } = await this.#params.load(sequence);
    const foreign = planes.files === null ? null : await this.#params.place(planes.files);
    if (foreign !== null)
      this.#ending.diverge(writer, { what: "files", field: "tree", ...foreign, checkpoint: sequence });
  }

  /** A stage that concludes without a step that it did then. */
  #allAsked(writer: RunSession, next: RecordedCheckpoint): void {
    const missing = this.#steps.unasked(writer.visit, next.entry);
    if (missing === undefined) return;
    const { step, entry } = missing;
    this.#ending.diverge(writer, { what: "missing", field: "name", expected: step, actual: null, step, entry });
  }

  /** Times and what agents keep of a conversation come from the record: they cannot be computed. */
  async #adopted(next: RecordedCheckpoint): Promise<(planes: Planes) => Planes> {
    const { planes: recorded } = await this.#params.load(next.sequence);
    const { budget } = recorded.position;
    const { milliseconds } = budget.spent;
    const isTakenUp = this.#params.recording.takenUp.some((entry) => entry > this.#comparedEntry && entry < next.entry);
    return (planes) => {
      const { position } = planes;
      const { spent } = position.budget;
      // What a process that died had spent is known from the agent's own record only.
      const adopted = isTakenUp ? budget : { ...position.budget, spent: { ...spent, milliseconds } };
      return { ...planes, conversation: recorded.conversation, position: { ...position, budget: adopted } };
    };
  }

  async #fill(writer: RunSession, next: RecordedCheckpoint): Promise<SaveRequest> {
    const { planes, trigger } = await this.#params.load(next.sequence);
    const isMidway = planes.position.visit.running !== undefined;
    const here = writer.planesWith(planes.files);
    const same = {
      ...here,
      conversation: planes.conversation,
      position: { ...here.position, budget: planes.position.budget },
    };
    if (!isMidway && comparePlanes(planes, same) !== null)
      return this.#ending.end(writer, { kind: "jump", sequence: next.sequence });
    await this.#placeFilesOf(writer, next.sequence);
    this.#isFilled = true;
    this.filled += 1;
    this.#cursor += 1;
    return { trigger, ...(next.name === null ? {} : { name: next.name }) };
  }
}

function changed(planes: Planes, { change }: SaveRequest, at: SavedAt): Planes {
  return change === undefined ? planes : change(planes, at);
}

function headingOf({ trigger, name }: { readonly trigger: string; readonly name: string | null }): string {
  return name === null ? trigger : `${trigger} (${name})`;
}
