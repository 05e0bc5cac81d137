import { bump, counterOf, reset } from "../../core/counters.ts";
import type { OwnEntry } from "./history-entries.ts";

export interface Counters {
  readonly attempts: Readonly<Record<string, number>>;
  readonly streaks: Readonly<Record<string, number>>;
}

/**
 * The format keeps no counters: whoever stops and resumes there starts every limit anew. Its history has them all but
 * one (how often nothing changed), so a run that goes on from it keeps its limits. Counted as the `impl` workflow counts.
 */
export function countersFromHistory(history: readonly OwnEntry[]): Counters {
  let attempts: Counters["attempts"] = {};
  let streaks: Counters["streaks"] = {};
  let best = Number.NEGATIVE_INFINITY;
  history.forEach((entry, index) => {
    switch (entry.event) {
      case "impl_done":
        // The format notes an iteration as a success before its files are parsed.
        if (!isParseFailure(entry, history[index + 1])) streaks = cleared(streaks, "parse");
        break;
      case "parse_pass":
        streaks = cleared(streaks, "parse");
        break;
      case "parse_fail":
        streaks = bump(streaks, "parse");
        break;
      case "review_pass":
        streaks = cleared(streaks, "review");
        break;
      case "review_fail":
        attempts = bump(attempts, "review");
        streaks = bump(entry.score !== null && entry.score > best ? cleared(streaks, "review") : streaks, "review");
        break;
      case "simp_fail":
        attempts = bump(attempts, "simplify");
        break;
      case "pr_fail_fixable":
      case "pr_fail_need_rebase":
        attempts = bump(attempts, "pr");
        break;
      case "rebase_ok":
        attempts = bump(attempts, "rebase");
        break;
      default:
    }
    if (entry.score !== null && entry.score > best) best = entry.score;
  });
  return { attempts, streaks };
}

function isParseFailure(entry: OwnEntry, next: OwnEntry | undefined): boolean {
  return next?.event === "parse_fail" && next.iteration === entry.iteration;
}

/** Most entries have nothing to clear, and there may be many entries. */
function cleared(streaks: Counters["streaks"], name: string): Counters["streaks"] {
  return counterOf(streaks, name) === 0 ? streaks : reset(streaks, name);
}
