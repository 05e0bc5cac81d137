// Finds the checkpoint to roll back to after a failure: reads facts about checks, effects and failures from the journal.
import { type CoreAdapters, snapshotParams } from "./adapters.ts";
import type { CheckpointSummary } from "./checkpoint.ts";
import { type JournalEntry, textOf } from "./journal.ts";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "./json.ts";
import { NOT_RESTORABLE, readWhole } from "./recovery.ts";
import {
  type CheckResult,
  type Damage,
  type EffectFact,
  type FileCounts,
  type RollbackCandidate,
  type RollbackChoice,
  type RollbackFacts,
  type ScoreResult,
  type Trouble,
  chooseRollback,
  filesKey,
  findCause,
} from "./rollback.ts";
import type { RunState } from "./run.ts";
import { allCheckpoints } from "./store.ts";
import type { Diff, Workspace } from "./workspace.ts";

/** Number of newest checkpoints whose file changes are compared. Older changes do not matter. */
const COMPARED = 64;

/**
 * Reads the failure and chooses the checkpoint to roll back to. It changes nothing. Git objects are checked only for
 * the chosen checkpoint, because walking all trees would take minutes in a long run.
 */
export async function findRollback(
  adapters: CoreAdapters,
  params: { readonly run: string; readonly pastEffects: boolean },
): Promise<RollbackChoice> {
  let facts = await readFacts(adapters, params.run);
  // Comparing trees is the most expensive step, so it happens only when no other fact shows the cause.
  if (findCause(facts).kind === "unknown") facts = await withChanges(adapters, facts);
  for (;;) {
    const choice = chooseRollback(facts, params);
    const tree = facts.candidates.find(({ sequence }) => sequence === choice.chosen)?.tree ?? null;
    if (choice.chosen === null || tree === null || (await isHere(adapters, params.run, choice.chosen))) return choice;
    const damage: Damage = { kind: "damaged", problem: NOT_RESTORABLE };
    facts = { ...facts, candidates: facts.candidates.map((one) => (one.tree === tree ? { ...one, damage } : one)) };
  }
}

async function readFacts(adapters: CoreAdapters, run: string): Promise<RollbackFacts> {
  const summary = await adapters.store.getRun(run);
  const reader = new FactsReader();
  for await (const entry of adapters.store.readJournal({ run })) reader.read(entry);
  const known: KnownCheckpoint[] = [];
  for await (const checkpoint of allCheckpoints(adapters.store, run))
    known.push({ sequence: checkpoint.sequence, damage: await damageOf(adapters, checkpoint) });
  return reader.facts({ run, state: summary?.state ?? { kind: "active" }, known });
}

async function withChanges(adapters: CoreAdapters, facts: RollbackFacts): Promise<RollbackFacts> {
  const oldestFirst = facts.candidates.toSorted((a, b) => a.sequence - b.sequence);
  const first = Math.max(1, oldestFirst.length - COMPARED);
  const candidates: RollbackCandidate[] = [];
  for (const [at, one] of oldestFirst.entries()) {
    const changed = at < first ? null : await countChanges(adapters, oldestFirst[at - 1]?.tree, one.tree);
    candidates.push({ ...one, changed });
  }
  return { ...facts, candidates };
}

async function damageOf(adapters: CoreAdapters, checkpoint: CheckpointSummary): Promise<Damage | null> {
  const read = await readWhole({ ...adapters, workspaces: null }, checkpoint);
  if (read.kind === "whole") return null;
  return { kind: checkpoint.quarantined ? "quarantined" : "damaged", problem: read.problem };
}

async function isHere(adapters: CoreAdapters, run: string, sequence: number): Promise<boolean> {
  const { files } = (await adapters.store.getCheckpoint({ run, sequence })).planes;
  return files === null || adapters.workspaces === null || (await adapters.workspaces.has(files));
}

async function countChanges(
  adapters: Pick<CoreAdapters, "workspaces">,
  from: string | null | undefined,
  to: string | null,
): Promise<FileCounts | null> {
  if (from === undefined || from === null || to === null || adapters.workspaces === null) return null;
  const none = { added: 0, modified: 0, removed: 0 };
  if (from === to) return none;
  let diff: Diff;
  try {
    diff = await adapters.workspaces.diff({ from, to, format: "names" });
  } catch {
    // One of the trees is not in the repository. Its checkpoint is reported as damaged if it would be chosen.
    return null;
  }
  const counts = { ...none };
  for (const { status } of diff.files)
    counts[status === "added" ? "added" : status === "deleted" ? "removed" : "modified"] += 1;
  return counts;
}

/** What a user needs to know before choosing a checkpoint. */
export interface CheckpointPreview {
  readonly checkpoint: CheckpointSummary;
  /** File changes from the checkpoint to now. null: one side has no files, or its objects are missing. */
  readonly files: FileCounts | null;
  /** Effects done or started after it, each as `kind on target`, oldest first. */
  readonly effects: readonly string[];
}

/** Returns the newest checkpoint first. Reads only. */
export async function previewCheckpoints(
  adapters: CoreAdapters,
  params: { readonly run: string; readonly limit: number; readonly workspace: Workspace | undefined },
): Promise<readonly CheckpointPreview[]> {
  const { run, limit, workspace } = params;
  const checkpoints = await adapters.store.listCheckpoints({ run, limit });
  const effects: { readonly entry: number; readonly text: string }[] = [];
  for await (const { kind, entry, body } of adapters.store.readJournal({ run })) {
    const { kind: what, target } = body;
    if (kind === "effect.intended" && typeof what === "string" && typeof target === "string")
      effects.push({ entry, text: `${what} on ${target}` });
  }
  const now = (await workspace?.look(snapshotParams(adapters)))?.tree ?? null;
  const counted = new Map<string, FileCounts | null>();
  const previews: CheckpointPreview[] = [];
  for (const checkpoint of checkpoints) {
    const { tree } = checkpoint;
    if (tree !== null && !counted.has(tree)) counted.set(tree, await countChanges(adapters, tree, now));
    previews.push({
      checkpoint,
      files: tree === null ? null : (counted.get(tree) ?? null),
      effects: effects.filter(({ entry }) => entry > checkpoint.entry).map(({ text }) => text),
    });
  }
  return previews;
}

type ReadEntry = Pick<JournalEntry, "entry" | "kind" | "body">;

/** What the store knows about a checkpoint beyond the journal. */
interface KnownCheckpoint {
  readonly sequence: number;
  readonly damage: Damage | null;
}

/** A verdict that belongs to no checkpoint yet. It applies to the next checkpoint, unless a step changes the files first. */
interface Waiting {
  readonly entry: number;
  readonly stageAttempt: number | null;
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

/** Reads a journal from its beginning, entry by entry. Results may be long, so none is kept. */
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
  /** Start of the stage in which the run ended. */
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
        this.#judge(entry, eventVerdict({ stage, event, reason }), numberOf(body["score"]));
        return;
      }
      case "step.started":
        // The verdicts before this step apply to the checkpoint before it.
        if (body["files"] === true) {
          this.#settle(this.#checkpoints.at(-1));
          this.#running.add(textOf(body, "step"));
        }
        return;
      case "step.finished": {
        const step = textOf(body, "step");
        this.#running.delete(step);
        this.#judge(entry, stepVerdict(step, body["result"] ?? null), null);
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

  /** All verdicts, oldest first, also those on a line that a restore left: what the scores show. */
  history(): readonly CheckResult[] {
    this.#settle(this.#checkpoints.at(-1));
    return this.#checks;
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

  #judge({ entry, body }: ReadEntry, verdict: Verdict | null, score: number | null): void {
    const stageAttempt = numberOf(body["stageAttempt"]);
    if (verdict !== null || score !== null) this.#waiting.push({ entry, stageAttempt, verdict, score });
  }

  #settle(checkpoint: Seen | undefined): void {
    if (checkpoint === undefined) return;
    const { sequence } = checkpoint;
    const files = filesKey(checkpoint);
    for (const { entry, stageAttempt, verdict, score } of this.#waiting) {
      if (verdict !== null) this.#checks.push({ ...verdict, entry, sequence, files, stageAttempt });
      if (score !== null) this.#scores.push({ entry, sequence, files, score });
    }
    this.#waiting = [];
  }

  /** A position keeps its score until the next one. Only in runs without stages does each checkpoint have its own score. */
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

/**
 * Tracks which checkpoints are on the run's current line: the newest one and its ancestors. A restore of a whole checkpoint continues from that
 * one, so it leaves later ones behind, and its undo brings them back.
 */
class LiveLine {
  /** The checkpoint before each, from which the run came to it. */
  readonly #parents = new Map<number, number | undefined>();
  readonly #line = new Set<number>();
  #newest: number | undefined;
  /** On the line, but without its files: a restore of single paths replaced them at once. */
  readonly #replaced = new Set<number>();
  #pending: { readonly target: number; readonly whole: boolean } | null = null;
  /** Checkpoint of the files from before the restore in progress. */
  #before: number | null = null;

  read({ kind, body }: Pick<JournalEntry, "kind" | "body">): void {
    switch (kind) {
      case "checkpoint":
        if (typeof body["sequence"] !== "number") return;
        this.#add(body["sequence"]);
        if (body["trigger"] === "before_restore") this.#before = body["sequence"];
        return;
      case "restore.started": {
        const target = sequenceOf(body["target"]);
        this.#pending =
          target === null ? null : { target, whole: body["paths"] === null && body["only"] === undefined };
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
    return !this.#line.has(sequence) || this.#replaced.has(sequence);
  }

  #add(sequence: number): void {
    this.#parents.set(sequence, this.#newest);
    this.#line.add(sequence);
    this.#newest = sequence;
  }

  /** An undone restore finishes with another target: the one that it returned to. */
  #finish(target: number | null): void {
    const [pending, before] = [this.#pending, this.#before];
    this.#pending = null;
    this.#before = null;
    if (pending === null || pending.target !== target) return;
    if (pending.whole) this.#goBack(target);
    // A restore of single paths, or of files alone, does not change the run's position.
    else if (before !== null) this.#replaced.add(before);
  }

  #goBack(target: number): void {
    this.#newest = target;
    this.#replaced.delete(target);
    this.#line.clear();
    for (let at: number | undefined = target; at !== undefined; at = this.#parents.get(at)) this.#line.add(at);
  }
}

function sequenceOf(target: unknown): number | null {
  if (typeof target !== "string") return null;
  const sequence = Number(target.slice(target.lastIndexOf("@") + 1));
  return Number.isSafeInteger(sequence) ? sequence : null;
}

/** Collects external effects, and whether a run that goes back before one will find it again. */
class EffectNotes {
  readonly #effects = new Map<string, EffectFact>();
  readonly #lasting = new Set<string>();

  read({ entry, kind, body }: Pick<JournalEntry, "entry" | "kind" | "body">): void {
    const { key } = body;
    if (typeof key !== "string") return;
    const known = this.#effects.get(key);
    switch (kind) {
      case "effect.intended": {
        if (known !== undefined && known.unsafe !== OPEN) return;
        const { kind: what, target, detail } = body;
        if (typeof what !== "string" || typeof target !== "string") return;
        const lasts = isJsonObject(detail) && detail["rollback"] === "refuse";
        if (lasts) this.#lasting.add(key);
        this.#effects.set(key, { key, kind: what, target, entry, unsafe: OPEN });
        return;
      }
      case "effect.settled":
        if (known === undefined) return;
        // The target refused, and nothing changed there.
        if (body["outcome"] === "failed") this.#effects.delete(key);
        else this.#effects.set(key, { ...known, entry, unsafe: this.#lasting.has(key) ? LASTS : null });
        return;
      case "effect.undone":
        if (body["outcome"] === "undone") this.#effects.delete(key);
        return;
      default:
    }
  }

  list(): readonly EffectFact[] {
    return [...this.#effects.values()];
  }
}

const OPEN = "it is unknown whether it happened, so it could be done twice";
const LASTS = "it cannot be undone, and older files do not fit what it left";

const NONE: Trouble = { kind: "none" };

/** The newest failure that has not been fixed since. */
class TroubleNotes {
  #trouble: Trouble = NONE;
  /** Steps that are agent calls. A failure there concerns the call, not the files. */
  readonly #calls = new Set<string>();
  /** Target of the restore of a whole checkpoint that is in progress. */
  #target: Json | undefined;

  read({ kind, body }: Pick<JournalEntry, "kind" | "body">): void {
    switch (kind) {
      case "step.started":
        if (body["estimate"] !== null) this.#calls.add(textOf(body, "step"));
        return;
      case "step.finished":
        this.#finished(body);
        return;
      case "step.failed": {
        const reason = `Step ${textOf(body, "step")} failed: ${textOf(body, "reason")}`;
        const outside = this.#calls.has(textOf(body, "step")) || isOutside(reason);
        this.#trouble = { kind: outside ? "outside" : "failed", reason };
        return;
      }
      case "stage.ended": {
        const [stage, event, reason] = [textOf(body, "stage"), textOf(body, "event"), textOf(body, "reason")];
        const verdict = eventVerdict({ stage, event, reason });
        if (verdict !== null) this.#trouble = verdict.pass ? NONE : { kind: "failed", reason };
        return;
      }
      case "effect.unknown":
        this.#trouble = { kind: "outside", reason: `An effect has no clear outcome: ${textOf(body, "reason")}` };
        return;
      case "run.waiting":
        // A question to the user does not replace the failure that led to it.
        if (body["for"] !== "you" || this.#trouble.kind === "none")
          this.#trouble = { kind: "outside", reason: textOf(body, "reason") };
        return;
      case "run.paused":
        this.#trouble = { kind: "outside", reason: textOf(body, "reason") };
        return;
      case "effect.settled":
      case "run.continued":
        this.#recover();
        return;
      case "run.ended":
        if (body["outcome"] === "done") this.#trouble = NONE;
        else if (this.#trouble.kind !== "outside") this.#trouble = { kind: "failed", reason: textOf(body, "reason") };
        return;
      case "restore.started":
        this.#target = body["paths"] === null ? body["target"] : undefined;
        return;
      case "restore.finished":
        // The run itself restores files alone after a failed step, and a restore may have been undone. Neither counts here.
        if (this.#target !== undefined && body["target"] === this.#target) this.#trouble = NONE;
        return;
      case "run.reopened":
        this.#trouble = NONE;
        return;
      default:
    }
  }

  now(state: RunState): Trouble {
    return state.kind === "done" ? NONE : this.#trouble;
  }

  #finished(body: JsonObject): void {
    const result = body["result"] ?? null;
    const failure = agentFailure(result);
    if (failure !== null) {
      this.#trouble = { kind: "outside", reason: failure };
      return;
    }
    const verdict = stepVerdict(textOf(body, "step"), result);
    if (verdict !== null) this.#trouble = verdict.pass ? NONE : { kind: "failed", reason: verdict.reason };
    // A completed agent call proves that the provider works again.
    else if (isJsonObject(result) && result["outcome"] === "completed") this.#recover();
  }

  #recover(): void {
    if (this.#trouble.kind === "outside") this.#trouble = NONE;
  }
}

interface Verdict {
  readonly name: string;
  readonly pass: boolean;
  readonly reason: string;
}

/**
 * The verdict of a stage's end about the files. Only words that are a verdict in any workflow count: "review_fail" and
 * "passed" do, while "impl_not_done" means unfinished work.
 */
export function eventVerdict(params: {
  readonly stage: string;
  readonly event: string;
  readonly reason: string;
}): Verdict | null {
  const words = params.event.split(/[_.-]/);
  const at = words.findIndex((word) => FAILED.has(word) || PASSED.has(word));
  const word = words[at];
  if (word === undefined) return null;
  const name = words.slice(0, at).join("_");
  return { name: name === "" ? params.stage : name, pass: PASSED.has(word), reason: params.reason };
}

const FAILED: ReadonlySet<string> = new Set(["fail", "failed", "regressed", "red"]);
const PASSED: ReadonlySet<string> = new Set(["pass", "passed", "green"]);

/** The verdict of a finished step about the files: a command's exit, a parser's result, or a plain pass or fail. */
export function stepVerdict(step: string, result: Json): Verdict | null {
  if (isJsonArray(result)) return parsedVerdict(step, result);
  if (!isJsonObject(result)) return null;
  return commandVerdict(step, result) ?? plainVerdict(step, result);
}

/** Whether a step was an agent call, with an answer or without. */
export function isAgentResult(result: Json): boolean {
  return isJsonObject(result) && typeof result["outcome"] === "string" && "usage" in result;
}

/** Describes an agent call without an answer. It is never a verdict about the files, whatever the reason. */
export function agentFailure(result: Json): string | null {
  if (!isJsonObject(result) || result["outcome"] !== "failed" || !("usage" in result)) return null;
  const { cause, message } = result;
  const said = typeof message === "string" ? `: ${message}` : "";
  return `The agent failed (${typeof cause === "string" ? cause : "unknown cause"})${said}`;
}

/** "interrupted" and "not_started" are no verdict about the files. */
function commandVerdict(name: string, { kind, code }: JsonObject): Verdict | null {
  if (kind === "timed_out") return { name, pass: false, reason: `${name} took too long` };
  if (kind !== "exited" || code === undefined) return null;
  const pass = code === 0;
  return { name, pass, reason: pass ? `${name} passed` : `${name} failed with exit ${JSON.stringify(code)}` };
}

function plainVerdict(name: string, result: JsonObject): Verdict | null {
  const pass = result["pass"] ?? result["passed"];
  if (typeof pass !== "boolean") return null;
  const { reason } = result;
  return { name, pass, reason: typeof reason === "string" ? reason : `${name} ${pass ? "passed" : "failed"}` };
}

function parsedVerdict(name: string, results: readonly Json[]): Verdict | null {
  const kinds = results.map((one) => (isJsonObject(one) ? one["kind"] : null));
  const judged = kinds.filter((kind) => kind === "parsed" || kind === "failed");
  if (judged.length === 0 || !kinds.every((kind) => kind === "parsed" || kind === "failed" || kind === "skipped"))
    return null;
  const failed = judged.filter((kind) => kind === "failed").length;
  const reason =
    failed === 0 ? `${name} passed` : failed === 1 ? "1 file does not parse" : `${failed} files do not parse`;
  return { name, pass: failed === 0, reason };
}

/** True when the reason names an external cause. The text is the only source, because a failed step has no error code here. */
export function isOutside(reason: string): boolean {
  return OUTSIDE.test(reason);
}

const OUTSIDE =
  /rate.?limit|too many requests|quota|overload|\b(?:429|50[0234]|529)\b|ECONN|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ENOSPC|network|socket hang|timed out|unreachable|not reached|unauthori[sz]ed|not logged in|credit|billing|no space left/i;
