import type { JournalEntry } from "../journal/journal.ts";
import { textOf } from "../journal/journal-field.ts";
import type { Json } from "../json.ts";
import type { RunState } from "../run/run.ts";
import { EffectNotes } from "./effect-notes.ts";
import { filesKey } from "./facts.ts";
import type { CheckResult, Damage, RollbackCandidate, RollbackFacts, ScoreResult } from "./facts.ts";
import { LiveLine } from "./live-line.ts";
import { eventVerdict, stepVerdict } from "./read-verdict.ts";
import type { Verdict } from "./read-verdict.ts";
import { TroubleNotes } from "./trouble-notes.ts";

type ReadEntry = Pick<JournalEntry, "entry" | "kind" | "body">;

/** What is known of a checkpoint beside the journal. */
export interface KnownCheckpoint {
  readonly sequence: number;
  readonly damage: Damage | null;
}

/** A judgement whose checkpoint is not known yet: the files are told by the next one, unless a step changes them first. */
interface Waiting {
  readonly entry: number;
  readonly verdict: Verdict | null;
  readonly score: number | null;
}

interface Seen {
  readonly sequence: number;
  readonly entry: number;
  readonly stage: string;
  readonly iteration: number;
  readonly tree: string | null;
  readonly score: number | null;
  readonly half: readonly string[];
}

/** Reads a journal from its beginning, entry by entry: results may be long, and none is kept. */
export class FactsReader {
  readonly #line = new LiveLine();
  readonly #effects = new EffectNotes();
  readonly #trouble = new TroubleNotes();
  readonly #checkpoints: Seen[] = [];
  readonly #checks: CheckResult[] = [];
  readonly #scores: ScoreResult[] = [];
  readonly #running = new Set<string>();
  #waiting: Waiting[] = [];
  #hasStages = false;
  /** Where the stage began that the run ended in. */
  #entered: { readonly entry: number; readonly stage: string } | null = null;
  #end: { readonly entry: number; readonly stage: string } | null = null;

  read(entry: ReadEntry): void {
    const { kind, body } = entry;
    this.#line.read(entry);
    this.#effects.read(entry);
    this.#trouble.read(entry);
    switch (kind) {
      case "checkpoint":
        this.#checkpoint(entry);
        return;
      case "stage.entered":
        this.#hasStages = true;
        this.#running.clear();
        this.#entered = { entry: entry.entry, stage: textOf(body, "stage") };
        return;
      case "stage.ended": {
        const [stage, event, reason] = [textOf(body, "stage"), textOf(body, "event"), textOf(body, "reason")];
        this.#judge(entry.entry, eventVerdict({ stage, event, reason }), numberOf(body["score"]));
        return;
      }
      case "step.started":
        // What was judged before it is in the checkpoint before it.
        if (body["files"] === true) {
          this.#settle(this.#checkpoints.at(-1));
          this.#running.add(textOf(body, "step"));
        }
        return;
      case "step.finished": {
        const step = textOf(body, "step");
        this.#running.delete(step);
        this.#judge(entry.entry, stepVerdict(step, body["result"] ?? null), null);
        return;
      }
      case "step.failed":
      case "step.lost":
        this.#running.delete(textOf(body, "step"));
        return;
      case "run.ended":
        this.#end = this.#entered;
        return;
      case "run.reopened":
        this.#end = null;
        return;
      default:
    }
  }

  facts(params: {
    readonly run: string;
    readonly state: RunState;
    readonly known: readonly KnownCheckpoint[];
  }): RollbackFacts {
    this.#settle(this.#checkpoints.at(-1));
    const known = new Map(params.known.map((one) => [one.sequence, one]));
    const candidates = this.#checkpoints.flatMap((seen): readonly RollbackCandidate[] => {
      const one = known.get(seen.sequence);
      if (one === undefined) return [];
      const { score: _score, ...rest } = seen;
      const leftBehind = this.#line.left(seen.sequence);
      return [{ ...rest, ...one, leftBehind, ended: this.#isEnded(seen), changed: null }];
    });
    const live = <T extends { readonly sequence: number }>(one: T): boolean => !this.#line.left(one.sequence);
    return {
      run: params.run,
      state: params.state,
      candidates,
      checks: this.#checks.filter(live),
      scores: (this.#hasStages ? this.#scores : this.#ownScores()).filter(live),
      effects: this.#effects.list(),
      trouble: this.#trouble.now(params.state),
    };
  }

  #checkpoint({ entry, body }: ReadEntry): void {
    const sequence = numberOf(body["sequence"]);
    if (sequence === null) return;
    const tree = body["tree"];
    const seen: Seen = {
      sequence,
      entry,
      stage: textOf(body, "stage"),
      iteration: numberOf(body["iteration"]) ?? 0,
      tree: typeof tree === "string" ? tree : null,
      score: numberOf(body["score"]),
      half: [...this.#running],
    };
    this.#checkpoints.push(seen);
    this.#settle(seen);
  }

  #judge(entry: number, verdict: Verdict | null, score: number | null): void {
    if (verdict !== null || score !== null) this.#waiting.push({ entry, verdict, score });
  }

  #settle(checkpoint: Seen | undefined): void {
    if (checkpoint === undefined) return;
    const { sequence } = checkpoint;
    const files = filesKey(checkpoint);
    for (const { entry, verdict, score } of this.#waiting) {
      if (verdict !== null) this.#checks.push({ ...verdict, entry, sequence, files });
      if (score !== null) this.#scores.push({ entry, sequence, files, score });
    }
    this.#waiting = [];
  }

  /** A score is carried along in every position until the next; only without stages is it each checkpoint's own. */
  #ownScores(): readonly ScoreResult[] {
    return this.#checkpoints.flatMap((seen) =>
      seen.score === null
        ? []
        : [{ entry: seen.entry, sequence: seen.sequence, files: filesKey(seen), score: seen.score }],
    );
  }

  #isEnded({ entry, stage }: Seen): boolean {
    return this.#end !== null && entry > this.#end.entry && stage === this.#end.stage;
  }
}

function numberOf(value: Json | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
