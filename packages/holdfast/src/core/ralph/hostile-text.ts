import fc from "fast-check";

/** Any units at all: control characters, halves of pairs, what no keyboard has. */
export function hostileText(most: number): fc.Arbitrary<string> {
  const unit = fc.oneof(fc.integer({ min: 0, max: 127 }), fc.integer({ min: 0, max: 0xffff }));
  return fc.array(unit, { maxLength: most }).map((units) => String.fromCharCode(...units));
}
