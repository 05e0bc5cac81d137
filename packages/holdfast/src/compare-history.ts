/** Reads what runs did from their journals and finds the first point at which two runs diverge. */
import { type JournalEntry, textOf, workingTime } from "@holdfast/core/journal";
import { type Hasher, type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import type { Amounts } from "@holdfast/core/position";
import type { Work } from "@holdfast/core/run";
import { canonicalJson } from "@holdfast/core/values";

/** One action of a run in a form that can be compared with the actions of another run. */
export interface HistoryStep {
  readonly run: string;
  readonly entry: number;
  /** Name of the step, or of the stage that ended. */
  readonly name: string;
  /** Digest of the result. */
  readonly digest: string;
}

/** A side effect on an external system. */
export interface EffectSeen {
  readonly kind: string;
  readonly target: string;
  readonly state: "done" | "failed" | "unknown" | "intended" | "undone";
  /** The effect existed already and the run adopted it. */
  readonly adopted: boolean;
  /** The number that the external system assigned (of a pull request, of a comment); null if it assigned none. */
  readonly number: number | null;
}

export interface History {
  readonly steps: readonly HistoryStep[];
  readonly effects: readonly EffectSeen[];
  readonly calls: number;
  readonly failures: number;
  /** Spent by the calls of this journal alone. */
  readonly spent: Amounts;
  readonly wall: number;
  readonly work: number;
}

/** Reads a journal from its beginning, entry by entry. Results may be long, so it keeps only their digests. */
export class HistoryReader {
  readonly #hash: Hasher;
  readonly #steps: HistoryStep[] = [];
  readonly #effects = new Map<string, EffectSeen>();
  readonly #timed: Pick<JournalEntry, "kind" | "at" | "epoch" | "body">[] = [];
  #calls = 0;
  #failures = 0;
  #spent: Amounts = { tokens: 0, microUsd: 0, milliseconds: 0 };

  constructor(hash: Hasher) {
    this.#hash = hash;
  }

  read(entry: JournalEntry): void {
    const { kind, body, epoch, at } = entry;
    // Only the body of a lease entry matters for time measurement.
    if (epoch !== 0) this.#timed.push({ kind, epoch, at, body: kind === "lease.taken" ? body : {} });
    switch (kind) {
      case "step.started":
        if (isJsonObject(body["estimate"])) this.#calls += 1;
        return;
      case "step.lost":
      case "step.interrupted":
        this.#spend(body["spent"]);
        return;
      case "step.finished":
        this.#spend(body["spent"]);
        this.#did(entry, textOf(body, "step"), body["result"] ?? null);
        return;
      case "step.failed":
        this.#failures += 1;
        this.#spend(body["spent"]);
        this.#did(entry, textOf(body, "step"), { failed: textOf(body, "reason") });
        return;
      case "stage.ended":
        this.#did(entry, `${textOf(body, "stage")} (stage)`, { event: textOf(body, "event") });
        return;
      case "effect.intended":
      case "effect.unknown":
      case "effect.settled":
      case "effect.undone":
        this.#effect(kind, body);
        return;
      default:
    }
  }

  history(): History {
    const times = this.#timed.map(({ at }) => Date.parse(at)).filter((at) => Number.isFinite(at));
    const [first, last] = [times[0] ?? 0, times.at(-1) ?? 0];
    return {
      steps: this.#steps,
      effects: [...this.#effects.values()],
      calls: this.#calls,
      failures: this.#failures,
      spent: this.#spent,
      wall: Math.max(0, last - first),
      work: workingTime(this.#timed),
    };
  }

  #did({ run, entry }: JournalEntry, name: string, result: Json): void {
    this.#steps.push({ run, entry, name, digest: this.#hash(canonicalJson(withoutChance(result))) });
  }

  #spend(recorded: Json | undefined): void {
    if (!isJsonObject(recorded)) return;
    const { tokens, microUsd, milliseconds } = this.#spent;
    const unpriced = (this.#spent.unpriced ?? 0) + amountOf(recorded["unpriced"]);
    const uncounted = (this.#spent.uncounted ?? 0) + amountOf(recorded["uncounted"]);
    this.#spent = {
      tokens: tokens + amountOf(recorded["tokens"]),
      microUsd: microUsd + amountOf(recorded["microUsd"]),
      milliseconds: milliseconds + amountOf(recorded["milliseconds"]),
      ...(unpriced === 0 ? {} : { unpriced }),
      ...(uncounted === 0 ? {} : { uncounted }),
    };
  }

  #effect(kind: "effect.intended" | "effect.unknown" | "effect.settled" | "effect.undone", body: JsonObject): void {
    const key = textOf(body, "key");
    const known = this.#effects.get(key);
    if (kind === "effect.intended") {
      if (known?.state === "done") return;
      const [what, target] = [textOf(body, "kind"), textOf(body, "target")];
      this.#effects.set(key, { kind: what, target, state: "intended", adopted: false, number: null });
    } else if (known !== undefined && kind === "effect.unknown") {
      this.#effects.set(key, { ...known, state: "unknown" });
    } else if (known !== undefined && kind === "effect.undone") {
      if (body["outcome"] === "undone") this.#effects.set(key, { ...known, state: "undone" });
    } else if (known !== undefined) {
      const state = body["outcome"] === "done" ? "done" : "failed";
      const adopted = body["adopted"] === true;
      this.#effects.set(key, { ...known, state, adopted, number: numberIn(body["receipt"]) });
    }
  }
}

/**
 * Removes what differs between any two runs: times, and with them commit ids. The content of a commit is compared by
 * its tree, whose id depends on content alone.
 */
function withoutChance(value: Json): Json {
  if (typeof value === "string") return INSTANT.test(value) ? "a time" : OBJECT_ID.test(value) ? "a commit" : value;
  if (isJsonArray(value)) return value.map(withoutChance);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !BY_CHANCE.has(key))
      .map(([key, inner]) => [key, key === "tree" ? inner : withoutChance(inner)]),
  );
}

const BY_CHANCE: ReadonlySet<string> = new Set(["milliseconds", "session"]);
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;
const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** Receipts have the forge's format; every forge calls its number `number`. */
function numberIn(receipt: Json | undefined): number | null {
  if (!isJsonObject(receipt)) return null;
  const { number } = receipt;
  return typeof number === "number" ? number : null;
}

function amountOf(value: Json | undefined): number {
  return typeof value === "number" ? value : 0;
}

/** A checkpoint in the lineage of a compared run: its own, then the one that it was forked from, and so on. */
export interface LineagePoint {
  readonly run: string;
  readonly sequence: number;
}

/**
 * The newest checkpoint that all lineages share: of the nearest run in every lineage, the smallest sequence. null: the
 * runs are unrelated. The order of the lineages does not matter.
 */
export function commonPoint(lineages: readonly (readonly LineagePoint[])[]): LineagePoint | null {
  const [first, ...others] = lineages;
  for (const { run, sequence } of first ?? []) {
    const sequences = others.map((lineage) => lineage.find((point) => point.run === run)?.sequence);
    const all = sequences.filter((one) => one !== undefined);
    if (all.length === others.length) return { run, sequence: Math.min(sequence, ...all) };
  }
  return null;
}

/** One side of a comparison: its origin, and every step on the way, including those of the runs that it was forked from. */
export interface DivergingSide {
  readonly lineage: readonly LineagePoint[];
  readonly steps: readonly HistoryStep[];
  readonly began: Began;
}

/** What the root run of a lineage started with. */
interface Began {
  readonly workflow: string;
  readonly work: Work;
  /** Commit and tree, as far as each is known; empty: the run works without files. */
  readonly files: readonly string[];
}

export interface Divergence {
  /** The newest checkpoint that both sides share; null: the runs are unrelated. */
  readonly common: LineagePoint | null;
  /**
   * "checkpoint": the sides share a checkpoint. "alike": unrelated runs that started with the same workflow from the
   * same files, so a divergence is meaningful. "none": no common beginning; equal steps would be coincidence.
   */
  readonly beginning: "checkpoint" | "alike" | "none";
  /** The first difference; null: both sides did exactly the same. */
  readonly first: FirstDifference | null;
}

interface FirstDifference {
  /** Number of earlier steps that both sides did with the same results; 0 if they have no common beginning. */
  readonly shared: number;
  /**
   * "step": the sides did different things. "result": the same step had different results. "length": one side did
   * nothing more.
   */
  readonly kind: "step" | "result" | "length";
  /** null: this side did nothing more. */
  readonly a: HistoryStep | null;
  readonly b: HistoryStep | null;
}

/** Swapping the arguments swaps the sides of the result and changes nothing else. */
export function findDivergence(a: DivergingSide, b: DivergingSide): Divergence {
  const common = commonPoint([a.lineage, b.lineage]);
  const beginning = common !== null ? "checkpoint" : isAlike(a.began, b.began) ? "alike" : "none";
  const shared = beginning === "none" ? 0 : sharedSteps(a.steps, b.steps);
  return { common, beginning, first: differenceAt(shared, a.steps, b.steps) };
}

/** Different issues are different work. Tasks in words may be worded differently and still be the same work. */
function isAlike(a: Began, b: Began): boolean {
  const otherIssue = a.work.kind === "issue" && b.work.kind === "issue" && a.work.number !== b.work.number;
  const sameFiles = a.files.length === 0 ? b.files.length === 0 : a.files.some((one) => b.files.includes(one));
  return a.workflow === b.workflow && sameFiles && !otherIssue;
}

function sharedSteps(a: readonly HistoryStep[], b: readonly HistoryStep[]): number {
  let shared = 0;
  while (shared < a.length && shared < b.length && isSame(a[shared], b[shared])) shared += 1;
  return shared;
}

function differenceAt(shared: number, a: readonly HistoryStep[], b: readonly HistoryStep[]): FirstDifference | null {
  const [left, right] = [a[shared] ?? null, b[shared] ?? null];
  if (left === null && right === null) return null;
  const kind = left === null || right === null ? "length" : left.name === right.name ? "result" : "step";
  return { shared, kind, a: left, b: right };
}

function isSame(a: HistoryStep | undefined, b: HistoryStep | undefined): boolean {
  return a?.name === b?.name && a?.digest === b?.digest;
}
