// Chooses a sample of a long table of test cases by a seed.

import { randomInt } from "node:crypto";
import { sha256 } from "@holdfast/core/json";

/** Some cases of a long table, chosen by HOLDFAST_SEED (else at random), so that all run over time; all of them with HOLDFAST_FULL=1. */
export function sampleBySeed<T extends { readonly name: string }>(table: readonly T[], count: number): readonly T[] {
  if (process.env["HOLDFAST_FULL"] === "1") return table;
  const order = new Map(table.map(({ name }) => [name, sha256(`${SEED}/${name}`)]));
  return table
    .toSorted((one, other) => ((order.get(one.name) ?? "") < (order.get(other.name) ?? "") ? -1 : 1))
    .slice(0, count);
}

export const SEED = process.env["HOLDFAST_SEED"] ?? String(randomInt(2 ** 31));
