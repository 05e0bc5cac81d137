/** Folds out of a journal what the page says about a run in words: the last failure, notes, and what can still be undone. Pure. */
import { agentFailure, eventVerdict, isAgentResult, stepVerdict } from "@holdfast/core/find-rollback";
import { type JournalEntry, numberOf, textOf } from "@holdfast/core/journal";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { sequenceOf } from "./timeline.ts";

type Entry = Pick<JournalEntry, "entry" | "kind" | "at" | "body">;

/** The last check or agent call that failed and has not succeeded since. */
export interface Failure {
  readonly name: string;
  readonly why: string;
  /** The last lines that the failing command printed. */
  readonly tail: readonly string[];
}

/** Something that the user did and that no later work builds on. */
export type Undoable =
  | { readonly kind: "restore"; readonly text: string; readonly target: number; readonly before: number }
  | { readonly kind: "tag"; readonly text: string; readonly name: string; readonly sequence: number };

const TAIL_LINES = 20;
const MAX_LINE = 500;
const MAX_NOTES = 50;

/** The first files of a run. */
export interface Start {
  readonly sequence: number;
  readonly tree: string;
}

export class StoryReader {
  #failure: Failure | null = null;
  /** The last agent call, if it failed. Then a check that fails after it only says that nothing was done. */
  #call: Failure | null = null;
  /** The check of the files that a stage found, before any change. It counts only while that stage is open. */
  #before: Failure | null = null;
  #notes: { readonly at: string; readonly text: string }[] = [];
  #undo: Undoable[] = [];
  #saved: number | null = null;
  #restored: { readonly target: number | null; readonly from: string | null } | null = null;
  #start: Start | null = null;
  readonly #stages = new Map<number, string>();

  get failure(): Failure | null {
    return this.#before ?? this.#call ?? this.#failure;
  }

  /** `impl #2` of a stage attempt; null: the journal has no such attempt. */
  stageOf(stageAttempt: number): string | null {
    return this.#stages.get(stageAttempt) ?? null;
  }

  /** null: no checkpoint has files. */
  get start(): Start | null {
    return this.#start;
  }

  get notes(): readonly { readonly at: string; readonly text: string }[] {
    return this.#notes;
  }

  /** What undo would undo next. It walks back: an undo is never undone by a second one. */
  get undoable(): Undoable | null {
    return this.#undo.at(-1) ?? null;
  }

  read({ kind, at, body }: Entry): void {
    switch (kind) {
      case "step.finished":
        this.#undo = [];
        return this.#judgeStep(textOf(body, "step"), body);
      case "step.failed":
        this.#undo = [];
        this.#failure = { name: textOf(body, "step"), why: textOf(body, "reason"), tail: [] };
        return;
      case "stage.entered": {
        this.#undo = [];
        const iteration = numberOf(body, "iteration");
        const word = `${textOf(body, "stage")}${iteration > 0 ? ` #${iteration}` : ""}`;
        this.#stages.set(numberOf(body, "stageAttempt"), word);
        return;
      }
      case "stage.ended":
        return this.#judgeStage(body);
      case "note":
        return this.#note(at, textOf(body, "text"));
      case "tag.added":
        return this.#tagged(textOf(body, "name"), numberOf(body, "sequence"));
      case "tag.removed":
        this.#undo = this.#undo.filter((one) => one.kind !== "tag" || one.name !== textOf(body, "name"));
        return;
      case "restore.finished": {
        const from = body["cherryPick"];
        this.#restored = { target: sequenceOf(textOf(body, "target")), from: typeof from === "string" ? from : null };
        return;
      }
      case "checkpoint":
        return this.#checkpoint(body);
      default:
    }
  }

  #note(at: string, text: string): void {
    if (text === "") return;
    this.#notes.push({ at, text });
    if (this.#notes.length > MAX_NOTES) this.#notes = this.#notes.slice(-MAX_NOTES);
  }

  #judgeStep(step: string, body: JsonObject): void {
    const result = body["result"] ?? null;
    const failed = agentFailure(result);
    const verdict = stepVerdict(step, result);
    const ran = isJsonObject(result) ? (result["ran"] ?? null) : null;
    const base = stepVerdict(step, ran);
    if (base !== null) this.#before = base.pass ? null : { name: step, why: base.reason, tail: tailOf(ran) };
    if (isAgentResult(result)) this.#call = failed === null ? null : { name: step, why: failed, tail: [] };
    else if (verdict?.pass === false) this.#failure = { name: verdict.name, why: verdict.reason, tail: tailOf(result) };
    else if (verdict?.pass === true && this.#failure?.name === verdict.name) this.#failure = null;
  }

  #judgeStage(body: JsonObject): void {
    const [stage, event, reason] = [textOf(body, "stage"), textOf(body, "event"), textOf(body, "reason")];
    const verdict = eventVerdict({ stage, event, reason });
    this.#before = null;
    // The output of the command that failed says more than the end of its stage.
    if (verdict?.pass === false && (this.#failure?.tail.length ?? 0) === 0)
      this.#failure = { name: verdict.name, why: reason, tail: [] };
    else if (verdict?.pass === true) this.#failure = this.#call = null;
  }

  #tagged(name: string, sequence: number): void {
    this.#undo.push({ kind: "tag", text: `Tagged @${sequence} as ${name}`, name, sequence });
  }

  #checkpoint(body: JsonObject): void {
    const trigger = textOf(body, "trigger");
    const sequence = numberOf(body, "sequence");
    const tree = textOf(body, "tree");
    if (tree !== "") this.#start ??= { sequence, tree };
    if (trigger === "before_restore") this.#saved = sequence;
    if (trigger !== "restore" || this.#saved === null) return;
    const [before, restored] = [this.#saved, this.#restored];
    this.#saved = null;
    const last = this.#undo.at(-1);
    if (last?.kind === "restore" && restored?.from === null && restored.target === last.before) {
      this.#undo.pop();
      return;
    }
    const target = restored?.target ?? sequence;
    const what =
      restored?.from === null || restored === null ? `Restored to @${target}` : `Copied files from ${restored.from}`;
    this.#undo.push({ kind: "restore", text: `${what}; saved before as @${before}`, target, before });
  }
}

/** The last lines that a command printed, or the files that do not parse. */
function tailOf(result: Json): readonly string[] {
  const output = isJsonArray(result) ? result.map(parseError).join("") : isJsonObject(result) ? result["output"] : "";
  if (typeof output !== "string" || output === "") return [];
  const lines = output.trimEnd().split("\n").slice(-TAIL_LINES);
  return lines.map((line) => (line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line));
}

function parseError(one: Json): string {
  if (!isJsonObject(one) || one["kind"] !== "failed") return "";
  const at = typeof one["line"] === "number" ? `:${one["line"]}` : "";
  return `${textOf(one, "path")}${at}: ${textOf(one, "message")}\n`;
}
