import { expect, test } from "vitest";
import type { ImportPlan } from "../../interop/import.ts";
import { importText } from "./format-import.ts";

test("for files that a run of this store wrote, the error names the run and the ways to create a second one", () => {
  const plan: ImportPlan = {
    run: "ralph-x",
    format: "loop-json",
    workflow: "ralph",
    work: { kind: "none" },
    labels: {},
    worktree: null,
    checkpoints: [],
    remarks: [],
    broken: [],
    before: "own",
  };
  const page = { width: 80, color: false, terminal: false, now: 0, offset: () => 0, program: "holdfast" };
  const text =
    "Nothing to do: ralph-x of this store wrote these files (no checkpoints of loop-json).\n" +
    "For a second run: holdfast fork ralph-x@latest, or name one with --run.\n";
  expect(importText(plan, "same", page)).toBe(text);
  expect(importText(plan, "plan", page)).toBe(text);
});
