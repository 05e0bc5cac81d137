import type { JournalEntry } from "../journal/journal.ts";

/** Which checkpoints a run still stands on: a restore of a whole checkpoint leaves all that came after it behind. */
export class LiveLine {
  #line: number[] = [];
  readonly #left = new Set<number>();
  #pending: { readonly target: number; readonly whole: boolean } | null = null;
  /** What stood there before the restore that is under way. */
  #before: number | null = null;

  read({ kind, body }: Pick<JournalEntry, "kind" | "body">): void {
    switch (kind) {
      case "checkpoint":
        if (typeof body["sequence"] !== "number") return;
        this.#line.push(body["sequence"]);
        if (body["trigger"] === "before_restore") this.#before = body["sequence"];
        return;
      case "restore.started": {
        const target = sequenceOf(body["target"]);
        this.#pending = target === null ? null : { target, whole: body["paths"] === null };
        this.#before = null;
        return;
      }
      case "restore.finished":
        this.#finish(sequenceOf(body["target"]));
        return;
      default:
    }
  }

  left(sequence: number): boolean {
    return this.#left.has(sequence);
  }

  /** A restore that was taken back names what it went back to instead. */
  #finish(target: number | null): void {
    const [pending, before] = [this.#pending, this.#before];
    this.#pending = null;
    this.#before = null;
    if (pending === null || pending.target !== target) return;
    if (pending.whole) this.#goBack(target);
    // Of single paths, or of files alone: the run goes on where it stands.
    else if (before !== null) this.#left.add(before);
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
