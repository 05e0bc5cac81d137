import { spendTime } from "../../core/position/budget.ts";
import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { foldProgress } from "../../core/journal/progress-fold.ts";
import type { Progress } from "../../core/journal/progress-fold.ts";
import { workingTime } from "../../core/journal/working-time.ts";
import type { Store } from "../../ports/store.ts";

/** Where a run stands: its checkpoint and what the journal says since. Reads only. */
export async function readStanding(store: Store, newest: Checkpoint): Promise<Progress> {
  const since = await Array.fromAsync(store.readJournal({ run: newest.run, after: newest.entry - 1 }));
  const { position } = newest.planes;
  return foldProgress({
    position: { ...position, budget: spendTime(position.budget, workingTime(since)) },
    sequence: newest.sequence,
    entries: since.filter(({ entry }) => entry > newest.entry),
  });
}
