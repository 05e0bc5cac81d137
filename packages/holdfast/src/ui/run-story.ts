/** Folds out of a journal what the page says about a run in words: the last failure, notes, and what can still be undone. Pure. */
import { agentFailure, eventVerdict, stepVerdict } from "@holdfast/core/find-rollback";
import { type JournalEntry, numberOf, textOf } from "@holdfast/core/journal";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
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

export class StoryReader {
  #failure: Failure | null = null;
  #notes: { readonly at: string; readonly text: string }[] = [];
  #undo: Undoable[] = [];
  #before: number | null = null;
  #restored: { readonly target: number | null; readonly from: string | null } | null = null;

  get failure(): Failure | null {
    return this.#failure;
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
      case "stage.entered":
        this.#undo = [];
        return;
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
    if (failed !== null) this.#failure = { name: step, why: failed, tail: [] };
    else if (verdict?.pass === false) this.#failure = { name: verdict.name, why: verdict.reason, tail: tailOf(result) };
    else if (verdict?.pass === true && this.#failure?.name === verdict.name) this.#failure = null;
  }

  #judgeStage(body: JsonObject): void {
    const [stage, event, reason] = [textOf(body, "stage"), textOf(body, "event"), textOf(body, "reason")];
    const verdict = eventVerdict({ stage, event, reason });
    // The output of the command that failed says more than the end of its stage.
    if (verdict?.pass === false && (this.#failure?.tail.length ?? 0) === 0)
      this.#failure = { name: verdict.name, why: reason, tail: [] };
    else if (verdict?.pass === true) this.#failure = null;
  }

  #tagged(name: string, sequence: number): void {
    this.#undo.push({ kind: "tag", text: `Tagged @${sequence} as ${name}`, name, sequence });
  }

  #checkpoint(body: JsonObject): void {
    const trigger = textOf(body, "trigger");
    const sequence = numberOf(body, "sequence");
    if (trigger === "before_restore") this.#before = sequence;
    if (trigger !== "restore" || this.#before === null) return;
    const [before, restored] = [this.#before, this.#restored];
    this.#before = null;
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

function tailOf(result: Json): readonly string[] {
  const output = isJsonObject(result) ? result["output"] : undefined;
  if (typeof output !== "string") return [];
  const lines = output.trimEnd().split("\n").slice(-TAIL_LINES);
  return lines.map((line) => (line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line));
}
