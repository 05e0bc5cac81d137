import { expect, test } from "vitest";
import { PAGE, sampleRun } from "@holdfast/test-support/sample-run";
import type { RunWithStatus } from "../../run-status.ts";
import { displayWidth } from "../output/text.ts";
import { loopsText } from "./loops.ts";

const holder = {
  label: "holdfast run x",
  pid: 7,
  host: "h",
  takenAt: "2026-11-15T11:00:00Z",
  heartbeatAt: "2026-11-15T11:59:58Z",
};
const loop = (id: string, more: Partial<RunWithStatus>): RunWithStatus => ({
  run: sampleRun({ id, workflow: "ralph", work: { kind: "task", text: "Make all of the tests pass again" } }),
  standing: { kind: "running", ordered: null },
  resumable: false,
  priority: 0,
  holder,
  turn: null,
  order: null,
  ...more,
});

test("loops at 80 columns: who works, who is next, who needs somebody", () => {
  const loops = [
    loop("ralph-fix-tests-1a2b3c4d", {}),
    loop("ralph-rewrite-everything-5e6f7a8b", {
      standing: { kind: "stale", since: "2026-11-15T11:59:58Z", suspended: true },
    }),
    loop("ralph-docs-9c0d1e2f", { standing: { kind: "queued" }, turn: 1, priority: 10 }),
    loop("ralph-old-3a4b5c6d", { standing: { kind: "crashed", known: "certain" }, priority: -3 }),
    loop("ralph-new-7e8f9a0b", { standing: { kind: "budget_exhausted" }, holder: null }),
  ];
  const text = loopsText({ at: "", limit: 4, atWork: 2, loops }, PAGE);
  expect(text).toMatchInlineSnapshot(`
    "LOOP                               STATE             STAGE         BEAT
    ralph-fix-tests-1a2b3c4d           running           implement #2  just now
    ralph-rewrite-everything-5e6f7a8b  stale: stopped    implement #2  just now
    ralph-docs-9c0d1e2f                queued: 1         implement #2  just now
    ralph-old-3a4b5c6d                 crashed           implement #2  just now
    ralph-new-7e8f9a0b                 budget exhausted  implement #2
    At work: 2 of 4 places.
    "
  `);
  for (const line of text.split("\n")) expect(displayWidth(line)).toBeLessThanOrEqual(80);
  expect(loopsText({ at: "", limit: 4, atWork: 0, loops: [] }, PAGE)).toBe("");
});
