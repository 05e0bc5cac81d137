import { graphMoveText } from "../../core/graph/graph-words.ts";
import type { JournalEntry } from "../../core/journal/journal.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";

/** What a journal says about where a run stands, for people who look while it works, after it died, or next year. */
export interface JournalPicture {
  readonly stage: string | null;
  readonly iteration: number;
  readonly since: string | null;
  readonly scores: readonly { readonly iteration: number; readonly score: number }[];
  /** Begun and neither finished nor failed. */
  readonly step: string | null;
  readonly last: { readonly at: string; readonly text: string } | null;
  /** The question that the run waits for an answer to. */
  readonly question: Question | null;
  readonly endReason: string | null;
  /** What agents were denied, each once. */
  readonly denied: readonly string[];
}

export interface Question {
  readonly name: string;
  readonly question: string;
  readonly options: readonly string[];
}

export const NO_PICTURE: JournalPicture = {
  stage: null,
  iteration: 0,
  since: null,
  scores: [],
  step: null,
  last: null,
  question: null,
  endReason: null,
  denied: [],
};

/** Bodies are read with care: an entry of an older or newer Holdfast may lack a field, and looking must not fail. */
export function foldEntry(picture: JournalPicture, entry: Pick<JournalEntry, "kind" | "at" | "body">): JournalPicture {
  const { kind, at, body } = entry;
  const last = (text: string) => ({ at, text });
  switch (kind) {
    case "stage.entered":
      return {
        ...picture,
        stage: textOf(body["stage"]) ?? picture.stage,
        iteration: numberOf(body["iteration"]) ?? picture.iteration,
        since: at,
        step: null,
      };
    case "stage.ended": {
      const score = numberOf(body["score"]);
      const scores = score === null ? picture.scores : [...picture.scores, { iteration: picture.iteration, score }];
      const reason = textOf(body["reason"]) ?? "";
      const what = `${textOf(body["stage"]) ?? picture.stage ?? "stage"} ended with ${textOf(body["event"]) ?? "?"}`;
      return { ...picture, scores, step: null, last: last(reason === "" ? what : `${what}: ${reason}`) };
    }
    case "step.started": {
      const step = textOf(body["step"]);
      return { ...picture, step, last: last(`${step ?? "a step"} began`) };
    }
    case "step.finished": {
      const step = textOf(body["step"]);
      return {
        ...picture,
        step: step === picture.step ? null : picture.step,
        last: last(`${step ?? "a step"} finished`),
        denied: withDenial(picture.denied, body["result"] ?? null),
      };
    }
    case "graph.moved": {
      const events = Array.isArray(body["events"]) ? body["events"] : [];
      return { ...picture, last: last(events.map(graphMoveText).join(", ")) };
    }
    case "step.failed": {
      const step = textOf(body["step"]);
      const why = textOf(body["reason"]) ?? "no reason given";
      return {
        ...picture,
        step: step === picture.step ? null : picture.step,
        last: last(`${step ?? "a step"} failed: ${why}`),
      };
    }
    case "effect.settled":
      return { ...picture, last: last(`${effectOf(body)} ${textOf(body["outcome"]) ?? "settled"}`) };
    case "effect.unknown":
      return { ...picture, last: last(`${effectOf(body)}: not known whether it happened`) };
    case "note":
      return { ...picture, last: last(textOf(body["text"]) ?? "") };
    case "run.parked":
      return {
        ...picture,
        step: null,
        question: questionOf(body["decision"]),
        last: last(textOf(body["reason"]) ?? "parked"),
      };
    case "run.unparked":
    case "run.reopened":
      return { ...picture, question: null, endReason: null };
    case "run.ended":
      return { ...picture, step: null, question: null, endReason: textOf(body["reason"]) };
    default:
      return picture;
  }
}

function effectOf(body: JsonObject): string {
  return (textOf(body["key"]) ?? "an effect").split("/").slice(1).join("/");
}

function questionOf(value: Json | undefined): Question | null {
  if (typeof value !== "object" || value === null || Array.isArray(value) || !isObject(value)) return null;
  const name = textOf(value["name"]);
  const question = textOf(value["question"]);
  const options = Array.isArray(value["options"])
    ? value["options"].filter((option) => typeof option === "string")
    : [];
  return name === null || question === null ? null : { name, question, options };
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: Json | undefined): string | null {
  return typeof value === "string" ? value : null;
}

function numberOf(value: Json | undefined): number | null {
  return typeof value === "number" ? value : null;
}

function withDenial(denied: JournalPicture["denied"], result: Json): JournalPicture["denied"] {
  if (!isJsonObject(result) || result["cause"] !== "permission_denied") return denied;
  const message = textOf(result["message"]);
  return message === null || denied.includes(message) ? denied : [...denied, message];
}
