/** Folds a journal into the timeline of a run: spans that nest, marks, idle gaps and curves. Pure: it reads entries and nothing else. */
import { TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";
import { agentFailure, eventVerdict, isAgentResult, stepVerdict } from "@holdfast/core/find-rollback";
import { type JournalEntry, numberOf, textOf } from "@holdfast/core/journal";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Amounts, Mark, Span, Timeline } from "@holdfast/dashboard/api";

type Entry = Pick<JournalEntry, "entry" | "kind" | "at" | "epoch" | "body">;

/** What the journal cannot say. */
export interface TimelineNow {
  readonly now: number;
  /** A process executes the run. */
  readonly live: boolean;
  /** Last heartbeat of a holder that died and whose lease no process has acquired since; null: there is none. */
  readonly crashedAt: string | null;
}

/** More spans than a page can show or one answer should have. The shortest are left out. */
const MAX_SPANS = 4000;
const MAX_MARKS = 2000;
/** Points of a curve. */
const MAX_POINTS = 1000;
/** A shorter pause between two processes is not worth a fold. */
const MIN_GAP_MS = 1000;

/** A span that grows while the journal is read. Times are milliseconds and never run backwards. */
interface Draft {
  readonly id: string;
  readonly parent: Draft | null;
  readonly kind: Span["kind"];
  readonly name: string;
  readonly iteration: number;
  readonly attempt: number;
  readonly start: number;
  readonly first: number;
  end: number | null;
  last: number;
  result: Span["result"];
  score: number | null;
  spent: Spent | null;
  why: string;
}

interface Spent {
  readonly tokens: number;
  readonly microUsd: number;
  readonly milliseconds: number;
  readonly unpriced: number;
  readonly uncounted: number;
}

/** Reads entries in their order, and can be asked for the timeline at any time. */
export class TimelineReader {
  readonly #spans: Draft[] = [];
  readonly #marks: Mark[] = [];
  readonly #gaps: { readonly from: number; readonly to: number; readonly reason: string }[] = [];
  readonly #spent: { readonly at: string; readonly total: Spent }[] = [];
  readonly #scores: { readonly at: string; readonly iteration: number; readonly score: number }[] = [];
  /** The open steps of the stage, by name. */
  readonly #steps = new Map<string, Draft>();
  readonly #effects = new Map<string, Draft>();
  readonly #stageAttempts = new Map<string, number>();
  /** Of the open stage. */
  readonly #stepAttempts = new Map<string, number>();
  #stage: Draft | null = null;
  /** The stage that ended last. */
  #lastStage: Draft | null = null;
  /** Whether the last agent call of the stage failed. */
  #agentFails = false;
  /** The stage that the next step belongs to, after a restore or in a fork: their journal has no entry for it. */
  #resumes: { readonly stage: string; readonly iteration: number } | null = null;
  #wait: Draft | null = null;
  #idle: { readonly since: number; readonly reason: string } | null = null;
  #total = NOTHING;
  #restored: string | null = null;
  #crashedAt: number | null = null;
  #ended = false;
  #from: number | null = null;
  #time = 0;
  /** When the holder of the lease last wrote an entry. */
  #lastWork = 0;
  #entry = 0;

  /** Number of the last entry that was read. */
  get entries(): number {
    return this.#entry;
  }

  /** What the calls in this journal cost, as far as it is known. */
  get microUsd(): number {
    return this.#total.microUsd;
  }

  read(entry: Entry): void {
    const before = this.#time;
    // A clock that was set back must not make a span end before it begins.
    const parsed = Date.parse(entry.at);
    this.#time = Number.isNaN(parsed) ? before : Math.max(before, parsed);
    this.#from ??= this.#time;
    this.#entry = entry.entry;
    this.#apply(entry, before === 0 ? this.#time : before);
    // Tags and drops need no lease, and are not work.
    if (entry.epoch > 0) this.#lastWork = this.#time;
  }

  #apply({ kind, body, entry }: Entry, before: number): void {
    switch (kind) {
      case "run.created":
        if (isJsonObject(body["forkedFrom"]))
          this.#mark("fork", `forked from ${textOf(body["forkedFrom"], "id")}`, null);
        return;
      case "lease.taken":
        return this.#acquired(body);
      case "lease.released":
        this.#idle = { since: this.#time, reason: this.#wait?.name ?? NO_PROCESS };
        return;
      case "stage.entered":
        this.#endWait();
        this.#closeStage("interrupted", this.#time);
        this.#enter({ stage: textOf(body, "stage"), iteration: numberOf(body, "iteration") }, this.#time);
        return;
      case "stage.ended":
        return this.#stageEnded(body, before);
      case "step.started":
        return this.#stepStarted(body, before);
      case "step.finished":
        return this.#stepEnded(body, before, resultOf(body));
      case "step.failed":
        return this.#stepEnded(body, before, { result: "failed", why: textOf(body, "reason"), check: false });
      case "step.interrupted":
      case "step.lost":
        return this.#stepLost(body);
      case "effect.intended":
        return this.#effectIntended(body, before);
      case "effect.settled":
        return this.#effectEnded(body, body["outcome"] === "failed" ? "failed" : "done", textOf(body, "reason"));
      case "effect.unknown":
        return this.#effectEnded(body, "interrupted", textOf(body, "reason"));
      case "effect.undone":
        if (body["outcome"] === "undone") this.#mark("undo", `${purposeOf(body)} undone`, null);
        return;
      case "run.waiting":
      case "run.paused":
        return this.#waits(kind === "run.paused" ? "you" : textOf(body, "for"), kind, textOf(body, "reason"));
      case "run.continued":
        this.#endWait();
        if (typeof body["answer"] === "string") this.#mark("answer", answerText(body), null);
        return;
      case "run.reopened":
        this.#ended = false;
        return this.#endWait();
      case "run.ended":
        this.#ended = true;
        this.#endWait();
        // The stage in which a run fails ends before the run does.
        if (this.#stage === null && this.#lastStage !== null && body["outcome"] !== "done")
          this.#lastStage.result = "failed";
        return this.#closeStage(body["outcome"] === "done" ? "done" : "failed", this.#time, textOf(body, "reason"));
      case "restore.finished":
        this.#restored = textOf(body, "target");
        return;
      case "checkpoint":
        return this.#checkpoint(body);
      case "tag.added":
        return this.#mark("tag", `tagged ${textOf(body, "name")}`, numberOf(body, "sequence"));
      default:
        // Every entry of the stage belongs to its span.
        if (this.#stage !== null) this.#stage.last = entry;
    }
  }

  #acquired(body: JsonObject): void {
    const { from } = body;
    if (isJsonObject(from)) {
      // The process died at some time after its last sign of life and before now.
      const seen = Date.parse(textOf(from, "heartbeatAt"));
      const at = Math.min(this.#time, Math.max(this.#from ?? 0, this.#lastWork, Number.isNaN(seen) ? 0 : seen));
      this.#crashedAt = at;
      this.#mark("crash", "its process died; the next one continued", null, at);
      this.#idle = { since: at, reason: CRASHED };
    }
    this.#endIdle(this.#time);
  }

  #endIdle(to: number): void {
    if (this.#idle !== null && to - this.#idle.since >= MIN_GAP_MS)
      this.#gaps.push({ from: this.#idle.since, to, reason: this.#idle.reason });
    this.#idle = null;
  }

  #enter(place: { readonly stage: string; readonly iteration: number }, start: number): Draft {
    this.#resumes = null;
    this.#stepAttempts.clear();
    const name = place.stage === "" ? "stage" : place.stage;
    this.#stage = this.#open({ kind: "stage", name, parent: null, start, iteration: place.iteration });
    return this.#stage;
  }

  /** The open stage. A restored or forked run continues in a stage that its journal does not mention. */
  #stageAt(before: number): Draft | null {
    this.#endWait();
    if (this.#stage === null && this.#resumes !== null) this.#enter(this.#resumes, before);
    if (this.#stage !== null) this.#stage.last = this.#entry;
    return this.#stage;
  }

  #stageEnded(body: JsonObject, before: number): void {
    const stage = this.#stageAt(before);
    if (stage === null) return;
    const reason = textOf(body, "reason");
    const verdict = eventVerdict({ stage: stage.name, event: textOf(body, "event"), reason });
    if (typeof body["score"] === "number") {
      stage.score = body["score"];
      this.#scores.push({ at: iso(this.#time), iteration: stage.iteration, score: body["score"] });
    }
    // "fatal": the run fails because of this stage.
    const failed = verdict?.pass === false || this.#agentFails || textOf(body, "event") === "fatal";
    this.#closeStage(failed ? "failed" : "done", this.#time, reason);
    this.#agentFails = false;
    this.#lastStage = stage;
  }

  #stepStarted(body: JsonObject, before: number): void {
    const stage = this.#stageAt(before);
    const key = textOf(body, "step");
    const open = this.#steps.get(key);
    // Its process died, and the next one starts it again.
    if (open !== undefined) this.#closeStep(key, open, "interrupted", this.#crashedAt);
    const kind = body["estimate"] === null ? "step" : "agent";
    this.#steps.set(key, this.#open({ kind, name: textOf(body, "step"), parent: stage, start: this.#time }));
  }

  #stepEnded(body: JsonObject, before: number, end: StepResult): void {
    const stage = this.#stageAt(before);
    const name = textOf(body, "step");
    const spent = spentOf(body["spent"]);
    // The span of an effect shows it already.
    if (!this.#steps.has(name) && name.startsWith("effect:")) return;
    const kind = spent === null ? (end.check ? "check" : "step") : "agent";
    // A plain step has one entry, after its work. It began after the entry before, at the latest.
    const start = Math.max(stage?.start ?? before, before);
    const step = this.#steps.get(name) ?? this.#open({ kind, name, parent: stage, start });
    this.#spend(step, spent);
    this.#closeStep(name, step, end.result, null, end.why);
    if (isAgentResult(body["result"] ?? null)) this.#agentFails = end.result === "failed";
  }

  #stepLost(body: JsonObject): void {
    const key = textOf(body, "step");
    const step = this.#steps.get(key);
    const spent = spentOf(body["spent"]);
    if (step !== undefined) {
      this.#spend(step, spent);
      this.#closeStep(key, step, "interrupted", this.#crashedAt);
    } else this.#spend(this.#stage, spent);
  }

  #effectIntended(body: JsonObject, before: number): void {
    const key = textOf(body, "key");
    const open = this.#effects.get(key);
    // Looked up and begun again after a crash.
    if (open !== undefined) return;
    const name = textOf(body, "kind");
    const draft = this.#open({ kind: "effect", name, parent: this.#stageAt(before), start: this.#time });
    draft.why = textOf(body, "target");
    this.#effects.set(key, draft);
  }

  #effectEnded(body: JsonObject, result: Span["result"], reason: string): void {
    const key = textOf(body, "key");
    const effect = this.#effects.get(key);
    this.#mark("effect", `${purposeOf(body)} ${result === "interrupted" ? "unknown" : result}`, null);
    if (effect === undefined) return;
    this.#effects.delete(key);
    close(effect, result, this.#time, this.#entry);
    if (reason !== "") effect.why = reason;
  }

  #waits(what: string, kind: "run.waiting" | "run.paused", reason: string): void {
    this.#endWait();
    const name = kind === "run.paused" ? "paused" : `waiting for ${what}`;
    const parent = this.#stage;
    this.#wait = this.#open({ kind: "wait", name, parent, start: this.#time });
    this.#wait.why = reason;
  }

  #endWait(): void {
    if (this.#wait !== null) close(this.#wait, "done", this.#time, this.#entry);
    this.#wait = null;
  }

  #checkpoint(body: JsonObject): void {
    const sequence = numberOf(body, "sequence");
    const trigger = textOf(body, "trigger");
    const stage = textOf(body, "stage");
    const name = textOf(body, "name");
    if (this.#stage !== null) this.#stage.last = this.#entry;
    if (trigger === "restore") {
      const target = this.#restored ?? "";
      // Within the run its number is enough. A copy of files has another name.
      const text = (name || `restore of ${target}`).replace(/^restore of [^@]*/, "restored to ");
      this.#mark("restore", text, sequenceOf(target));
      this.#closeStage("interrupted", this.#time);
    }
    if (trigger === "restore" || trigger === "fork" || trigger === "import")
      this.#resumes = stage === "none" ? null : { stage, iteration: numberOf(body, "iteration") };
    this.#mark("checkpoint", `saved ${savedWhen(trigger)}${name === "" ? "" : `: ${name}`}`, sequence);
  }

  #mark(kind: Mark["kind"], text: string, sequence: number | null, at = this.#time): void {
    this.#marks.push({ kind, at: iso(at), entry: this.#entry, sequence, text });
  }

  #open(
    params: Pick<Draft, "kind" | "name" | "start"> & { readonly parent: Draft | null; readonly iteration?: number },
  ): Draft {
    const { kind, name, start, parent } = params;
    const iteration = params.iteration ?? parent?.iteration ?? 0;
    const counts = kind === "stage" ? this.#stageAttempts : this.#stepAttempts;
    const key = kind === "stage" ? `${name} ${iteration}` : `${kind} ${name}`;
    const attempt = (counts.get(key) ?? 0) + 1;
    counts.set(key, attempt);
    const draft: Draft = {
      id: `${kind}-${this.#entry}${parent === null ? "" : `-${this.#spans.length}`}`,
      parent,
      kind,
      name,
      iteration,
      attempt,
      start,
      first: this.#entry,
      end: null,
      last: this.#entry,
      result: "open",
      score: null,
      spent: null,
      why: "",
    };
    this.#spans.push(draft);
    return draft;
  }

  #closeStep(key: string, step: Draft, result: Span["result"], at: number | null, why = ""): void {
    this.#steps.delete(key);
    close(step, result, at === null ? this.#time : Math.max(step.start, Math.min(at, this.#time)), this.#entry);
    if (why !== "") step.why = why;
  }

  /** Ends the stage and everything that is still open in it. */
  #closeStage(result: Span["result"], at: number, why = ""): void {
    for (const [key, step] of this.#steps) this.#closeStep(key, step, "interrupted", this.#crashedAt);
    for (const effect of this.#effects.values()) close(effect, "interrupted", at, this.#entry);
    this.#effects.clear();
    if (this.#wait !== null && this.#wait.parent === this.#stage) this.#endWait();
    if (this.#stage !== null) {
      close(this.#stage, result, at, this.#entry);
      if (why !== "") this.#stage.why = why;
    }
    this.#stage = null;
  }

  #spend(span: Draft | null, spent: Spent | null): void {
    if (spent === null) return;
    this.#total = sum(this.#total, spent);
    this.#spent.push({ at: iso(this.#time), total: this.#total });
    if (span === null) return;
    span.spent = sum(span.spent ?? NOTHING, spent);
    if (span.parent !== null) span.parent.spent = sum(span.parent.spent ?? NOTHING, spent);
  }

  timeline({ now, live, crashedAt }: TimelineNow): Timeline {
    const end = this.#ended ? this.#time : Math.max(this.#time, now);
    const died = crashedAt === null || this.#ended ? null : Math.max(this.#lastWork, Date.parse(crashedAt) || 0);
    const idle = died === null ? this.#idle : { since: Math.min(end, died), reason: CRASHED };
    const last = idle === null || this.#ended || live ? [] : [{ from: idle.since, to: end, reason: idle.reason }];
    const crash: readonly Mark[] =
      died === null
        ? []
        : [
            {
              kind: "crash",
              at: iso(Math.min(end, died)),
              entry: this.#entry,
              sequence: null,
              text: "its process died",
            },
          ];
    const shown = longest(this.#spans, end);
    return {
      from: iso(this.#from ?? now),
      to: iso(end),
      spans: shown.map(spanOf),
      omitted: this.#spans.length - shown.length,
      marks: newest([...this.#marks, ...crash]),
      gaps: [...this.#gaps, ...last]
        .filter(({ from, to }) => to - from >= MIN_GAP_MS)
        .map(({ from, to, reason }) => ({ from: iso(from), to: iso(to), reason })),
      curves: {
        spent: thin(this.#spent).map(({ at, total }) => {
          const { microUsd, tokens } = amountsOf(total);
          return { at, microUsd, tokens };
        }),
        scores: thin(this.#scores),
      },
    };
  }
}

const NO_PROCESS = "idle";
const CRASHED = "idle after a crash";

function close(draft: Draft, result: Span["result"], at: number, entry: number): void {
  if (draft.end !== null) return;
  draft.end = at;
  draft.result = result;
  draft.last = entry;
}

function spanOf(draft: Draft): Span {
  const { id, parent, kind, name, iteration, attempt, start, end, result, score, spent, first, last } = draft;
  return {
    id,
    parent: parent?.id ?? null,
    kind,
    name,
    text: sentenceOf(draft),
    iteration,
    attempt,
    startedAt: iso(start),
    endedAt: end === null ? null : iso(end),
    result,
    score,
    spent: spent === null ? null : amountsOf(spent),
    entries: [first, last],
  };
}

/** Never more than a page can show: all stages, or the newest of them, and the longest of the rest. In the order of their start. */
function longest(spans: readonly Draft[], end: number): readonly Draft[] {
  if (spans.length <= MAX_SPANS) return spans;
  const stages = spans.filter(({ parent }) => parent === null).slice(-MAX_SPANS / 2);
  const kept = new Set(stages);
  const lengthOf = (span: Draft): number => (span.end ?? end) - span.start;
  const others = spans.filter(({ parent }) => parent !== null && kept.has(parent));
  const rest = others.toSorted((a, b) => lengthOf(b) - lengthOf(a)).slice(0, MAX_SPANS - stages.length);
  for (const span of rest) kept.add(span);
  return spans.filter((span) => kept.has(span));
}

/** The newest checkpoints give way to the other marks, which are rare. */
function newest(marks: readonly Mark[]): readonly Mark[] {
  if (marks.length <= MAX_MARKS) return marks;
  const others = marks.filter(({ kind }) => kind !== "checkpoint").slice(-MAX_MARKS / 2);
  const kept = new Set([
    ...others,
    ...marks.filter(({ kind }) => kind === "checkpoint").slice(others.length - MAX_MARKS),
  ]);
  return marks.filter((mark) => kept.has(mark));
}

function thin<T>(points: readonly T[]): readonly T[] {
  if (points.length <= MAX_POINTS) return points;
  const every = Math.ceil(points.length / MAX_POINTS);
  return points.filter((_point, at) => at % every === 0 || at === points.length - 1);
}

const SAVED: Readonly<Record<Trigger, string>> = {
  manual: "by hand",
  automatic: "during the stage",
  stage: "between stages",
  iteration: "between iterations",
  batch_complete: "after a batch",
  agent_complete: "after the agent",
  artifact_complete: "after the agent",
  conflict_start: "before a conflict",
  conflict_resolved: "after a conflict",
  before_risky: "before a risky step",
  before_external: "before a call to the outside",
  error_recovery: "after an error",
  interrupt: "at an interruption",
  session_end: "at the end of the session",
  timer: "by the timer",
  before_restore: "before a restore",
  restore: "by a restore",
  fork: "by a fork",
  import: "by an import",
};

/** When a checkpoint was taken, in words: `between stages`. */
export function savedWhen(trigger: string): string {
  return SAVED[TRIGGERS.find((one) => one === trigger) ?? "automatic"];
}

const WORDS: Readonly<Record<Span["result"], string>> = {
  done: "finished",
  failed: "failed",
  interrupted: "was interrupted",
  open: "has not ended",
};

function sentenceOf({ kind, name, iteration, attempt, result, score, why }: Draft): string {
  const round = kind === "stage" && iteration > 0 ? ` #${iteration}` : "";
  const again = attempt > 1 ? ` (attempt ${attempt})` : "";
  const scored = score === null ? "" : ` with ${score}`;
  if (kind === "wait") return why === "" ? name : `${name}: ${why}`;
  if (kind === "effect") return `${name.replaceAll("_", " ")}${why === "" ? "" : ` on ${why}`} ${WORDS[result]}`;
  // A reason such as "The review failed with 68: docs" repeats the beginning.
  const repeated = `The ${name} ${result === "done" ? "passed" : "failed"}${scored}`;
  const said = why.startsWith(repeated) ? why.slice(repeated.length).replace(/^: /, "") : why;
  return `${name}${round}${again} ${WORDS[result]}${scored}${said === "" ? "" : `: ${said}`}`;
}

interface StepResult {
  readonly result: "done" | "failed";
  readonly why: string;
  readonly check: boolean;
}

function resultOf(body: JsonObject): StepResult {
  const result = body["result"] ?? null;
  const failure = agentFailure(result);
  if (failure !== null) return { result: "failed", why: failure, check: false };
  const verdict = stepVerdict(textOf(body, "step"), result);
  if (verdict === null) return { result: "done", why: "", check: false };
  return { result: verdict.pass ? "done" : "failed", why: verdict.pass ? "" : verdict.reason, check: true };
}

function answerText(body: JsonObject): string {
  const by = textOf(body, "by");
  return `answered "${textOf(body, "answer")}"${by === "" ? "" : ` by ${by}`}`;
}

/** `push.6` of the key `issue-1/pr/push.6`, without its number. */
function purposeOf(body: JsonObject): string {
  const key = textOf(body, "key");
  return (key.split("/").at(-1) ?? key).replace(/\.\d+$/, "");
}

/** 7 of `issue-42@7`. */
export function sequenceOf(address: string): number | null {
  const found = /@([1-9]\d*)$/.exec(address);
  return found === null ? null : Number(found[1]);
}

const NOTHING: Spent = { tokens: 0, microUsd: 0, milliseconds: 0, unpriced: 0, uncounted: 0 };

function spentOf(value: Json | undefined): Spent | null {
  if (!isJsonObject(value)) return null;
  const [tokens, microUsd, milliseconds] = [
    numberOf(value, "tokens"),
    numberOf(value, "microUsd"),
    numberOf(value, "milliseconds"),
  ];
  return {
    tokens,
    microUsd,
    milliseconds,
    unpriced: numberOf(value, "unpriced"),
    uncounted: numberOf(value, "uncounted"),
  };
}

function sum(a: Spent, b: Spent): Spent {
  return {
    tokens: a.tokens + b.tokens,
    microUsd: a.microUsd + b.microUsd,
    milliseconds: a.milliseconds + b.milliseconds,
    unpriced: a.unpriced + b.unpriced,
    uncounted: a.uncounted + b.uncounted,
  };
}

/** An amount of which nothing is known is null, never 0. */
function amountsOf({ tokens, microUsd, milliseconds, unpriced, uncounted }: Spent): Amounts {
  return {
    tokens: tokens === 0 && uncounted > 0 ? null : tokens,
    microUsd: microUsd === 0 && unpriced > 0 ? null : microUsd,
    milliseconds,
  };
}

function iso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
