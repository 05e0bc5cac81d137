import { isJsonArray, isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { objectsIn } from "../../core/objects-in.ts";
import { DIMENSIONS } from "./options.ts";
import type { Dimension } from "./options.ts";
import { coerceScore } from "./review-score.ts";
import type { Scores } from "./state.ts";

export type ReviewReply =
  | {
      readonly kind: "read";
      readonly scores: Scores;
      readonly score: number;
      readonly findings: readonly string[];
      readonly suggestions: readonly string[];
    }
  /** Not a score of 50 and not a zero: the reviewer is asked again. */
  | { readonly kind: "unreadable"; readonly why: string };

/**
 * Reads what a reviewer wrote: every JSON object in it, alone, fenced or inside prose. The last one with all four scores counts: a
 * reviewer that first repeats the form it was given, or thinks aloud, concludes at the end.
 */
export function parseReviewReply(text: string): ReviewReply {
  let why = "there is no JSON object in it";
  for (const object of objectsIn(text).toReversed()) {
    const scores = readScores(object);
    if (scores.kind === "read") {
      return {
        kind: "read",
        scores: scores.scores,
        score: overall(object, scores.scores),
        findings: readLines(object["findings"]),
        suggestions: readLines(object["suggestions"]),
      };
    }
    why = `it has no usable score for ${scores.missing.join(", ")}`;
  }
  return { kind: "unreadable", why };
}

function readScores(
  object: JsonObject,
):
  | { readonly kind: "read"; readonly scores: Scores }
  | { readonly kind: "missing"; readonly missing: readonly Dimension[] } {
  const source = isJsonObject(object["scores"]) ? object["scores"] : object;
  const byName = new Map(Object.entries(source).map(([name, value]) => [bareName(name), value]));
  const found = new Map<Dimension, number>();
  for (const dimension of DIMENSIONS) {
    const score = coerceScore(byName.get(bareName(dimension)));
    if (score !== null) found.set(dimension, score);
  }
  const [faithful, style, docs, cornerCases] = DIMENSIONS.map((dimension) => found.get(dimension));
  if (faithful === undefined || style === undefined || docs === undefined || cornerCases === undefined)
    return { kind: "missing", missing: DIMENSIONS.filter((dimension) => !found.has(dimension)) };
  return { kind: "read", scores: { faithful, style, docs, cornerCases } };
}

/** "corner_cases", "cornerCases" and "Corner cases" are one name. */
function bareName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z]/g, "");
}

function overall(object: JsonObject, scores: Scores): number {
  for (const name of ["overall_score", "overall", "score"]) {
    const score = coerceScore(object[name]);
    if (score !== null) return score;
  }
  const all = DIMENSIONS.map((dimension) => scores[dimension]);
  return Math.round(all.reduce((sum, one) => sum + one, 0) / all.length);
}

/** A list, or a text with one remark a line. */
function readLines(value: Json | undefined): readonly string[] {
  const items = typeof value === "string" ? value.split(/\r?\n/) : isJsonArray(value) ? value : [];
  return items
    .map((item) => (typeof item === "string" ? item : JSON.stringify(item)))
    .map((item) => item.replace(/^\s*[-*]\s+/, "").trim())
    .filter((item) => item !== "");
}
