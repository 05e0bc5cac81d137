import { everyNth, isFullRun, sample } from "../faults/harness/seed.ts";
import type { Chance } from "../faults/harness/seed.ts";
import { familyOf } from "./crashing-adapters.ts";
import type { Kill } from "./sweep.ts";

/**
 * A full run takes all of them, or each third with HOLDFAST_EVERY=3. Otherwise one of the journal's and one of each of so many other
 * families, as chance will have it.
 */
export function choosePoints(chance: Chance, kills: readonly Kill[], others: number): readonly Kill[] {
  if (isFullRun()) return everyNth(kills);
  const families = Map.groupBy(kills, ({ point }) => familyOf(point));
  const chosen = [...(families.get("journal") ?? [])];
  families.delete("journal");
  const kinds = [...families.values()];
  const picks = [sample(chance, chosen, 1)];
  while (picks.length <= others && kinds.length > 0) {
    const [kind] = kinds.splice(chance.below(kinds.length), 1);
    picks.push(sample(chance, kind ?? [], 1));
  }
  return picks.flat();
}
