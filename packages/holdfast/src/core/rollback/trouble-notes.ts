import type { JournalEntry } from "../journal/journal.ts";
import { textOf } from "../journal/journal-field.ts";
import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../json.ts";
import type { RunState } from "../run/run.ts";
import type { Trouble } from "./facts.ts";
import { agentFailure, eventVerdict, isOutside, stepVerdict } from "./read-verdict.ts";

const NONE: Trouble = { kind: "none" };

/** The newest thing that went wrong and was not mended since. */
export class TroubleNotes {
  #trouble: Trouble = NONE;
  /** Steps that are calls of an agent: what fails there is the call, not the files. */
  readonly #calls = new Set<string>();
  /** Of a restore of a whole checkpoint that is under way. */
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
      case "run.parked":
        // A question to a person says nothing about what led to it.
        if (body["on"] !== "person" || this.#trouble.kind === "none")
          this.#trouble = { kind: "outside", reason: textOf(body, "reason") };
        return;
      case "effect.settled":
      case "run.unparked":
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
        // Files alone are put back by the run itself, after a step that failed; and a restore may have been taken back.
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
    // An agent that answers shows that its provider does.
    else if (isJsonObject(result) && result["outcome"] === "completed") this.#recover();
  }

  #recover(): void {
    if (this.#trouble.kind === "outside") this.#trouble = NONE;
  }
}
