import type { JsonObject } from "../../core/json.ts";
import { DIMENSIONS } from "./options.ts";
import { outputFiles } from "./output-files.ts";
import { spelled } from "./review-verdict.ts";
import type { Review } from "./state.ts";

/** As `.tmp/review-iter-N.json` holds it; the names are those that readers of that file know. */
export function reviewReport(review: Review): JsonObject {
  const { scores, score, pass, findings, suggestions, iteration } = review;
  return {
    scores: scores === null ? null : Object.fromEntries(DIMENSIONS.map((one) => [spelled(one), scores[one]])),
    overall_score: score,
    pass,
    findings,
    suggestions,
    raw_output_path: outputFiles.reviewOutput(iteration),
  };
}
