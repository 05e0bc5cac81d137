import { expect, test } from "vitest";
import { PAGE, sampleHolder, sampleRun, sampleRunning } from "@holdfast/test-support/sample-run";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { displayWidth } from "../output/text.ts";
import { loopsText } from "./loops.ts";

const loop = (id: string, more: Partial<RunWithStatus>): RunWithStatus => ({
  run: sampleRun({ id, workflow: "ralph", work: { kind: "task", text: "Make all of the tests pass again" } }),
  status: sampleRunning(),
  resumable: false,
  priority: 0,
  ...more,
});

test("loops at 80 columns: who works, who is next, who needs somebody", () => {
  const loops = [
    loop("ralph-fix-tests-1a2b3c4d", {}),
    loop("ralph-rewrite-everything-5e6f7a8b", {
      status: sampleRunning({ suspended: true }),
    }),
    loop("ralph-docs-9c0d1e2f", { status: { kind: "queued", holder: sampleHolder, position: 1 }, priority: 10 }),
    loop("ralph-old-3a4b5c6d", { status: { kind: "crashed", certain: true, holder: sampleHolder }, priority: -3 }),
    loop("ralph-new-7e8f9a0b", {
      status: { kind: "waiting", for: "budget", reason: "", until: null, due: false, question: null },
    }),
  ];
  const text = loopsText({ at: "", limit: 4, atWork: 2, loops }, PAGE);
  expect(text).toMatchInlineSnapshot(`
    "LOOP                               STATUS              STAGE         BEAT
    ralph-fix-tests-1a2b3c4d           running             implement #2  10 s ago
    ralph-rewrite-everything-5e6f7a8b  running: suspended  implement #2  10 s ago
    ralph-docs-9c0d1e2f                queued: 1           implement #2  10 s ago
    ralph-old-3a4b5c6d                 crashed             implement #2  10 s ago
    ralph-new-7e8f9a0b                 waiting for budget  implement #2
    At work: 2 of 4 places.
    "
  `);
  for (const line of text.split("\n")) expect(displayWidth(line)).toBeLessThanOrEqual(80);
  expect(loopsText({ at: "", limit: 4, atWork: 0, loops: [] }, PAGE)).toBe("");
});
