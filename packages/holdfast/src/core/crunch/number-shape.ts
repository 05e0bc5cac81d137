import type { Shape } from "../shape.ts";

/** A number that is not below `least` and not above `most`. */
export function within(least: number, most: number): Shape<number> {
  return (value) =>
    typeof value === "number" && value >= least && value <= most
      ? null
      : { path: "", expected: `a number from ${least} to ${most}`, actual: value };
}
