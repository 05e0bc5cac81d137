import { expect, test } from "vitest";
import { costKnown, spentText } from "./spent-text.ts";

const spent = { tokens: 1200, microUsd: 0, milliseconds: 0 };

test("what nobody knows the cost of is not shown as nothing", () => {
  expect(spentText(spent)).toBe("1200 tokens");
  expect(spentText({ ...spent, unpriced: 2 })).toBe("1200 tokens, cost unknown");
  expect(spentText({ ...spent, microUsd: 1_250_000, unpriced: 1 })).toBe(
    "1200 tokens, $1.25 and 1 call of unknown cost",
  );
  const limit = { tokens: null, microUsd: 5_000_000, milliseconds: null };
  expect(spentText({ ...spent, unpriced: 2 }, limit)).toBe("1200 tokens, cost unknown of $5.00");
  expect(spentText(spent, limit)).toBe("1200 tokens, $0.00 of $5.00");
});

test("in JSON it is null", () => {
  expect(costKnown(spent).microUsd).toBe(0);
  expect(costKnown({ ...spent, unpriced: 1 }).microUsd).toBeNull();
  expect(costKnown({ ...spent, microUsd: 5, unpriced: 1 }).microUsd).toBe(5);
});
