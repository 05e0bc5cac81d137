import { expect, test } from "vitest";
import { newBudget } from "../../core/position/budget.ts";
import { giveMoreFlags } from "./give-more.ts";

const budget = newBudget({ milliseconds: 5000, tokens: 100 });

test("what is used up is what is raised", () => {
  expect(giveMoreFlags({ ...budget, spent: { tokens: 3, microUsd: 9, milliseconds: 6000 } })).toBe(
    "--max-total-time TIME",
  );
  expect(giveMoreFlags({ ...budget, spent: { tokens: 100, microUsd: 0, milliseconds: 6000 } })).toBe(
    "--max-tokens N --max-total-time TIME",
  );
});

test("before anything is, all limits: the next call would go beyond one of them", () => {
  expect(giveMoreFlags(budget)).toBe("--max-tokens N --max-total-time TIME");
});
