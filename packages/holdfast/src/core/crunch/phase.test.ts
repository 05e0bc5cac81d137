import { expect, test } from "vitest";
import { isAtOrPast, mayMove, parsePhase, PHASE_MOVES, PHASES } from "./phase.ts";

test("the table of moves, row by row", () => {
  const rows = PHASES.map((phase) => `${phase} → ${PHASE_MOVES[phase].join(", ")}`);
  expect(rows).toEqual([
    "input → backlog",
    "backlog → enrich, ready, done",
    "enrich → ready, done",
    "ready → implementing",
    "implementing → e2e",
    "e2e → docs, implementing",
    "docs → ready-to-merge",
    "ready-to-merge → done",
    "done → ",
  ]);
  expect(mayMove("e2e", "implementing")).toBe(true);
  expect(mayMove("implementing", "docs")).toBe(false);
});

test("validation is read as e2e, and nothing writes it", () => {
  expect(parsePhase("validation")).toBe("e2e");
  expect(parsePhase(" Validation ")).toBe("e2e");
  expect(PHASES).not.toContain("validation");
  expect(parsePhase("review")).toBeNull();
  expect(parsePhase("__proto__")).toBeNull();
});

test("a run stops where it was told to, or where it is beyond", () => {
  expect(isAtOrPast("ready", "ready")).toBe(true);
  expect(isAtOrPast("docs", "ready")).toBe(true);
  expect(isAtOrPast("enrich", "ready")).toBe(false);
});
