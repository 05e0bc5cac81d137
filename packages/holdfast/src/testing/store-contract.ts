import { checkpointCases } from "./store-contract/checkpoints.ts";
import { commitCases } from "./store-contract/commits.ts";
import { effectCases } from "./store-contract/effects.ts";
import type { StoreCase } from "./store-contract/harness.ts";
import { journalCases } from "./store-contract/journals.ts";
import { leaseCases } from "./store-contract/leases.ts";
import { runCases } from "./store-contract/runs.ts";
import { tagAndDropCases } from "./store-contract/tags-and-drops.ts";
import { upkeepCases } from "./store-contract/upkeep.ts";
import { watchCases } from "./store-contract/watches.ts";

export { createSetClock } from "./store-contract/harness.ts";
export type { OwnerIdentity, SetClock, StoreCase, StoreHarness } from "./store-contract/harness.ts";

/** Every promise of the store port, one case each, on node:assert alone: run them in any test runner against any store. */
export const storeContract: readonly StoreCase[] = [
  ...runCases,
  ...leaseCases,
  ...commitCases,
  ...checkpointCases,
  ...journalCases,
  ...watchCases,
  ...effectCases,
  ...tagAndDropCases,
  ...upkeepCases,
];
