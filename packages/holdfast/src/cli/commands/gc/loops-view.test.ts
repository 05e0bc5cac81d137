import { expect, test } from "vitest";
import type { LoopCleanupPlan } from "../../../app.ts";
import { PAGE } from "../sample-run.ts";
import { loopsReportText, loopsText } from "./loops-view.ts";

const plans: readonly LoopCleanupPlan[] = [
  {
    run: "ralph-fix-tests-a1b2c3d4",
    dropped: [1],
    files: [
      { path: "x/checkpoints/iteration-002.json.gz", sequence: 2, action: "keep", why: "the newest", bytes: 900 },
      { path: "x/checkpoints/iteration-001.json.gz", sequence: 1, action: "drop", why: "beyond 1", bytes: 800 },
    ],
  },
];

test("each file with what becomes of it and why; nothing where there are none", () => {
  expect(loopsText(plans, PAGE)).toBe(
    [
      "",
      "LOOP                      FILE           DO    FREES  WHY",
      "ralph-fix-tests-a1b2c3d4  iteration-002  keep         the newest",
      "ralph-fix-tests-a1b2c3d4  iteration-001  drop  800 B  beyond 1",
      "",
      "Below .aiwg: would remove 1 file, keep 1.",
      "",
    ].join("\n"),
  );
  expect(loopsReportText(plans)).toBe("Removed 1 file below .aiwg.\n");
  expect([loopsText([], PAGE), loopsReportText([])]).toEqual(["", ""]);
});
