import { checkCases } from "./forge-contract/checks.ts";
import type { ForgeCase } from "./forge-contract/harness.ts";
import { issueCases } from "./forge-contract/issues.ts";
import { mergeCases } from "./forge-contract/merges.ts";
import { pullCases } from "./forge-contract/pulls.ts";
import { reviewCases } from "./forge-contract/reviews.ts";

export type { ForgeCase, ForgeHarness } from "./forge-contract/harness.ts";

/** Every promise of the forge port, one case each, on node:assert alone: run them in any test runner against any forge. */
export const forgeContract: readonly ForgeCase[] = [
  ...issueCases,
  ...pullCases,
  ...mergeCases,
  ...checkCases,
  ...reviewCases,
];
