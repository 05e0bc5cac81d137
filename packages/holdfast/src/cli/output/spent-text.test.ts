import { expect, test } from "vitest";
import { spentKnown, spentText } from "./spent-text.ts";

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
  expect(spentKnown(spent).microUsd).toBe(0);
  expect(spentKnown({ ...spent, unpriced: 1 }).microUsd).toBeNull();
  expect(spentKnown({ ...spent, microUsd: 5, unpriced: 1 }).microUsd).toBe(5);
});

test("tokens that no agent reported are unknown, not zero", () => {
  const none = { tokens: 0, microUsd: 0, milliseconds: 3000 };
  expect(spentText({ ...none, uncounted: 1, unpriced: 1 })).toBe("tokens unknown, cost unknown, 3 s");
  expect(spentText({ ...none, tokens: 500, uncounted: 2 })).toBe("500 tokens and 2 calls of unknown tokens, 3 s");
  expect(spentText({ ...none, uncounted: 1 }, { tokens: 900, microUsd: null, milliseconds: null })).toBe(
    "tokens unknown of 900 tokens, 3 s",
  );
  expect(spentKnown({ ...none, uncounted: 1 }).tokens).toBeNull();
  expect(spentKnown({ ...none, tokens: 5, uncounted: 1 }).tokens).toBe(5);
});
