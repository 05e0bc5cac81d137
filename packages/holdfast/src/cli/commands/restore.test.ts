import { expect, test } from "vitest";
import type { RunRestorePlan } from "@holdfast/core/restore";
import type { RestorePlan } from "@holdfast/core/workspace";
import { PAGE, sampleSummary } from "@holdfast/test-support/sample-run";
import { planText, reportText } from "./restore.ts";

const files: RestorePlan = {
  root: "/home/ann/src/shop",
  fromTree: "a",
  targetTree: "b",
  toTree: "b",
  paths: null,
  changes: [
    { kind: "write", path: "src/auth/login.ts", mode: "100644" },
    { kind: "create", path: "src/\x1b[2Jnew.ts", mode: "100644" },
    { kind: "remove", path: "src/tmp.ts" },
    { kind: "mode", path: "run.sh", mode: "100755" },
  ],
  untouched: [{ path: "data/model.bin", reason: "too_large", bytes: 31_000_000 }],
  blocked: ["build/out.js"],
  exposed: [],
};
const plan = (changes: Partial<RestorePlan> | null): RunRestorePlan => ({
  run: "fix-login",
  target: sampleSummary({ name: "before the refactor" }),
  files: changes === null ? null : { ...files, ...changes },
  paths: null,
  only: null,
});

test("the plan names everything that it would touch", () => {
  expect(planText({ plan: plan({}), lost: [], toolchain: [] }, PAGE)).toMatchInlineSnapshot(`
    "Restore fix-login@7 "before the refactor", taken 5 min ago
      in /home/ann/src/shop
      4 files to change: 1 overwritten, 1 created, 1 removed, 1 with another mode
      the state is restored too
        M src/auth/login.ts
        A src/\\x1b[2Jnew.ts
        D src/tmp.ts
        m run.sh
        = data/model.bin left alone: too large, 31 MB
        ! build/out.js is in the way, and no checkpoint has it
    "
  `);
});

test("long plans are cut, empty ones and plans of state alone are reported as such", () => {
  const many = Array.from({ length: 40 }, (_, at) => ({ kind: "remove", path: `f${at}` }) as const);
  expect(
    planText({ plan: plan({ changes: many, untouched: [], blocked: [] }), lost: [], toolchain: [] }, PAGE),
  ).toContain("… and 20 more");
  expect(
    planText({ plan: plan({ changes: [], untouched: [], blocked: [] }), lost: [], toolchain: [] }, PAGE),
  ).toContain("no file has to change");
  expect(planText({ plan: plan(null), lost: [], toolchain: [] }, PAGE)).toContain("state only");
});

test("files that will not be ignored any more are listed before and after", () => {
  const shown = { plan: plan({ exposed: [".env", "dist/a.js", "dist/b.js"] }), lost: [], toolchain: [] };
  const line = "    ! no longer ignored; the next checkpoint includes: .env and 2 more\n";
  expect(planText(shown, PAGE)).toContain(line);
  const report = { undo: null, checkpoint: sampleSummary(), written: 0, removed: 1, steps: [] };
  expect(reportText({ ...shown, report }, PAGE)).toContain(line);
});

test("the report says how to undo", () => {
  const report = {
    undo: sampleSummary({ sequence: 8 }),
    checkpoint: sampleSummary({ sequence: 9 }),
    written: 2,
    removed: 1,
    steps: [],
  };
  expect(reportText({ plan: plan({}), report, lost: [], toolchain: [] }, PAGE)).toMatchInlineSnapshot(`
    "Restored fix-login@7: 2 files written, 1 removed. Saved as fix-login@9.
    To undo: holdfast restore fix-login@8
    "
  `);
  expect(
    reportText({ plan: plan({}), report: { ...report, undo: null }, lost: [], toolchain: [] }, PAGE),
  ).not.toContain("undo");
});
