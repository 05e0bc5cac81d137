import type { Finding } from "../../core/resume/finding.ts";
import type { Store } from "../../ports/store.ts";
import { journalDamage } from "./journal-damage.ts";

/**
 * Is the run's journal what was written? Nothing else would tell whoever resumes: a run goes by its newest checkpoint and the few entries behind it, and an
 * entry that was altered reads like any other.
 */
export async function observeJournal(store: Store, run: string): Promise<readonly Finding[]> {
  const damage = await journalDamage(store, run);
  const [first, ...more] = damage;
  if (first === undefined) return [];
  const summary = `The journal of run ${run} is damaged: ${first}${more.length === 0 ? "" : ` (and ${more.length} more)`}`;
  return [{ kind: "journal_damaged", summary, expected: null, actual: damage.slice(0, MOST_TOLD) }];
}

/** They are kept with the run once somebody has accepted them. */
const MOST_TOLD = 20;
