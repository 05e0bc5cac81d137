// Chooses a sample of a long table of test cases by a seed.

import { randomInt } from "node:crypto";
import { sha256 } from "@holdfast/core/json";

/** A case of a table. Its name is unique in the table: the seed chooses by it. */
type Row = { readonly name: string } | readonly [name: string, ...rest: unknown[]];

/**
 * Some cases of a long table, chosen by HOLDFAST_SEED (else at random), so that all run over time; all of them with HOLDFAST_FULL=1. Suites that
 * share a table name themselves, so that each gets other cases.
 */
export function sampleBySeed<const T extends Row>(table: readonly T[], count: number, suite = ""): readonly T[] {
  if (process.env["HOLDFAST_FULL"] === "1") return table;
  const order = new Map(table.map((row) => [row, sha256(`${SEED}/${suite}${"name" in row ? row.name : row[0]}`)]));
  return table.toSorted((one, other) => ((order.get(one) ?? "") < (order.get(other) ?? "") ? -1 : 1)).slice(0, count);
}

export const SEED = process.env["HOLDFAST_SEED"] ?? String(randomInt(2 ** 31));
