import type { Json, JsonArray } from "../json.ts";
import { sameAs } from "./same-as.ts";

/** Comparisons that may still be spent on one array, so that finding shifts stays linear in its length. */
export interface ShiftBudget {
  left: number;
}

/** What became of the element of the base that a live element was compared with. */
type Shift =
  /** The live element is this one of the base. */
  | { readonly kind: "moved"; readonly partner: number }
  /** Live elements up to `until` (exclusive) are new; then the base goes on. */
  | { readonly kind: "inserted"; readonly until: number }
  | { readonly kind: "replaced" };

export const REPLACED: Shift = { kind: "replaced" };

/** `live[at]` differs from `base[partner]`, or is one of those put in. */
export function findShift(params: {
  readonly live: readonly unknown[];
  readonly at: number;
  readonly base: JsonArray;
  readonly partner: number;
  readonly isInserted: boolean;
  readonly budget: ShiftBudget;
}): Shift {
  const { live, at, base, partner, budget } = params;
  if (!isWorthFinding(live[at])) return REPLACED;
  // Whatever was made of the elements before: one that stands where it stood is the same one.
  if (at !== partner && same(live[at], base[at])) return { kind: "moved", partner: at };
  if (params.isInserted || partner >= base.length) return REPLACED;
  if (at + 1 < live.length && same(live[at + 1], base[partner + 1])) return REPLACED;
  const reach = Math.max(live.length - at, base.length - partner);
  for (let step = 1; step < reach && budget.left > 0; step += 1) {
    budget.left -= 2;
    if (same(live[at], base[partner + step])) return { kind: "moved", partner: partner + step };
    if (at + step < live.length && same(live[at + step], base[partner])) return { kind: "inserted", until: at + step };
  }
  return REPLACED;
}

/** Short scalars are shared by value anyway, and equal ones are found everywhere. */
function isWorthFinding(value: unknown): boolean {
  return (typeof value === "object" && value !== null) || (typeof value === "string" && value.length > 64);
}

function same(live: unknown, base: Json | undefined): boolean {
  return base !== undefined && sameAs(live, base);
}
