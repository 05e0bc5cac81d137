import { describe, expect, test } from "vitest";
import type { GcReport } from "@holdfast/core/gc";
import { PAGE } from "@holdfast/test-support/sample-run";
import type { LayoutCleanupPlan } from "@holdfast/workflows/plugin";
import { gcReportText, groupDecisions, loopsReportText, loopsText, planText } from "./gc.ts";

describe("view", () => {
  test("one group for each action and reason, and no decision is lost", () => {
    const groups = groupDecisions([
      { action: "drop", sequence: 1, why: "over 5", bytes: 10 },
      { action: "keep", sequence: 2, why: "tagged" },
      { action: "drop", sequence: 3, why: "over 5", bytes: 5 },
      { action: "keep", sequence: 4, why: "newest" },
    ]);
    expect(groups.map(({ action, sequences, bytes }) => [action, sequences, bytes])).toEqual([
      ["drop", [1, 3], 15],
      ["keep", [2], 0],
      ["keep", [4], 0],
    ]);
  });

  const sweep = { chunks: 0, freedBytes: 0 };

  test("a long reason continues on the next line and is never cut", () => {
    const why = "the newest of the run; the newest to resume from; only copy of files that a restore replaced";
    const plans = [{ run: "fix-login", decisions: [{ action: "keep", sequence: 12, why }] }] as const;
    const text = planText({ plans, danglingRefs: [], sideWorktrees: [], sweep, usage: [] }, PAGE);
    expect(text).toMatchInlineSnapshot(`
    "RUN        CHECKPOINTS  DO    WHY
    fix-login  12           keep  the newest of the run; the newest to resume from;
                                  only copy of files that a restore replaced

    Nothing to drop, keep 1.
    "
  `);
  });

  test("the refs of dropped checkpoints are not reported as orphans; singular and plural are right", () => {
    const tombstone = {
      run: "r",
      sequence: 1,
      entry: 3,
      digest: "",
      trigger: "manual",
      createdAt: "2026-11-15T11:00:00Z",
      droppedAt: "2026-11-15T11:00:00Z",
      why: "over",
    } as const;
    const report: GcReport = { dropped: [tombstone], sideWorktrees: [], unpinned: ["refs/holdfast/r/1"], sweep };
    expect(gcReportText(report)).toBe(
      "Dropped 1 checkpoint (it left a tombstone); nothing to free in the store yet.\n" +
        "Its files are git objects: git gc removes them.\n",
    );
    const withOrphans = {
      ...report,
      dropped: [],
      unpinned: ["refs/holdfast/r/7"],
      sweep: { ...sweep, freedBytes: 2100 },
    };
    expect(gcReportText(withOrphans)).toBe(
      "Nothing to drop; freed 2.1 kB in the store; also 1 ref orphaned by an interrupted save.\n",
    );
  });
});

describe("loops view", () => {
  const plans: readonly LayoutCleanupPlan[] = [
    {
      run: "ralph-fix-tests-a1b2c3d4",
      root: "/repo",
      dropped: [1],
      files: [
        { path: "x/checkpoints/iteration-002.json.gz", sequence: 2, action: "keep", why: "the newest", bytes: 900 },
        { path: "x/checkpoints/iteration-001.json.gz", sequence: 1, action: "drop", why: "beyond 1", bytes: 800 },
      ],
    },
  ];

  test("each file has its action and reason; without files there is no section", () => {
    expect(loopsText(plans, PAGE)).toBe(
      [
        "",
        "LOOP                      FILE           DO    FREES  WHY",
        "ralph-fix-tests-a1b2c3d4  iteration-002  keep         the newest",
        "ralph-fix-tests-a1b2c3d4  iteration-001  drop  800 B  beyond 1",
        "",
        "In /repo/.aiwg: would remove 1 file, keep 1.",
        "",
      ].join("\n"),
    );
    expect(loopsReportText(plans)).toBe("Removed 1 file in /repo/.aiwg.\n");
    expect([loopsText([], PAGE), loopsReportText([])]).toEqual(["", ""]);
  });
});
