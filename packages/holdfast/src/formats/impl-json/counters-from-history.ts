import type { Counters } from "../../core/position/counters.ts";
import type { ImplHistoryEntry } from "../../core/impl-values.ts";

/**
 * The format keeps no counters: whoever stops and resumes there starts every limit anew. Its history has them all but
 * one (how often nothing changed), so a run that goes on from it keeps its limits. Counted as the `impl` workflow counts.
 */
export function countersFromHistory(history: readonly ImplHistoryEntry[]): {
  readonly attempts: Counters;
  readonly streaks: Counters;
} {
  const attempts = { review: 0, simplify: 0, pr: 0, rebase: 0 };
  const streaks = { parse: 0, review: 0 };
  let best = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < history.length; index += 1) {
    const entry = history[index];
    if (entry === undefined) break;
    switch (entry.event) {
      case "impl_done":
        // The format notes an iteration as a success before its files are parsed.
        if (!isParseFailure(entry, history[index + 1])) streaks.parse = 0;
        break;
      case "parse_pass":
        streaks.parse = 0;
        break;
      case "parse_fail":
        streaks.parse += 1;
        break;
      case "review_pass":
        streaks.review = 0;
        break;
      case "review_fail":
        attempts.review += 1;
        streaks.review = entry.score !== null && entry.score > best ? 1 : streaks.review + 1;
        break;
      case "simp_fail":
        attempts.simplify += 1;
        break;
      case "pr_fail_fixable":
      case "pr_fail_need_rebase":
        attempts.pr += 1;
        break;
      case "rebase_ok":
        attempts.rebase += 1;
        break;
      default:
    }
    if (entry.score !== null && entry.score > best) best = entry.score;
  }
  return { attempts: counted(attempts), streaks: counted(streaks) };
}

function isParseFailure(entry: ImplHistoryEntry, next: ImplHistoryEntry | undefined): boolean {
  return next?.event === "parse_fail" && next.iteration === entry.iteration;
}

/** A counter at zero is not there. */
function counted(counters: Counters): Counters {
  return Object.fromEntries(Object.entries(counters).filter(([, count]) => count > 0));
}
