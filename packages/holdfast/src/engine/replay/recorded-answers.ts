import type { Json } from "../../core/json.ts";
import type { RecordedLookup } from "../../core/replay/recorded-call.ts";
import { lastTakenUp } from "../../core/replay/recording.ts";
import type { Recording } from "../../core/replay/recording.ts";
import { canonicalJson } from "../../core/values/index.ts";

/** Where in the record a stage asks. */
export interface AskedAt {
  readonly visit: number;
  /** Newest step that was played: what its commit holds, its own work may have asked. */
  readonly lastPlayed: number;
  /** Entry from which on the run went on from somewhere else. */
  readonly before: number;
}

/**
 * What clock and forge said to a stage beside its steps. A stage is run anew by whoever takes the run up, so it is the last process whose answers it went by;
 * those before it died with theirs.
 */
export class RecordedAnswers {
  readonly #recording: Recording;
  readonly #answered = new Set<number>();
  /** Of the next reading of the clock. */
  #read = 0;

  constructor(recording: Recording) {
    this.#recording = recording;
  }

  /** The run stands at this entry: what was said later is to be said again. */
  begin(at: number): void {
    const { readings } = this.#recording;
    const next = readings.findIndex(({ entry }) => entry > at);
    this.#read = next === -1 ? readings.length : next;
    for (const entry of this.#answered) if (entry > at) this.#answered.delete(entry);
  }

  /** The next reading that no step has swallowed; null: there is none. */
  now(at: AskedAt): number | null {
    const { readings } = this.#recording;
    const isOwn = this.#byLastLife(readings, at);
    const next = readings.findIndex((one, index) => index >= this.#read && one.entry >= at.lastPlayed && isOwn(one));
    if (next === -1) return null;
    this.#read = next + 1;
    return readings[next]?.value ?? null;
  }

  /** null: this was not asked then. */
  lookUp(method: string, args: readonly Json[], at: AskedAt): RecordedLookup["answer"] | null {
    const text = canonicalJson(args);
    const asked = this.#recording.lookups.filter((one) => one.method === method && canonicalJson(one.args) === text);
    const isOwn = this.#byLastLife(asked, at);
    const own = asked.filter((one) => isOwn(one) && !this.#answered.has(one.entry));
    // Of steps that go on beside each other, one may be played before what goes on beside it has asked.
    const found = own.find(({ entry }) => entry > at.lastPlayed) ?? own[0];
    if (found === undefined) return null;
    this.#answered.add(found.entry);
    return found.answer;
  }

  /**
   * Said in this visit, and to the process that ended it. Where none did, to the newest that got so far as to ask: one that was killed before any commit left
   * nothing.
   */
  #byLastLife(said: readonly Said[], { visit, before }: AskedAt): (one: Said) => boolean {
    const { ended, takenUp } = this.#recording;
    const isHere = (one: Said): boolean => one.visit === visit && one.entry < before;
    const isEnded = (ended.get(visit) ?? Number.POSITIVE_INFINITY) < before;
    const newest = said.findLast(isHere)?.entry ?? 0;
    const from = isEnded ? lastTakenUp(this.#recording, visit) : (takenUp.findLast((entry) => entry < newest) ?? 0);
    return (one) => isHere(one) && one.entry > from;
  }
}

interface Said {
  readonly visit: number;
  readonly entry: number;
}
