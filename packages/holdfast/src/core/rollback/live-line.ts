import type { JournalEntry } from "../journal.ts";

/** Which checkpoints a run still stands on: a restore of a whole checkpoint leaves all that came after it behind. */
export class LiveLine {
  #line: number[] = [];
  readonly #left = new Set<number>();
  #pending: number | null = null;

  read({ kind, body }: Pick<JournalEntry, "kind" | "body">): void {
    switch (kind) {
      case "checkpoint":
        if (typeof body["sequence"] === "number") this.#line.push(body["sequence"]);
        return;
      case "restore.started":
        // Of single paths, or of files alone: the run goes on where it stands.
        this.#pending = body["paths"] === null ? sequenceOf(body["target"]) : null;
        return;
      case "restore.finished": {
        const target = sequenceOf(body["target"]);
        if (target !== null && target === this.#pending) this.#goBack(target);
        this.#pending = null;
        return;
      }
      default:
    }
  }

  left(sequence: number): boolean {
    return this.#left.has(sequence);
  }

  #goBack(target: number): void {
    // One that was left behind is stood on again, with what led to it as far as that is on the line.
    this.#left.delete(target);
    for (const sequence of this.#line) if (sequence > target) this.#left.add(sequence);
    this.#line = this.#line.filter((sequence) => sequence <= target);
    if (!this.#line.includes(target)) this.#line.push(target);
  }
}

function sequenceOf(target: unknown): number | null {
  if (typeof target !== "string") return null;
  const sequence = Number(target.slice(target.lastIndexOf("@") + 1));
  return Number.isSafeInteger(sequence) ? sequence : null;
}
